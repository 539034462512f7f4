"""What the commands that get inside tasks share: which task, and the command after `--`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from .. import output

if TYPE_CHECKING:
    from holdfast.sdk import Client
    from holdfast.sdk.address import Address
    from holdfast.sdk.inside import Entered
    from holdfast.sdk.plain import PlainClient

MAX_WHOSE_LENGTH = 500
_TASK = re.compile(r"[A-Za-z0-9_.-]+-\d+")  # worker-0

TaskName = Annotated[
    str | None,
    typer.Argument(metavar="TASK", help="Which task: worker-0. Default: one that is held, else the first that runs."),
]


class RunsInside(TyperCommand):
    """Keeps what stands after `--` apart: it is run in the task."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            cut = args.index("--")
            ctx.meta["holdfast.command"] = args[cut + 1 :]
            args = args[:cut]
        given = list(args)  # parsing takes them away
        try:
            return list(super().parse_args(ctx, args))
        except typer.TyperException as error:
            told = error.format_message()
            if "holdfast.command" in ctx.meta or not told.startswith(("Got unexpected extra", "No such option")):
                raise
            own = 2 if _TASK.fullmatch(next(iter(given[1:]), "")) else 1
            words = shlex.join(["holdfast", ctx.info_name, *given[:own], "--", *given[own:]])
            raise typer.BadParameter(f"{told}. A command goes after --: {words}", ctx=ctx) from None


def command_of(ctx: typer.Context) -> list[str]:
    found: list[str] = ctx.meta.get("holdfast.command", [])
    return found


def as_run(words: Sequence[str]) -> dict[str, Any]:
    """As with `submit`: one word is shell text, several are a program and its arguments; none is a shell."""
    return {"script": words[0]} if len(words) == 1 else {"argv": list(words)}


def tell_whose(entered: Entered) -> None:
    """Where that is not one's own job."""
    whose = entered.more.get("whose")
    if isinstance(whose, str) and whose:
        output.note(f"holdfast: {output.safe(whose[:MAX_WHOSE_LENGTH])}")


def find_server() -> Address:
    """Where the server is, without loading the client that most commands use."""
    from holdfast.sdk.address import find_address

    return find_address()


def quick_client() -> Client | PlainClient:
    """For the few calls that lead inside; for a server on this machine one that is loaded at once."""
    from holdfast.sdk.plain import PlainClient, takes_plain

    address = find_server()
    if takes_plain(address):
        return PlainClient(address)
    from holdfast.sdk import Client

    return Client()

"""Shared by exec and ssh: the task argument, and the command after `--`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import output
from ..command_after_dashes import COMMAND_KEY, DoubleDashCommand

if TYPE_CHECKING:
    from holdfast.sdk import Client
    from holdfast.sdk.address import Address
    from holdfast.sdk.inside import SessionTarget
    from holdfast.sdk.plain_client import PlainClient

MAX_OWNER_LENGTH = 500
_TASK_NAME_PATTERN = re.compile(r"[A-Za-z0-9_.-]+-\d+")  # worker-0

TaskNameArgument = Annotated[
    str | None, typer.Argument(metavar="TASK", help="Task: worker-0. Default: a held task, else the first running one.")
]


class TaskCommand(DoubleDashCommand):
    """A command that keeps the arguments after `--` as the command to run in the task."""

    def explain_missing_dashes(self, ctx: Any, args: list[str], message: str) -> str | None:
        forgotten = message.startswith(("Got unexpected extra", "No such option"))
        if COMMAND_KEY in ctx.meta or not forgotten:
            return None
        own = 2 if _TASK_NAME_PATTERN.fullmatch(next(iter(args[1:]), "")) else 1
        words = shlex.join(["holdfast", ctx.info_name, *args[:own], "--", *args[own:]])
        return f"{message}. Put a command after --: {words}"


def build_exec_request(words: Sequence[str]) -> dict[str, Any]:
    """Build the exec request: one word is shell text, several are argv; none starts a shell."""
    return {"script": words[0]} if len(words) == 1 else {"argv": list(words)}


def print_owner(entered: SessionTarget) -> None:
    """Print the owner, if it is another user's job."""
    whose = entered.details.get("whose")
    if isinstance(whose, str) and whose:
        output.print_note(f"holdfast: {output.escape(whose[:MAX_OWNER_LENGTH])}")


def find_server_address() -> Address:
    """Return the server address without loading the full client."""
    from holdfast.sdk.address import find_address

    return find_address()


def open_task_client() -> Client | PlainClient:
    """Return a client for task access; for a local server, one that loads fast."""
    from holdfast.sdk.plain_client import PlainClient, can_use_plain_client

    address = find_server_address()
    if can_use_plain_client(address):
        return PlainClient(address)
    from holdfast.sdk import Client

    return Client()

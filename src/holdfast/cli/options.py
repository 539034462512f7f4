"""Arguments and options shared by several commands."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.core.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.sdk import Client


def open_client(*, retry_timeout: float = 0.0, timeout: float = 30.0) -> Client:
    """Return a client for the server set by the environment, the saved login or the state folder."""
    from holdfast.sdk import Client

    return Client(retry_timeout=retry_timeout, timeout=timeout)


def make_completer(list_names: Callable[[Client], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return a function that completes names; it returns nothing if no server answers."""

    def complete_name(incomplete: str) -> list[str]:
        try:
            with open_client(timeout=2) as client:
                return [name for name in list_names(client) if name.startswith(incomplete)]
        except HoldfastError:
            return []

    return complete_name


def expand_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter that is a dataclass by its fields: Typer needs one parameter per option."""
    signature = inspect.signature(command, eval_str=True)
    annotations: dict[str, Any] = {name: each.annotation for name, each in signature.parameters.items()}
    groups: dict[str, Any] = {name: annotation for name, annotation in annotations.items() if is_dataclass(annotation)}

    @functools.wraps(command)
    def run_command(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    expanded = {name: inspect.signature(group, eval_str=True).parameters.values() for name, group in groups.items()}
    flat = [each for name, own in signature.parameters.items() for each in expanded.get(name, [own])]
    keywords = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in flat]
    run_command.__signature__ = signature.replace(parameters=keywords)  # type: ignore[attr-defined]
    return run_command


complete_job = make_completer(lambda client: [job.id for job in client.list_jobs(limit=50).items])  # the newest jobs

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
JobRefArgument = Annotated[
    str, typer.Argument(metavar="JOB", help="Job id, a unique part of it, or a name.", autocompletion=complete_job)
]
JobRefsArgument = Annotated[
    list[str],
    typer.Argument(metavar="JOB...", help="Job ids, unique parts of them, or names.", autocompletion=complete_job),
]
FollowOption = Annotated[bool, typer.Option("--follow", "-f", help="Stream the log; exit with the job's exit code.")]
WaitOption = Annotated[bool, typer.Option("--wait", help="Wait until the job ends; exit with its exit code.")]
DisplayNameOption = Annotated[str | None, typer.Option(help="Display name.")]
DescriptionOption = Annotated[str | None, typer.Option(help="Description.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation prompt.")]

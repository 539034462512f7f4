"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from holdfast.sdk import Client


def complete_job(incomplete: str) -> list[str]:
    """Ids of the newest jobs, for the shell's completion; silent when there is no server to ask."""
    from holdfast.core.errors import HoldfastError

    try:
        with connect(timeout=2) as client:
            return [job.id for job in client.jobs(limit=50).items if job.id.startswith(incomplete)]
    except HoldfastError:
        return []


def connect(*, patience: float = 0.0, timeout: float = 30.0) -> Client:
    """A client for the server that environment, login or state folder name."""
    from holdfast.sdk import Client

    return Client(patience=patience, timeout=timeout)


Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
JobRef = Annotated[
    str, typer.Argument(metavar="JOB", help="Id, a unique part of it, or a name.", autocompletion=complete_job)
]
JobRefs = Annotated[
    list[str],
    typer.Argument(metavar="JOB...", help="Ids, unique parts of them, or names.", autocompletion=complete_job),
]
Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Print the log as it comes; end with the job's exit code.")
]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for the job's end; end with its exit code.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

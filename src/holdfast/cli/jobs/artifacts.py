"""artifacts: what was kept of a job's files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .. import output
from ..options import JobRef, Json, connect
from ..quantities import show_instant, show_size
from ..transfers import bar, below, save
from .artifact_messages import warn_of_artifacts

artifacts = typer.Typer(help="Artifacts: what was kept of a job's files.", no_args_is_help=True)


NONE = "Nothing was kept of this job. What it writes to ~/artifacts is, when it ends."


@artifacts.command("ls")
def list_artifacts(job: JobRef, json: Json = False) -> None:
    """List a job's artifacts."""
    with connect() as client:
        found = client.artifacts(job)
        if not json:
            warn_of_artifacts(client, found.job)
    if json:
        output.emit_json(found)
        return
    if not found.items:
        output.note(NONE)
        return
    rows = [[item.name, show_size(item.size), show_instant(item.modified_at)] for item in found.items]
    output.table(("NAME", "SIZE", "MODIFIED"), rows, drop=("MODIFIED", "SIZE"))
    if not found.complete:
        output.note(f"There are more than these {len(rows)}.")
    output.hint(f"holdfast artifacts get {found.job}")


@artifacts.command("get")
def get_artifacts(
    job: JobRef,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Which one. Default: all.")] = None,
    target: Annotated[
        Path | None, typer.Option("--to", "-o", metavar="FOLDER", help="Where to. Default: a folder of the job's id.")
    ] = None,
    json: Json = False,
) -> None:
    """Copy a job's artifacts to this machine."""
    from holdfast.core.errors import NotFound

    with connect() as client:
        found = client.artifacts(job)
        wanted = [item for item in found.items if name in (None, item.name)]
        if name is not None and not wanted:
            raise NotFound(f"{found.job} has no artifact {name}", hint=f"holdfast artifacts ls {found.job}")
        folder = target or Path(found.job)
        with bar(found.job, sum(item.size for item in wanted)) as told:
            for item in wanted:
                save(client.read_artifact(found.job, item.name), below(folder, item.name), told)
        if not json:
            warn_of_artifacts(client, found.job)
    if json:
        output.emit_json({"folder": str(folder), "items": wanted})
    elif not wanted:
        output.note(NONE)
    else:
        total = show_size(sum(item.size for item in wanted))
        output.emit(
            f"Got {len(wanted)} {'file' if len(wanted) == 1 else 'files'} ({total}) into {output.safe(folder)}."
        )

"""The `artifacts` commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .. import output
from ..options import JobRefArgument, JsonOption, open_client
from ..quantities import format_local_time, format_size
from ..transfers import resolve_path_below, save_file, show_progress_bar
from .artifact_messages import warn_about_unsaved_artifacts

artifacts_app = typer.Typer(help="List and download the artifacts of a job.", no_args_is_help=True)


NO_ARTIFACTS_MESSAGE = "This job has no artifacts. Files in ~/artifacts are kept when a task ends."


@artifacts_app.command("ls")
def list_artifacts(job: JobRefArgument, json: JsonOption = False) -> None:
    """List a job's artifacts."""
    with open_client() as client:
        found = client.list_artifacts(job)
        if not json:
            warn_about_unsaved_artifacts(client, found.job)
    if json:
        output.emit_json(found)
        return
    if not found.items:
        output.print_note(NO_ARTIFACTS_MESSAGE)
        return
    rows = [[item.name, format_size(item.size), format_local_time(item.modified_at)] for item in found.items]
    output.emit_table(("NAME", "SIZE", "MODIFIED"), rows, drop=("MODIFIED", "SIZE"))
    if not found.complete:
        output.print_note(f"Only the first {len(rows)} are listed.")
    output.print_hint(f"holdfast artifacts get {found.job}")


@artifacts_app.command("get")
def download_artifacts(
    job: JobRefArgument,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Name of one artifact. Default: all.")] = None,
    target: Annotated[
        Path | None,
        typer.Option("--to", "-o", metavar="FOLDER", help="Target folder. Default: a folder named after the job's id."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Download a job's artifacts."""
    from holdfast.core.errors import NotFound

    with open_client() as client:
        found = client.list_artifacts(job)
        wanted = [item for item in found.items if name in (None, item.name)]
        if name is not None and not wanted:
            raise NotFound(f"{found.job} has no artifact {name}", hint=f"Run `holdfast artifacts ls {found.job}`.")
        folder = target or Path(found.job)
        with show_progress_bar(found.job, sum(item.size for item in wanted)) as progress:
            for item in wanted:
                save_file(client.stream_artifact(found.job, item.name), resolve_path_below(folder, item.name), progress)
        if not json:
            warn_about_unsaved_artifacts(client, found.job)
    if json:
        output.emit_json({"folder": str(folder), "items": wanted})
    elif not wanted:
        output.print_note(NO_ARTIFACTS_MESSAGE)
    else:
        total = format_size(sum(item.size for item in wanted))
        output.emit_line(
            f"Saved {len(wanted)} {'file' if len(wanted) == 1 else 'files'} ({total}) to {output.escape(folder)}."
        )

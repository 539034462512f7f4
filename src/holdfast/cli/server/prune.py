"""`holdfast prune`: what takes room on the server's disk, and freeing some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .. import output
from ..options import Json, Yes, connect
from ..prompts import sure
from ..quantities import parse_duration, show_instant, show_size

if TYPE_CHECKING:
    from holdfast.api.storage import Pruned, PruneResult, Storage
    from holdfast.sdk import Client

MAX_USERS = 10  # in the table
_WORDS = {
    "logs": "Logs of ended jobs",
    "artifacts": "Artifacts",
    "held": "Files of held tasks",
    "images": "Images",
    "metrics": "Metrics",
    "tasks": "Files of running tasks",
    "files": "Groups' files and volumes",
    "database": "Database",
}
_OPTIONS = {
    "logs": "--logs",
    "artifacts": "--artifacts",
    "held": "--held",
    "images": "--unused-images",
    "metrics": "--metrics",
}


def prune(
    logs: Annotated[bool, typer.Option("--logs", help="Logs of jobs that have ended.")] = False,
    artifacts: Annotated[bool, typer.Option("--artifacts", help="Artifacts of jobs that have ended.")] = False,
    held: Annotated[bool, typer.Option("--held", help="Files of held tasks whose processes are gone.")] = False,
    unused_images: Annotated[bool, typer.Option("--unused-images", help="Images that no active job uses.")] = False,
    image: Annotated[list[str] | None, typer.Option("--image", metavar="NAME", help="This image. Repeatable.")] = None,
    metrics: Annotated[bool, typer.Option("--metrics", help="Metrics of jobs that have ended.")] = False,
    older_than: Annotated[str, typer.Option(metavar="AGE", help="Only of jobs that ended longer ago: 3d, 12h.")] = "0s",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Show what takes room on the server's disk, and remove what is not needed. For admins.

    Without options it shows what there is and removes nothing.
    """
    chosen = {"logs": logs, "artifacts": artifacts, "held": held, "metrics": metrics}
    kinds = [kind for kind, wanted in chosen.items() if wanted]
    names = image or []
    if unused_images and names:
        raise typer.BadParameter("name images or take all unused ones, not both", param_hint="--image")
    if unused_images or names:
        kinds.append("images")
    age = parse_duration(older_than)
    with connect() as client:
        if not kinds:
            with output.progress("Counting"):
                found = client.storage()
            _show_storage(found, json)
            return
        with output.progress("Counting"):
            preview = client.prune_storage(kinds, images=names, older_than=age)
        if not json and not any(item.count for item in preview.items):
            output.emit("Nothing to remove.")
            return
        if dry_run:
            _show_result("would be removed", preview, json)
            return
        if not json:
            _show_result("will be removed", preview, json)
        sure(f"Remove {_summary(preview)}?", yes)
        with output.progress("Removing"):
            done = _remove(client, kinds, names, age)
    _show_result("removed", done, json)


def _remove(client: Client, kinds: list[str], images: list[str], age: float) -> PruneResult:
    """The server does a part of it at each call."""
    from holdfast.api.storage import Pruned, PruneResult

    totals: dict[str, Pruned] = {}
    while True:
        done = client.prune_storage(kinds, images=images, older_than=age, dry_run=False)
        for item in done.items:
            before = totals.get(item.kind, Pruned(kind=item.kind))
            totals[item.kind] = Pruned(kind=item.kind, count=before.count + item.count, bytes=before.bytes + item.bytes)
        if not done.more:
            return PruneResult(items=tuple(totals.values()))
        kinds = [kind for kind in kinds if kind == "logs"]  # the others are done at the first call


def _show_storage(found: Storage, json: bool) -> None:
    if json:
        output.emit_json(found)
        return
    disk = found.disk
    state = "full" if disk.free < disk.full_below else f"full below {show_size(disk.full_below)}"
    output.emit(f"Disk of the server: {show_size(disk.free)} free of {show_size(disk.total)} ({state})")
    if disk.total_files:
        output.emit(f"Inodes: {disk.free_files:,} free of {disk.total_files:,}")
    output.emit()
    rows = [
        [
            _WORDS.get(item.kind, item.kind),
            show_size(item.bytes),
            "" if item.count is None else item.count,
            show_instant(item.oldest),
            _OPTIONS.get(item.kind, "") if item.prunable else "",
        ]
        for item in sorted(found.items, key=lambda item: -item.bytes)
    ]
    output.table(("WHAT", "SIZE", "COUNT", "OLDEST", "REMOVE WITH"), rows, drop=("OLDEST", "COUNT"))
    if found.users:
        output.emit()
        output.table(
            ("USER", "LOGS", "ARTIFACTS"),
            [[each.user, show_size(each.logs), show_size(each.artifacts)] for each in found.users[:MAX_USERS]],
        )
    if not found.complete:
        output.note("There is more: counting all of it takes too long.")
    output.hint("holdfast prune --logs --older-than 3d", "holdfast prune --artifacts --older-than 3d")


def _show_result(what: str, result: PruneResult, json: bool) -> None:
    if json:
        output.emit_json(result)
        return
    rows = [[_WORDS.get(item.kind, item.kind), item.count, show_size(item.bytes)] for item in result.items]
    output.table(("WHAT", "COUNT", "SIZE"), rows)
    output.emit(f"{_summary(result)} {what}.")


def _summary(result: PruneResult) -> str:
    count = sum(item.count for item in result.items)
    size = _size_of(result.items)
    return f"{count} {'item' if count == 1 else 'items'} ({size})"


def _size_of(items: tuple[Pruned, ...]) -> str:
    return show_size(sum(item.bytes for item in items))

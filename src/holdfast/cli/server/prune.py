"""The `prune` command: disk usage of the server, and cleanup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .. import output
from ..options import JsonOption, YesOption, open_client
from ..prompts import confirm_or_exit
from ..quantities import format_local_time, format_size, parse_duration

if TYPE_CHECKING:
    from holdfast.api.storage import PrunedItem, PruneResult, Storage
    from holdfast.sdk import Client

MAX_USERS = 10  # in the table
_KIND_LABELS = {
    "logs": "Logs of ended jobs",
    "artifacts": "Artifacts",
    "held": "Files of held tasks",
    "images": "Images",
    "metrics": "Metrics",
    "tasks": "Files of running tasks",
    "files": "Groups' files and volumes",
    "database": "Database",
}
_KIND_OPTIONS = {
    "logs": "--logs",
    "artifacts": "--artifacts",
    "held": "--held",
    "images": "--unused-images",
    "metrics": "--metrics",
}


def prune(
    logs: Annotated[bool, typer.Option("--logs", help="Delete logs of ended jobs.")] = False,
    artifacts: Annotated[bool, typer.Option("--artifacts", help="Delete artifacts of ended jobs.")] = False,
    held: Annotated[bool, typer.Option("--held", help="Delete files of held tasks without processes.")] = False,
    unused_images: Annotated[bool, typer.Option("--unused-images", help="Delete images that no job uses.")] = False,
    image: Annotated[
        list[str] | None, typer.Option("--image", metavar="NAME", help="Delete an image. Repeatable.")
    ] = None,
    metrics: Annotated[bool, typer.Option("--metrics", help="Delete metrics of ended jobs.")] = False,
    older_than: Annotated[str, typer.Option(metavar="AGE", help="Only jobs that ended longer ago: 3d, 12h.")] = "0s",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """Show the disk usage of the server, and remove data that is not needed. Admins only.

    Without options, shows the disk usage and removes nothing.
    """
    chosen = {"logs": logs, "artifacts": artifacts, "held": held, "metrics": metrics}
    kinds = [kind for kind, wanted in chosen.items() if wanted]
    names = image or []
    if unused_images and names:
        raise typer.BadParameter("--image and --unused-images cannot be used together", param_hint="--image")
    if unused_images or names:
        kinds.append("images")
    age = parse_duration(older_than)
    with open_client() as client:
        if not kinds:
            with output.show_progress("Counting"):
                found = client.get_storage()
            _show_storage(found, json)
            return
        with output.show_progress("Counting"):
            preview = client.prune_storage(kinds, images=names, older_than=age)
        if not json and not any(item.count for item in preview.items):
            output.emit_line("Nothing to remove.")
            return
        if dry_run:
            _show_result("would be removed", preview, json)
            return
        if not json:
            _show_result("will be removed", preview, json)
        confirm_or_exit(f"Delete {_summarize_result(preview)}?", yes)
        with output.show_progress("Removing"):
            done = _remove_in_batches(client, kinds, names, age)
    _show_result("removed", done, json)


def _remove_in_batches(client: Client, kinds: list[str], images: list[str], age: float) -> PruneResult:
    """Repeat the request: the server removes a part with each one."""
    from holdfast.api.storage import PrunedItem, PruneResult

    totals: dict[str, PrunedItem] = {}
    while True:
        done = client.prune_storage(kinds, images=images, older_than=age, dry_run=False)
        for item in done.items:
            before = totals.get(item.kind, PrunedItem(kind=item.kind))
            totals[item.kind] = PrunedItem(
                kind=item.kind, count=before.count + item.count, bytes=before.bytes + item.bytes
            )
        if not done.more:
            return PruneResult(items=tuple(totals.values()))
        kinds = [kind for kind in kinds if kind == "logs"]  # the first request removed the others


def _show_storage(found: Storage, json: bool) -> None:
    if json:
        output.emit_json(found)
        return
    disk = found.disk
    state = "full" if disk.free < disk.full_below else f"full below {format_size(disk.full_below)}"
    output.emit_line(f"Server disk: {format_size(disk.free)} free of {format_size(disk.total)} ({state})")
    if disk.total_files:
        output.emit_line(f"Inodes: {disk.free_files:,} free of {disk.total_files:,}")
    output.emit_line()
    rows = [
        [
            _KIND_LABELS.get(item.kind, item.kind),
            format_size(item.bytes),
            "" if item.count is None else item.count,
            format_local_time(item.oldest),
            _KIND_OPTIONS.get(item.kind, "") if item.prunable else "",
        ]
        for item in sorted(found.items, key=lambda item: -item.bytes)
    ]
    output.emit_table(("WHAT", "SIZE", "COUNT", "OLDEST", "REMOVE WITH"), rows, drop=("OLDEST", "COUNT"))
    if found.users:
        output.emit_line()
        output.emit_table(
            ("USER", "LOGS", "ARTIFACTS"),
            [[each.user, format_size(each.logs), format_size(each.artifacts)] for each in found.users[:MAX_USERS]],
        )
    if not found.complete:
        output.print_note("Incomplete: counting everything takes too long.")
    output.print_hint("holdfast prune --logs --older-than 3d", "holdfast prune --artifacts --older-than 3d")


def _show_result(what: str, result: PruneResult, json: bool) -> None:
    if json:
        output.emit_json(result)
        return
    rows = [[_KIND_LABELS.get(item.kind, item.kind), item.count, format_size(item.bytes)] for item in result.items]
    output.emit_table(("WHAT", "COUNT", "SIZE"), rows)
    output.emit_line(f"{_summarize_result(result)} {what}.")


def _summarize_result(result: PruneResult) -> str:
    count = sum(item.count for item in result.items)
    size = _format_total_size(result.items)
    return f"{count} {'item' if count == 1 else 'items'} ({size})"


def _format_total_size(items: tuple[PrunedItem, ...]) -> str:
    return format_size(sum(item.bytes for item in items))

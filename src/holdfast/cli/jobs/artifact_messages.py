"""Messages about a job's artifacts, from its events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import output

if TYPE_CHECKING:
    from holdfast.sdk import Client, Event

PAGE_SIZE = 1000  # events per request
MAX_LINES = 5  # of a job with many tasks; `holdfast events` prints all
_INCOMPLETE_EVENT_KIND = "artifacts-incomplete"  # kind of the event about a task with files that were not saved


def list_all_events(client: Client, ref: str) -> list[Event]:
    found: list[Event] = []
    after: int | None = None
    while True:
        page = client.list_events(ref, after=after, limit=PAGE_SIZE)
        found += page.items
        if page.next is None or not page.items:
            return found
        after = page.next


def format_artifact_lines(events: list[Event], *, trouble: bool = False) -> list[str]:
    """Return one line per task, of its newest try. `trouble`: only tasks with files that were not kept."""
    newest = {event.task: event for event in events if event.kind in ("artifacts", _INCOMPLETE_EVENT_KIND)}
    return [
        f"{task}: {event.message}" if task else event.message
        for task, event in newest.items()
        if not trouble or event.kind == _INCOMPLETE_EVENT_KIND
    ]


def shorten_lines(lines: Sequence[str], job_id: str) -> list[str]:
    if len(lines) <= MAX_LINES:
        return list(lines)
    return [*lines[:MAX_LINES], f"and {len(lines) - MAX_LINES} more: holdfast events {job_id}"]


def warn_about_unsaved_artifacts(client: Client, job_id: str) -> None:
    for line in shorten_lines(format_artifact_lines(list_all_events(client, job_id), trouble=True), job_id):
        output.print_warning(line)

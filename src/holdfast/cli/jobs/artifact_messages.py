"""What became of a job's artifacts, as its events tell it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import output

if TYPE_CHECKING:
    from holdfast.sdk import Client, Event

PAGE = 1000  # events asked for at once
MAX_LINES = 5  # of a job of many tasks; `holdfast events` prints all
_ALL_KEPT = re.compile(r"\d+ files? \([^;()]*\) kept as artifacts\.")


def all_events(client: Client, ref: str) -> list[Event]:
    found: list[Event] = []
    after: int | None = None
    while True:
        page = client.events(ref, after=after, limit=PAGE)
        found += page.items
        if page.next is None or not page.items:
            return found
        after = page.next


def artifact_lines(events: list[Event], *, trouble: bool = False) -> list[str]:
    """One line for each task, of its newest try. `trouble`: only of those that not all was kept of."""
    newest = {event.task: event.message for event in events if event.kind == "artifacts"}
    return [
        f"{task}: {message}" if task else message
        for task, message in newest.items()
        if not (trouble and _ALL_KEPT.fullmatch(message))
    ]


def shortened(lines: Sequence[str], job_id: str) -> list[str]:
    if len(lines) <= MAX_LINES:
        return list(lines)
    return [*lines[:MAX_LINES], f"and {len(lines) - MAX_LINES} more: holdfast events {job_id}"]


def warn_of_artifacts(client: Client, job_id: str) -> None:
    """On stderr: what was not kept, which nobody would look for in the events."""
    for line in shortened(artifact_lines(all_events(client, job_id), trouble=True), job_id):
        output.note(f"warning: {output.safe(line)}", "yellow")

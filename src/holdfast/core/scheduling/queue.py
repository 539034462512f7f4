"""The queue: one sorted list per group."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import merge
from itertools import islice

from .placement import QueueEntry

_EntryKey = tuple[tuple[int, tuple[float, str]], str]


class Queue:
    """Waiting entries by priority, then by submission time."""

    def __init__(self) -> None:
        self._waiting: dict[str, QueueEntry] = {}
        self._groups: dict[str, list[_EntryKey]] = {}
        self._unchecked: dict[str, None] = {}  # not checked yet whether they can ever run

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, id: str) -> bool:
        return id in self._waiting

    def snapshot(self) -> Queue:
        """Return a copy to read while this one changes."""
        queue = Queue()
        queue._waiting = dict(self._waiting)
        queue._groups = {group: list(entries) for group, entries in self._groups.items()}
        return queue

    def list_groups(self) -> list[str]:
        return list(self._groups)

    def get(self, id: str) -> QueueEntry | None:
        return self._waiting.get(id)

    def add(self, waiting: QueueEntry) -> None:
        self.remove(waiting.id)
        self._waiting[waiting.id] = waiting
        insort(self._groups.setdefault(waiting.group, []), (waiting.key, waiting.id))
        self._unchecked[waiting.id] = None

    def remove(self, id: str) -> None:
        waiting = self._waiting.pop(id, None)
        self._unchecked.pop(id, None)
        if waiting is None:
            return
        entries = self._groups[waiting.group]
        del entries[bisect_left(entries, (waiting.key, id))]
        if not entries:
            del self._groups[waiting.group]

    def pop_unchecked_entries(self) -> list[QueueEntry]:
        unchecked, self._unchecked = self._unchecked, {}
        return [self._waiting[id] for id in unchecked]

    def mark_all_unchecked(self) -> None:
        """Check again which entries can ever run."""
        self._unchecked = dict.fromkeys(self._waiting)

    def iter_entries(self, closed: set[str]) -> Iterator[QueueEntry]:
        """Yield entries in order; a group added to `closed` meanwhile is skipped from then on."""

        def iter_group(group: str) -> Iterator[_EntryKey]:
            for entry in tuple(self._groups[group]):
                if group in closed:
                    return
                yield entry

        for _, id in merge(*(iter_group(group) for group in tuple(self._groups))):
            waiting = self._waiting.get(id)
            if waiting is not None and waiting.group not in closed:
                yield waiting

    def list_first_entries(self, of_each: int, in_all: int) -> list[QueueEntry]:
        """Return the first entries of each group, in order."""
        entries = merge(*(group[:of_each] for group in self._groups.values()))
        return [self._waiting[id] for _, id in islice(entries, in_all)]

    def list_entries_ahead(self, waiting: QueueEntry, most: int) -> list[QueueEntry]:
        """Return the entries of all groups ahead of it, in order."""
        key = (waiting.key, waiting.id)
        entries = merge(*(group[: min(bisect_left(group, key), most)] for group in self._groups.values()))
        return [self._waiting[id] for _, id in islice(entries, most)]

    def count_entries_ahead(self, waiting: QueueEntry) -> int:
        """Count the entries of all groups ahead of it."""
        return sum(bisect_left(group, (waiting.key, waiting.id)) for group in self._groups.values())

    def count_entries_ahead_in_group(self, waiting: QueueEntry) -> int:
        return bisect_left(self._groups.get(waiting.group, []), (waiting.key, waiting.id))

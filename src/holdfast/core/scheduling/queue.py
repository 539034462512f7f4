"""What waits, in order: one sorted list per group."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import merge
from itertools import islice

from .placement import Waiting

_Entry = tuple[tuple[int, tuple[float, str]], str]


class Queue:
    """What waits, highest priority first, then oldest first."""

    def __init__(self) -> None:
        self._waiting: dict[str, Waiting] = {}
        self._groups: dict[str, list[_Entry]] = {}
        self._unchecked: dict[str, None] = {}  # whether they could ever run

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, id: str) -> bool:
        return id in self._waiting

    def still(self) -> Queue:
        """As it stands now: another one, to be read while this one changes."""
        queue = Queue()
        queue._waiting = dict(self._waiting)
        queue._groups = {group: list(entries) for group, entries in self._groups.items()}
        return queue

    def groups(self) -> list[str]:
        """Those of which something waits."""
        return list(self._groups)

    def get(self, id: str) -> Waiting | None:
        return self._waiting.get(id)

    def add(self, waiting: Waiting) -> None:
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

    def take_unchecked(self) -> list[Waiting]:
        unchecked, self._unchecked = self._unchecked, {}
        return [self._waiting[id] for id in unchecked]

    def check_again(self) -> None:
        """What may ever run has changed."""
        self._unchecked = dict.fromkeys(self._waiting)

    def walk(self, closed: set[str]) -> Iterator[Waiting]:
        """In order; a group put into `closed` on the way is left out from then on."""

        def of(group: str) -> Iterator[_Entry]:
            for entry in tuple(self._groups[group]):
                if group in closed:
                    return
                yield entry

        for _, id in merge(*(of(group) for group in tuple(self._groups))):
            waiting = self._waiting.get(id)
            if waiting is not None and waiting.group not in closed:
                yield waiting

    def first(self, of_each: int, in_all: int) -> list[Waiting]:
        """The first of each group, in order."""
        entries = merge(*(group[:of_each] for group in self._groups.values()))
        return [self._waiting[id] for _, id in islice(entries, in_all)]

    def before(self, waiting: Waiting, most: int) -> list[Waiting]:
        """Those of all groups that stand, or would stand, before it, in order."""
        key = (waiting.key, waiting.id)
        entries = merge(*(group[: min(bisect_left(group, key), most)] for group in self._groups.values()))
        return [self._waiting[id] for _, id in islice(entries, most)]

    def count_before(self, waiting: Waiting) -> int:
        """How many those are."""
        return sum(bisect_left(group, (waiting.key, waiting.id)) for group in self._groups.values())

    def ahead(self, waiting: Waiting) -> int:
        """How many of its group stand, or would stand, before it."""
        return bisect_left(self._groups.get(waiting.group, []), (waiting.key, waiting.id))

"""Finds a task's processes without cgroups: the descendants of its runner. Blocking.

One scan of all processes of the machine serves all tasks. In a sandbox no process can leave the tree, since orphans
become children of its first process. Without one they can: those are found because they were in the tree before, or
have the attempt's cookie in their environment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from ..folder_content import StartNote
from ..processes import COOKIE_VARIABLE, read_process_variable
from .process_metrics import ProcessScan, scan_processes

ProcessKey = tuple[int, int]  # pid and start time: unique


class ProcessRoot(Protocol):
    @property
    def attempt_id(self) -> str: ...
    @property
    def note(self) -> StartNote: ...
    @property
    def runner(self) -> int: ...
    @property
    def helpers(self) -> tuple[int, ...]: ...
    @property
    def cookie(self) -> str: ...


class ProcessTrees:
    def __init__(self) -> None:
        self._scan = ProcessScan({}, set())
        self._members: dict[str, list[ProcessKey]] = {}  # of tasks without a sandbox, at the last scan
        self._cookies: dict[ProcessKey, str] = {}  # of processes outside all trees; empty: no cookie

    def find_processes(self, tasks: Sequence[ProcessRoot], most: int) -> dict[str, list[int]]:
        """Return the processes of each, without its runner; tasks without any are left out, and all if the machine has
        too many."""
        found = scan_processes(most)
        if found is None:
            return {}
        self._scan = found
        below: dict[int, list[int]] = {}
        for pid, stat in found.found.items():
            below.setdefault(stat.parent, []).append(pid)
        trees = {task.attempt_id: _list_descendants((task.runner, *task.helpers), below) for task in tasks}
        plain = {task.cookie: task.attempt_id for task in tasks if not task.note.sandbox}
        if plain:
            outside = {pid for task in tasks for pid in (task.runner, *task.helpers)}
            self._add_detached_processes(plain, trees, below, outside)
        return {name: tree for name, tree in trees.items() if tree}

    def _add_detached_processes(
        self, plain: dict[str, str], trees: dict[str, list[int]], below: dict[int, list[int]], outside: set[int]
    ) -> None:
        """Add the processes that have left their trees. `outside`: may have a cookie, but are not the task's own."""
        here = self._scan.found
        for name in plain.values():
            lost = [pid for pid, started in self._members.get(name, ()) if pid in here and here[pid].started == started]
            trees[name] = _add_subtrees(trees[name], lost, below)
        self._read_cookies(outside.union(*trees.values()))
        found: dict[str, list[int]] = {}
        for (pid, _), cookie in self._cookies.items():
            if cookie in plain:
                found.setdefault(plain[cookie], []).append(pid)
        for name, pids in found.items():
            trees[name] = _add_subtrees(trees[name], pids, below)
        for name in plain.values():
            self._members[name] = [(pid, here[pid].started) for pid in trees[name]]
            if not trees[name]:
                self.drop_task(name)

    def _read_cookies(self, placed: Collection[int]) -> None:
        """Read the cookie of each process without a tree, once: an unknown cookie may belong to a later task."""
        strange = {(pid, stat.started) for pid, stat in self._scan.found.items() if pid not in placed}
        self._cookies = {key: cookie for key, cookie in self._cookies.items() if key in strange}
        for key in strange.difference(self._cookies):
            self._cookies[key] = read_process_variable(key[0], COOKIE_VARIABLE)

    def drop_task(self, name: str) -> None:
        """Drop an ended task. Thread-safe."""
        self._members.pop(name, None)

    def sum_cpu_seconds(self, pids: Iterable[int], before: Collection[int]) -> tuple[float, bool]:
        """Return the CPU seconds at the last scan, and whether none of those `before` exited during it."""
        found = self._scan.found
        return sum(found[pid].cpu for pid in pids if pid in found), self._scan.missed.isdisjoint(before)


def _list_descendants(roots: Iterable[int], below: dict[int, list[int]]) -> list[int]:
    ahead = list(roots)
    tree: dict[int, None] = {}
    while ahead:
        for pid in below.get(ahead.pop(), ()):
            if pid not in tree:
                tree[pid] = None
                ahead.append(pid)
    return list(tree)


def _add_subtrees(tree: list[int], more: Iterable[int], below: dict[int, list[int]]) -> list[int]:
    members = set(tree)
    new = [pid for pid in more if pid not in members]
    return list(dict.fromkeys([*tree, *new, *_list_descendants(new, below)]))

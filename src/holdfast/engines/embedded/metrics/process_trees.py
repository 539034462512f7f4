"""Which processes are a task's, where no control group tells: those that descend from its runner. Blocking.

One look at all processes of the machine serves all tasks. In a sandbox nobody can leave the tree, for orphans become
children of its first process. Without one they may: such are known because they were in the tree before, or carry
the attempt's cookie in their environment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from ..folder_content import StartNote
from ..processes import COOKIE
from .cgroup_metrics import read_file
from .process_metrics import Scan, scan

_MAX_ENVIRONMENT_LENGTH = 2 << 20

Key = tuple[int, int]  # pid and start: of one process, and no other


class Rooted(Protocol):
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


class Forest:
    def __init__(self) -> None:
        self._scan = Scan({}, set())
        self._members: dict[str, list[Key]] = {}  # of tasks without a sandbox, when they were last looked at
        self._cookies: dict[Key, str] = {}  # of processes outside of all trees; empty: it carries none

    def grow(self, tasks: Sequence[Rooted], most: int) -> dict[str, list[int]]:
        """The processes of each, without its runner; those without any are left out, and all when the machine has too
        many."""
        found = scan(most)
        if found is None:
            return {}
        self._scan = found
        below: dict[int, list[int]] = {}
        for pid, stat in found.found.items():
            below.setdefault(stat.parent, []).append(pid)
        trees = {task.attempt_id: _descend((task.runner, *task.helpers), below) for task in tasks}
        plain = {task.cookie: task.attempt_id for task in tasks if not task.note.sandbox}
        if plain:
            outside = {pid for task in tasks for pid in (task.runner, *task.helpers)}
            self._find_lost(plain, trees, below, outside)
        return {name: tree for name, tree in trees.items() if tree}

    def _find_lost(
        self, plain: dict[str, str], trees: dict[str, list[int]], below: dict[int, list[int]], outside: set[int]
    ) -> None:
        """Add those that have left their trees. `outside`: they may carry a cookie, and are none of the task's own."""
        here = self._scan.found
        for name in plain.values():
            lost = [pid for pid, started in self._members.get(name, ()) if pid in here and here[pid].started == started]
            trees[name] = _add(trees[name], lost, below)
        self._read_cookies(outside.union(*trees.values()))
        found: dict[str, list[int]] = {}
        for (pid, _), cookie in self._cookies.items():
            if cookie in plain:
                found.setdefault(plain[cookie], []).append(pid)
        for name, pids in found.items():
            trees[name] = _add(trees[name], pids, below)
        for name in plain.values():
            self._members[name] = [(pid, here[pid].started) for pid in trees[name]]
            if not trees[name]:
                self.drop(name)

    def _read_cookies(self, placed: Collection[int]) -> None:
        """Of all that have no place yet, each once: whose cookie nobody knows now may be a task's that comes later."""
        strange = {(pid, stat.started) for pid, stat in self._scan.found.items() if pid not in placed}
        self._cookies = {key: cookie for key, cookie in self._cookies.items() if key in strange}
        for key in strange.difference(self._cookies):
            self._cookies[key] = _cookie(key[0])

    def drop(self, name: str) -> None:
        """It has ended. From any thread."""
        self._members.pop(name, None)

    def cpu(self, pids: Iterable[int], before: Collection[int]) -> tuple[float, bool]:
        """Seconds, as of the last look; and whether none of those `before` ended during it."""
        found = self._scan.found
        return sum(found[pid].cpu for pid in pids if pid in found), self._scan.missed.isdisjoint(before)


def _descend(roots: Iterable[int], below: dict[int, list[int]]) -> list[int]:
    """All below these, without themselves."""
    ahead = list(roots)
    tree: dict[int, None] = {}
    while ahead:
        for pid in below.get(ahead.pop(), ()):
            if pid not in tree:
                tree[pid] = None
                ahead.append(pid)
    return list(tree)


def _add(tree: list[int], more: Iterable[int], below: dict[int, list[int]]) -> list[int]:
    members = set(tree)
    new = [pid for pid in more if pid not in members]
    return list(dict.fromkeys([*tree, *new, *_descend(new, below)]))


def _cookie(pid: int) -> str:
    start = f"{COOKIE}=".encode()
    for variable in read_file(f"/proc/{pid}/environ", _MAX_ENVIRONMENT_LENGTH).split(b"\0"):
        if variable.startswith(start):
            return variable[len(start) :].decode("utf-8", "replace")
    return ""

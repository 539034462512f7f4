"""Numbers of jobs that Slurm gave twice. Pure.

A slurmctld that crashes seconds after it accepted a job forgets the job, and gives its number to another one. The first
job may still run on its node. When it ends, Slurm records its end for the second job; and a node does not launch a job
with a number that it already runs, but cancels it.
"""

from __future__ import annotations

_MAX_NUMBERS = 10_000  # that are remembered


class JobNumbers:
    def __init__(self) -> None:
        self._names: dict[int, set[str]] = {}

    def record(self, number: int, name: str, count: int = 1) -> None:
        """Record that a job with this name had this number. `count`: of its components, whose numbers follow."""
        for each in range(number, number + count):
            self._record(each, name)

    def _record(self, number: int, name: str) -> None:
        known = self._names.get(number)
        if known is not None:
            known.add(name)
            return
        if len(self._names) >= _MAX_NUMBERS:
            del self._names[next(iter(self._names))]
        self._names[number] = {name}

    def is_reused(self, number: int, name: str) -> bool:
        """Return whether another job had the same number."""
        return bool(self._names.get(number, set()) - {name})

"""Numbers of jobs that Slurm gave twice. Pure.

A slurmctld that crashes seconds after it accepted a job forgets the job, and gives its number to the next submission:
of another task, or of the same one. The first job may still run on its node. When it ends, Slurm records its end for
the second job; and a node that already runs a job with a number, or failed to launch one, cancels the second job.
"""

from __future__ import annotations

_MAX_NUMBERS = 10_000  # that are remembered


class JobNumbers:
    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._submitted: set[int] = set()  # as answers of Slurm said
        self._reused: set[int] = set()

    def record_submission(self, number: int, name: str, count: int = 1) -> None:
        """Record the answer of Slurm to a submission. `count`: of its components, whose numbers follow."""
        for each in range(number, number + count):
            if each in self._submitted or self._names.get(each, name) != name:
                self._reused.add(each)
            self._record(each, name)
            self._submitted.add(each)

    def record_claim(self, number: int, name: str) -> None:
        """Record that a job with this name ran with this number."""
        if self._names.get(number, name) != name:
            self._reused.add(number)
        elif number not in self._names:
            self._record(number, name)

    def _record(self, number: int, name: str) -> None:
        if len(self._names) >= _MAX_NUMBERS and number not in self._names:
            oldest = next(iter(self._names))
            del self._names[oldest]
            self._submitted.discard(oldest)
            self._reused.discard(oldest)
        self._names[number] = name

    def is_reused(self, number: int) -> bool:
        """Return whether Slurm gave this number to two submissions."""
        return number in self._reused

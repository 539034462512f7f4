"""What a user name at the gateway means: JOB, JOB.TASK, user~job or user~job.task."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_LENGTH = 300
MAX_READINGS = 4

_TASK = re.compile(r"[^~@/\s]+-\d{1,9}")
_JOB_ID = re.compile(r"job-\d{12}-[a-z0-9]{6}")


@dataclass(frozen=True, slots=True)
class Goal:
    """Where somebody wants in."""

    ref: str
    task: str | None = None

    @property
    def job_id(self) -> str:
        """Empty when the job is told otherwise than by its whole id."""
        return self.ref if _JOB_ID.fullmatch(self.ref) else ""


def readings(name: str) -> list[Goal]:
    """What it may mean, likeliest first: names of jobs and roles may hold dots, too. None for what names nothing."""
    if not name or len(name) > MAX_LENGTH or not name.isprintable():
        return []
    found: list[Goal] = []
    rest = name
    while "." in rest and len(found) < MAX_READINGS - 1:
        rest = rest.rpartition(".")[0]
        task = name[len(rest) + 1 :]
        if rest and _TASK.fullmatch(task):
            found.append(Goal(rest, task))
    return [*found, Goal(name)]

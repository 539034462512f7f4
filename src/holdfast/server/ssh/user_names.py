"""Parses user names of the SSH gateway: JOB, JOB.TASK, user~job or user~job.task."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_NAME_LENGTH = 300
MAX_TARGETS = 4

_TASK_PATTERN = re.compile(r"[^~@/\s]+-\d{1,9}")
_JOB_ID_PATTERN = re.compile(r"job-\d{12}-[a-z0-9]{6}")


@dataclass(frozen=True, slots=True)
class TargetName:
    """The job and task of a user name."""

    ref: str
    task: str | None = None

    @property
    def job_id(self) -> str:
        """The full job ID; empty if the job is given in another form."""
        return self.ref if _JOB_ID_PATTERN.fullmatch(self.ref) else ""


def parse_user_name(name: str) -> list[TargetName]:
    """Return possible meanings, likeliest first: names of jobs and roles can contain dots. Empty if there is none."""
    if not name or len(name) > MAX_NAME_LENGTH or not name.isprintable():
        return []
    found: list[TargetName] = []
    rest = name
    while "." in rest and len(found) < MAX_TARGETS - 1:
        rest = rest.rpartition(".")[0]
        task = name[len(rest) + 1 :]
        if rest and _TASK_PATTERN.fullmatch(task):
            found.append(TargetName(rest, task))
    return [*found, TargetName(name)]

"""The id of one task attempt: job, job attempt, task, and try of that task.

Its text identifies an attempt in engines, folder names and stored data: it never changes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .messages import msg

_NUMBER_PATTERN = "(0|[1-9][0-9]{0,8})"
_ATTEMPT_ID_PATTERN = re.compile(rf"([^.]+)\.{_NUMBER_PATTERN}\.(.+)-{_NUMBER_PATTERN}\.{_NUMBER_PATTERN}", re.DOTALL)


@dataclass(frozen=True, slots=True, order=True)
class AttemptId:
    """`str()` returns the text, such as 7f3k2.0.worker-1.0; it is unique and safe as a file name."""

    job_id: str
    attempt: int  # of the job, from 0
    role: str
    index: int  # which instance of the role, from 0
    number: int  # which try of this task within the job attempt, from 0

    @classmethod
    def parse(cls, text: str) -> AttemptId:
        """Parse an id; ValueError if it is invalid."""
        found = _ATTEMPT_ID_PATTERN.fullmatch(text)
        if found is None:
            raise ValueError(msg("{text} is not the id of a task attempt", text=repr(text)))
        return cls(found[1], int(found[2]), found[3], int(found[4]), int(found[5]))

    @property
    def task(self) -> str:
        """Its name within the job, such as worker-1."""
        return f"{self.role}-{self.index}"

    def __str__(self) -> str:
        return f"{self.job_id}.{self.attempt}.{self.role}-{self.index}.{self.number}"


def parse_job_id(attempt_id: str) -> str:
    """Return the job id of a task attempt id; faster than parsing all of it."""
    return attempt_id.split(".", 1)[0]

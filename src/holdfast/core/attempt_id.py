"""The id of one task attempt: which job, which attempt of it, which task, which try of that task.

Its text is what engines know an attempt by, and part of folder names and of what is saved: it never changes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .messages import msg

_NUMBER = "(0|[1-9][0-9]{0,8})"
_TEXT = re.compile(rf"([^.]+)\.{_NUMBER}\.(.+)-{_NUMBER}\.{_NUMBER}", re.DOTALL)


@dataclass(frozen=True, slots=True, order=True)
class AttemptId:
    """`str()` gives the text, such as 7f3k2.0.worker-1.0; unique for ever, safe as a file name."""

    job_id: str
    attempt: int  # of the job, from 0
    role: str
    index: int  # which instance of the role, from 0
    number: int  # which try of this task within the job attempt, from 0

    @classmethod
    def parse(cls, text: str) -> AttemptId:
        """ValueError when it is none."""
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError(msg("{text} is not the id of a task attempt", text=repr(text)))
        return cls(found[1], int(found[2]), found[3], int(found[4]), int(found[5]))

    @property
    def task(self) -> str:
        """Its name within the job, such as worker-1."""
        return f"{self.role}-{self.index}"

    def __str__(self) -> str:
        return f"{self.job_id}.{self.attempt}.{self.role}-{self.index}.{self.number}"


def job_id_of(attempt_id: str) -> str:
    """The job an attempt belongs to, for hot paths that need nothing else of its id."""
    return attempt_id.split(".", 1)[0]

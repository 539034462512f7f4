"""Errors of the store itself, as opposed to invalid requests."""

from __future__ import annotations

from holdfast.core.errors import HoldfastError
from holdfast.core.messages import msg


class StoreError(HoldfastError):
    """A database failure: full disk, lost connection, damaged file. The write is rolled back, unless the connection
    was lost during the commit. The next call tries again."""


class DiskFull(StoreError):
    """The disk of the database is full; the write was rolled back."""


class StaleVersion(HoldfastError):
    """The job was changed since it was read; nothing was written."""

    def __init__(self, job_id: str, expected: int, found: int | None) -> None:
        there = msg("has been deleted") if found is None else msg("is at version {found}", found=found)
        super().__init__(
            msg(
                "Job {job_id} {available}; expected version {expected}",
                job_id=job_id,
                available=there,
                expected=expected,
            )
        )
        self.job_id = job_id


class NameInUse(HoldfastError):
    """The user has already used this job name; nothing was written."""

    def __init__(self, user: str, name: str) -> None:
        super().__init__(msg("{user} has already used the job name {name}", user=user, name=name))

"""What can go wrong with the store itself, as against with what was asked of it."""

from __future__ import annotations

from holdfast.core.errors import HoldfastError
from holdfast.core.messages import msg


class StoreError(HoldfastError):
    """The database could not do it now: full disk, lost connection, damaged file. Nothing, or for a connection lost
    during a commit possibly everything, of the write was kept. The next call tries afresh."""


class DiskFull(StoreError):
    """The database could not grow; nothing of the write was kept."""


class StaleVersion(HoldfastError):
    """Someone else changed the job since it was read; nothing was written."""

    def __init__(self, job_id: str, expected: int, found: int | None) -> None:
        there = msg("is gone") if found is None else msg("is at version {found}", found=found)
        super().__init__(
            msg("Job {job_id} {there}, not at version {expected}", job_id=job_id, there=there, expected=expected)
        )
        self.job_id = job_id


class NameInUse(HoldfastError):
    """The user had a job of this name before; nothing was written."""

    def __init__(self, user: str, name: str) -> None:
        super().__init__(msg("{user} had a job {name} before", user=user, name=name))

"""What can go wrong with the store itself, as against with what was asked of it."""

from __future__ import annotations

from holdfast.core.errors import HoldfastError


class StoreError(HoldfastError):
    """The database could not do it now: full disk, lost connection, damaged file. Nothing, or for a connection lost
    during a commit possibly everything, of the write was kept. The next call tries afresh."""


class DiskFull(StoreError):
    """The database could not grow; nothing of the write was kept."""


class StaleVersion(HoldfastError):
    """Someone else changed the job since it was read; nothing was written."""

    def __init__(self, job_id: str, expected: int, found: int | None) -> None:
        there = "is gone" if found is None else f"is at version {found}"
        super().__init__(f"Job {job_id} {there}, not at version {expected}")
        self.job_id = job_id


class NameInUse(HoldfastError):
    """The user had a job of this name before; nothing was written."""

    def __init__(self, user: str, name: str) -> None:
        super().__init__(f"{user} had a job {name} before")

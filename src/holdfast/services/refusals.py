"""Refusals that only services make, beside those of core.errors."""

from __future__ import annotations

from holdfast.core.errors import Conflict, Forbidden, NotFound, UserError
from holdfast.core.messages import msg
from holdfast.store.errors import DiskFull, StoreError


class NoLog(NotFound):
    """The task has written nothing yet, because it has not started."""

    code = "no_log"


class NoTag(NotFound):
    """The job has no such tag."""


class NoDataset(NotFound):
    """There is no such dataset, or it is not for whoever asks."""


class NoInstanceType(NotFound):
    """There is no such size, or it is not for whoever asks."""

    def __init__(self, message: str, *, name: str = "", field: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, field=field, hint=hint)
        self.name = name


class NoImageAlias(NotFound):
    """There is no such alias, or it is not for whoever asks."""

    def __init__(self, message: str, *, name: str = "", field: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, field=field, hint=hint)
        self.name = name


class OverQuota(UserError):
    """A single task that a quota has no room for, whatever else runs."""

    def __init__(self, message: str, *, primehub: str, field: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, field=field, hint=hint)
        self.primehub = primehub  # the same in PrimeHub's words


class NameTaken(Conflict):
    """Whoever asks had a job of this name before."""

    def __init__(self, message: str, *, name: str = "", field: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, field=field, hint=hint)
        self.name = name


def name_taken(name: str) -> NameTaken:
    return NameTaken(
        msg("You have had a job {name} before", name=name), name=name, field="name", hint=msg("Choose another name.")
    )


class NotInGroup(Forbidden):
    """A group that exists, but not for whoever asks."""

    def __init__(self, message: str, *, group: str = "", field: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, field=field, hint=hint)
        self.group = group


class TooManyRequests(UserError):
    """Too many tries in too little time."""

    code = "too_many_requests"

    def __init__(self, message: str, *, retry_after: float, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after  # seconds


class Unavailable(UserError):
    """Something this needs is not to be had right now."""

    code = "unavailable"


def store_unavailable(error: StoreError, hint: str) -> Unavailable:
    """What is said of a write or a look that the database could not do; `hint`: where the disk is not the reason."""
    if isinstance(error, DiskFull):
        return Unavailable(
            msg("The server's disk is full, so this could not be saved"),
            hint=msg("Try again in a minute. If it stays so, ask an admin to free room with `holdfast prune`."),
        )
    return Unavailable(msg("The database cannot be used right now"), hint=hint)

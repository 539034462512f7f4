"""Errors of services, in addition to those of core.errors."""

from __future__ import annotations

from holdfast.core.errors import Conflict, Forbidden, NotFound, UserError
from holdfast.core.messages import msg
from holdfast.store.errors import DiskFull, StoreError


class _NamedError(UserError):
    """An error about the object `name`."""

    def __init__(self, message: str, *, name: str = "", field: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, field=field, hint=hint)
        self.name = name


class LogNotFound(NotFound):
    """The task has no log because it has not started."""

    code = "no_log"


class TagNotFound(NotFound):
    """The job has no such tag."""


class DatasetNotFound(NotFound):
    """There is no such dataset, or the user has no access to it."""


class InstanceTypeNotFound(_NamedError, NotFound):
    """There is no such instance type, or the user has no access to it."""


class ImageAliasNotFound(_NamedError, NotFound):
    """There is no such alias, or the user has no access to it."""


class HostImageUnavailable(UserError):
    """The engine of the job has no image `host`."""

    code = "host_image_unavailable"


class OverQuota(UserError):
    """A single task exceeds a quota, whatever else runs."""

    def __init__(self, message: str, *, primehub: str, field: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, field=field, hint=hint)
        self.primehub = primehub  # PrimeHub's message


class NameTaken(_NamedError, Conflict):
    """The user already had a job of this name."""


def build_name_taken_error(name: str) -> NameTaken:
    return NameTaken(
        msg("You have already used the job name {name}", name=name),
        name=name,
        field="name",
        hint=msg("Choose another name."),
    )


class NotInGroup(Forbidden):
    """The user is not a member of the group."""

    def __init__(self, message: str, *, group: str = "", field: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, field=field, hint=hint)
        self.group = group


class TooManyRequests(UserError):
    """The user is throttled."""

    code = "too_many_requests"

    def __init__(self, message: str, *, retry_after: float, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after  # seconds


class Unavailable(UserError):
    """A dependency is temporarily unavailable."""

    code = "unavailable"


def build_store_unavailable_error(error: StoreError, hint: str) -> Unavailable:
    """Build the error for a failed read or write of the database. `hint`: if the disk is not full."""
    if isinstance(error, DiskFull):
        return Unavailable(
            msg("The server's disk is full; the change was not saved"),
            hint=msg(
                "Try again in a minute. If the problem persists, ask an admin to free disk space with `holdfast prune`."
            ),
        )
    return Unavailable(msg("The database is not available"), hint=hint)

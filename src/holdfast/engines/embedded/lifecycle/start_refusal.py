"""Why a task cannot be started."""

from __future__ import annotations

from holdfast.core.exits.exit import Cause


class StartRefused(Exception):
    """The task cannot be started; nothing of it is left."""

    def __init__(self, message: str, *, cause: Cause = Cause.INVALID_TASK, transient: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.cause = cause
        self.transient = transient

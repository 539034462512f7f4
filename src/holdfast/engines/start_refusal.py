"""A start that is refused, and the checks of a launch that are the same for all engines."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.exits.exit import Cause
from holdfast.core.messages import msg

from .base import LaunchSpec

_MAX_VARIABLES = 2000  # bubblewrap accepts 9000 arguments, three for each
_MAX_VARIABLE_SIZE = 128 * 1024 - 1  # the kernel's limit for one variable with its name
_MAX_ENV_SIZE = 1024 * 1024  # bytes
_MAX_SCRIPT_LENGTH = 16 * 1024 * 1024  # characters of script and entry: they use memory outside the task's limit


class StartRefused(Exception):
    """The task cannot be started; nothing of it is left."""

    def __init__(self, message: str, *, cause: Cause = Cause.INVALID_TASK, transient: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.cause = cause
        self.transient = transient


def make_refusal_observation(attempt_id: str, refusal: StartRefused) -> Observation:
    return Observation(
        attempt_id=attempt_id,
        seen=ObservedState.REFUSED,
        message=refusal.message,
        cause=refusal.cause,
        transient=refusal.transient,
    )


def check_task_program(launch: LaunchSpec) -> None:
    """Raise StartRefused if its commands or variables cannot run."""
    if "\0" in launch.script or "\0" in launch.entry:
        raise StartRefused(msg("The commands contain a NUL byte. Remove it."))
    size = len(launch.script) + len(launch.entry)
    if size > _MAX_SCRIPT_LENGTH:
        raise StartRefused(
            msg(
                "The commands and their wrapper script have {size} characters; the limit is {max_text_length}.",
                size=size,
                max_text_length=_MAX_SCRIPT_LENGTH,
            )
        )
    _check_env(launch.env)


def _check_env(env: Mapping[str, str]) -> None:
    if len(env) > _MAX_VARIABLES:
        raise StartRefused(
            msg(
                "The task has {env} environment variables; the limit is {max_variables}.",
                env=len(env),
                max_variables=_MAX_VARIABLES,
            )
        )
    total = 0
    for name, value in env.items():
        size = len(name) + len(value.encode("utf-8", "surrogateescape")) + 1
        total += size
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise StartRefused(
                msg(
                    "The environment variable {name} is not valid: its name or value contains a forbidden character.",
                    name=repr(name),
                )
            )
        if size > _MAX_VARIABLE_SIZE:
            raise StartRefused(
                msg(
                    "The environment variable {name} is longer than {max_string_length} bytes.",
                    name=name,
                    max_string_length=_MAX_VARIABLE_SIZE,
                )
            )
    if total > _MAX_ENV_SIZE:
        raise StartRefused(
            msg(
                "The environment variables have {total} bytes; the limit is {max_env}.",
                total=total,
                max_env=_MAX_ENV_SIZE,
            )
        )

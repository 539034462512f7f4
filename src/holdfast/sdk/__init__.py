"""The Python client: `Client` for plain code, `AsyncClient` for asyncio. Both have the same methods."""

from typing import TYPE_CHECKING

from holdfast.core.states import JobState

from .errors import ApiError, BadAddress, CannotConnect, ClientError, UnexpectedReply, UnprovenServer

if TYPE_CHECKING:
    from .client import AsyncClient, Client
    from .inside_models import Debugger, ShortKey, SshLine, SshLines, Stacks, Ticket
    from .models import (
        Artifacts,
        Attempt,
        AuditEvent,
        Capacity,
        Dataset,
        Event,
        Exit,
        File,
        FileList,
        GitState,
        Group,
        Image,
        ImageAlias,
        InstanceType,
        JobDetail,
        JobSummary,
        Log,
        LoginCode,
        Mlflow,
        Page,
        Plan,
        Preview,
        Recurrence,
        Run,
        Schedule,
        ScheduleDetail,
        Secret,
        SshKey,
        Status,
        Task,
        Token,
        User,
        Variables,
    )
    from .why_models import Why


def __getattr__(name: str) -> object:
    """Clients and records are loaded by whoever uses them: what gets inside tasks does without, and is quicker so."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import client, inside_models, models, why_models

    modules = (models, inside_models, why_models, client)
    return next(getattr(module, name) for module in modules if hasattr(module, name))


__all__ = [
    "ApiError",
    "Artifacts",
    "AsyncClient",
    "Attempt",
    "AuditEvent",
    "BadAddress",
    "CannotConnect",
    "Capacity",
    "Client",
    "ClientError",
    "Dataset",
    "Debugger",
    "Event",
    "Exit",
    "File",
    "FileList",
    "GitState",
    "Group",
    "Image",
    "ImageAlias",
    "InstanceType",
    "JobDetail",
    "JobState",
    "JobSummary",
    "Log",
    "LoginCode",
    "Mlflow",
    "Page",
    "Plan",
    "Preview",
    "Recurrence",
    "Run",
    "Schedule",
    "ScheduleDetail",
    "Secret",
    "ShortKey",
    "SshKey",
    "SshLine",
    "SshLines",
    "Stacks",
    "Status",
    "Task",
    "Ticket",
    "Token",
    "UnexpectedReply",
    "UnprovenServer",
    "User",
    "Variables",
    "Why",
]

"""The Python client: `Client` for synchronous code, `AsyncClient` for asyncio. Both have the same methods."""

from importlib import import_module
from typing import TYPE_CHECKING

from holdfast.core.states import JobState

from .errors import ApiError, CannotConnect, ClientError, InvalidClientConfig, UnexpectedReply, UnprovenServer

if TYPE_CHECKING:
    from holdfast.api.catalogue import Image, ImageAlias, InstanceType, Secret
    from holdfast.api.datasets import Dataset, DatasetVariables, GitState
    from holdfast.api.files import ArtifactList, File, FileList
    from holdfast.api.groups import Group, Mlflow
    from holdfast.api.inside import Debugger, SshCommand, SshCommandList, StackDump, TemporaryKey, Ticket
    from holdfast.api.jobs import Attempt, Event, Exit, JobDetail, JobSummary, ListedJob, Plan, SubmittedJob, Task
    from holdfast.api.pages import Page
    from holdfast.api.people import AuditEvent, LoginCode, SshKey, Token, User
    from holdfast.api.schedules import Recurrence, Run, Schedule, ScheduleDetail, SchedulePreview
    from holdfast.api.server import Capacity, Status
    from holdfast.api.why import JobExplanation

    from .client import AsyncClient, Client
    from .logs import Log


_API_MODULE_NAMES = (
    "inside",
    "jobs",
    "pages",
    "why",
    "people",
    "groups",
    "catalogue",
    "datasets",
    "files",
    "schedules",
    "server",
)
_LAZY_MODULES = (*(f"holdfast.api.{noun}" for noun in _API_MODULE_NAMES), "holdfast.sdk.logs", "holdfast.sdk.client")


def __getattr__(name: str) -> object:
    """Load clients and records on first use: commands for task access start faster without them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    modules = (import_module(module) for module in _LAZY_MODULES)
    return next(getattr(module, name) for module in modules if hasattr(module, name))


__all__ = [
    "ApiError",
    "ArtifactList",
    "AsyncClient",
    "Attempt",
    "AuditEvent",
    "CannotConnect",
    "Capacity",
    "Client",
    "ClientError",
    "Dataset",
    "DatasetVariables",
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
    "InvalidClientConfig",
    "JobDetail",
    "JobExplanation",
    "JobState",
    "JobSummary",
    "ListedJob",
    "Log",
    "LoginCode",
    "Mlflow",
    "Page",
    "Plan",
    "Recurrence",
    "Run",
    "Schedule",
    "ScheduleDetail",
    "SchedulePreview",
    "Secret",
    "SshCommand",
    "SshCommandList",
    "SshKey",
    "StackDump",
    "Status",
    "SubmittedJob",
    "Task",
    "TemporaryKey",
    "Ticket",
    "Token",
    "UnexpectedReply",
    "UnprovenServer",
    "User",
]

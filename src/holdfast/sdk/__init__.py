"""The Python client: `Client` for plain code, `AsyncClient` for asyncio. Both have the same methods."""

from holdfast.core.states import JobState

from .client import AsyncClient, Client
from .errors import ApiError, BadAddress, CannotConnect, ClientError, UnexpectedReply
from .models import (
    Attempt,
    Capacity,
    Dataset,
    Event,
    Exit,
    Group,
    Image,
    ImageAlias,
    InstanceType,
    JobDetail,
    JobSummary,
    Log,
    Mlflow,
    Page,
    Plan,
    Status,
    Task,
    Token,
    User,
)

__all__ = [
    "ApiError",
    "AsyncClient",
    "Attempt",
    "BadAddress",
    "CannotConnect",
    "Capacity",
    "Client",
    "ClientError",
    "Dataset",
    "Event",
    "Exit",
    "Group",
    "Image",
    "ImageAlias",
    "InstanceType",
    "JobDetail",
    "JobState",
    "JobSummary",
    "Log",
    "Mlflow",
    "Page",
    "Plan",
    "Status",
    "Task",
    "Token",
    "UnexpectedReply",
    "User",
]

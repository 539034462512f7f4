"""The shapes of the REST API, each defined once: the server describes its answers and checks requests by them, the SDK
reads and sends them, the CLI prints them as JSON.

Answers are dataclasses. The text in a field's `Annotated` is its description; the default is what a client assumes when
the server does not send it. An enum in `Annotated` lists the values that this version knows; clients accept others too.
Times are UTC, durations seconds, sizes bytes.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import (  # noqa: F401
        catalogue,
        datasets,
        errors,
        files,
        groups,
        inside,
        jobs,
        limits,
        logs,
        metrics,
        notifications,
        pages,
        people,
        resources,
        schedules,
        server,
        storage,
        why,
    )


def __getattr__(noun: str) -> ModuleType:
    """Load `api.jobs` when it is first used: clients need few of the shapes, and start faster without the others."""
    try:
        return import_module(f"{__name__}.{noun}")
    except ModuleNotFoundError:
        raise AttributeError(f"module {__name__!r} has no attribute {noun!r}") from None

"""Schemas of the REST API, shared by server, SDK and CLI.

Responses are dataclasses, requests are TypedDicts. The text in a field's `Annotated` is its description; the default is
what a client assumes if the server does not send it. An enum in `Annotated` lists the values of this version; clients
accept others too. Times are UTC, durations seconds, sizes bytes.
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
    """Load a module such as `api.jobs` on first use, so that clients start faster."""
    try:
        return import_module(f"{__name__}.{noun}")
    except ModuleNotFoundError:
        raise AttributeError(f"module {__name__!r} has no attribute {noun!r}") from None

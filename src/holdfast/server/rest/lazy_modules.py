"""Routes of the REST API that clients do not need to run and follow jobs: loaded at the first request for one."""

from __future__ import annotations

from starlette.routing import BaseRoute

from . import (
    artifacts,
    audit,
    datasets,
    files,
    groups,
    image_aliases,
    images,
    instance_types,
    metrics,
    notifications,
    schedules,
    secrets,
    storage,
    usage,
)

_MODULES = (
    metrics,
    artifacts,
    schedules,
    notifications,
    groups,
    files,
    datasets,
    images,
    image_aliases,
    instance_types,
    secrets,
    usage,
    audit,
    storage,
)


def list_routes() -> list[BaseRoute]:
    return [route for module in _MODULES for route in module.router.routes]

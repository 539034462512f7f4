"""Every module that declares endpoints. Importing it completes the list of endpoints."""

from __future__ import annotations

from . import cluster, info, storages, unsupported  # noqa: F401 - importing a module registers its endpoints
from .jobs import (  # noqa: F401
    actions,
    attempts,
    config,
    detail,
    events,
    listing,
    ssh,
    submit,
    task_detail,
    task_logs,
    v1_jobs,
    v1_submit,
)
from .people import groups, login, tokens, user_changes, users, virtual_clusters  # noqa: F401

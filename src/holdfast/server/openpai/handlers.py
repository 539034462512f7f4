"""Every module that declares addresses. Importing it makes the list of endpoints whole."""

from __future__ import annotations

from . import absent, cluster, info, storages  # noqa: F401 - to import one is to declare its addresses
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

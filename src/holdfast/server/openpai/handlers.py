"""Every module that declares addresses. Importing it makes the list of endpoints whole."""

from __future__ import annotations

from . import (  # noqa: F401 - to import one is to declare its addresses
    absent,
    cluster,
    groups,
    info,
    job_acts,
    job_attempts,
    job_config,
    job_detail,
    job_events,
    job_list,
    job_ssh,
    login,
    storages,
    submit,
    task_detail,
    task_logs,
    tokens,
    user_changes,
    users,
    v1_jobs,
    v1_submit,
    virtual_clusters,
)

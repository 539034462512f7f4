"""Every module that declares addresses. Importing it makes the list of endpoints whole."""

from __future__ import annotations

from . import info, job_acts, job_attempts, job_config, job_detail, job_events, job_list, job_ssh, task_detail

MODULES = (
    info,
    job_acts,
    job_attempts,
    job_config,
    job_detail,
    job_events,
    job_list,
    job_ssh,
    task_detail,
)

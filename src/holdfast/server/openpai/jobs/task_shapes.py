"""A task, and one try of it, in the shapes of OpenPAI's responses."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

from holdfast.core.attempt import TaskAttempt
from holdfast.core.identity import build_container_uid, build_task_uid
from holdfast.core.records import TaskRecord

from ..times import to_milliseconds
from . import states
from .exit_shapes import exit_spec_to_json, get_exit_code
from .shown_attempt import ShownAttempt, Tries


def build_task_status(shown: ShownAttempt, tries: Tries) -> dict[str, Any]:
    """Return a task of a job's detail, with its newest try."""
    newest = tries[-1]
    return {
        **build_task_fields(shown, tries),
        **build_container_fields(shown, newest),
        **build_try_fields(shown, newest),
    }


def build_task_fields(shown: ShownAttempt, tries: Tries) -> dict[str, Any]:
    """Return the fields that all tries share."""
    newest = tries[-1].task
    return {
        "taskIndex": newest.index,
        "taskUid": build_task_uid(shown.summary.id, shown.number, newest.role, newest.index),
        "taskState": states.get_task_state(newest),
        "retries": newest.number,
        "accountableRetries": newest.user_retries,
        "createdTime": to_milliseconds(shown.created_at),
        "launchedTime": to_milliseconds(_get_first_start(tries)),
        "completedTime": to_milliseconds(_get_completed_at(newest)),
    }


def build_try_fields(shown: ShownAttempt, record: TaskRecord) -> dict[str, Any]:
    task = record.task
    return {
        "attemptId": task.number,
        "attemptState": states.get_try_state(task),
        "currentAttemptCreatedTime": to_milliseconds(task.placed_at if task.number else shown.created_at),
        "currentAttemptLaunchedTime": to_milliseconds(task.started_at or task.finished_at),
        "currentAttemptCompletedTime": to_milliseconds(_get_completed_at(task)),
    }


def build_container_fields(shown: ShownAttempt, record: TaskRecord) -> dict[str, Any]:
    """Return where it runs and how it ended. Known as soon as it is scheduled, before its command starts."""
    task = record.task
    placed = task.node is not None
    return {
        "containerId": build_container_uid(record.attempt_id) if placed else None,
        "containerIp": task.host or (shown.addresses.get(task.node) if task.node is not None else None),
        "containerNodeName": task.machine,
        "containerPorts": ports_to_json(task.ports),
        "containerGpus": None,
        "containerLog": build_log_path(shown, record),
        "containerExitCode": get_exit_code(task.exit),
        "containerExitSpec": exit_spec_to_json(task.exit),
        "containerExitDiagnostics": task.exit.message if task.exit else None,
    }


def ports_to_json(ports: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    return {label: ",".join(map(str, numbers)) for label, numbers in ports.items()}


def build_log_path(shown: ShownAttempt, record: TaskRecord) -> str:
    task = record.task
    role = quote(shown.role_keys.get(task.role, task.role), safe="~")
    job = quote(shown.framework, safe="~")
    return (
        f"/api/v2/jobs/{job}/attempts/{shown.number}/taskRoles/{role}/taskIndex/{task.index}"
        f"/attempts/{task.number}/logs"
    )


def _get_completed_at(task: TaskAttempt) -> datetime | None:
    """Return the end time. A task on hold counts as running for OpenPAI's clients."""
    return task.finished_at if task.state.ended else None


def _get_first_start(tries: Tries) -> Any:
    """Return the first start time; if it never started, the end time."""
    started = (record.task.started_at for record in tries if record.task.started_at)
    return next(started, tries[-1].task.finished_at)

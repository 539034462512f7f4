"""One task, and one try of it, in the shapes of OpenPAI's answers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

from holdfast.core.attempt import TaskAttempt
from holdfast.core.identity import container_uid, task_uid
from holdfast.core.records import TaskRecord

from ..times import millis
from . import states
from .exit_shapes import exit_code, exit_spec
from .shown_attempt import ShownAttempt, Tries


def task_status(shown: ShownAttempt, tries: Tries) -> dict[str, Any]:
    """A task in a job's detail: the task, and the newest try of it."""
    newest = tries[-1]
    return {**task_part(shown, tries), **container_part(shown, newest), **try_part(shown, newest)}


def task_part(shown: ShownAttempt, tries: Tries) -> dict[str, Any]:
    """What holds for all tries together."""
    newest = tries[-1].task
    return {
        "taskIndex": newest.index,
        "taskUid": task_uid(shown.summary.id, shown.number, newest.role, newest.index),
        "taskState": states.task_state(newest),
        "retries": newest.number,
        "accountableRetries": newest.user_retries,
        "createdTime": millis(shown.created_at),
        "launchedTime": millis(_first_start(tries)),
        "completedTime": millis(_completed(newest)),
    }


def try_part(shown: ShownAttempt, record: TaskRecord) -> dict[str, Any]:
    task = record.task
    return {
        "attemptId": task.number,
        "attemptState": states.try_state(task),
        "currentAttemptCreatedTime": millis(task.placed_at if task.number else shown.created_at),
        "currentAttemptLaunchedTime": millis(task.started_at or task.finished_at),
        "currentAttemptCompletedTime": millis(_completed(task)),
    }


def container_part(shown: ShownAttempt, record: TaskRecord) -> dict[str, Any]:
    """Where it runs and how it ended. Known as soon as it has a place, before its command starts."""
    task = record.task
    placed = task.node is not None
    return {
        "containerId": container_uid(record.attempt_id) if placed else None,
        "containerIp": shown.addresses.get(task.node) if task.node is not None else None,
        "containerNodeName": task.node,
        "containerPorts": show_ports(task.ports),
        "containerGpus": None,
        "containerLog": log_path(shown, record),
        "containerExitCode": exit_code(task.exit),
        "containerExitSpec": exit_spec(task.exit),
        "containerExitDiagnostics": task.exit.message if task.exit else None,
    }


def show_ports(ports: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    return {label: ",".join(map(str, numbers)) for label, numbers in ports.items()}


def log_path(shown: ShownAttempt, record: TaskRecord) -> str:
    task = record.task
    role = quote(shown.keys.get(task.role, task.role), safe="~")
    job = quote(shown.framework, safe="~")
    return (
        f"/api/v2/jobs/{job}/attempts/{shown.number}/taskRoles/{role}/taskIndex/{task.index}"
        f"/attempts/{task.number}/logs"
    )


def _completed(task: TaskAttempt) -> datetime | None:
    """One that is held runs on, as OpenPAI's clients know it."""
    return task.finished_at if task.state.ended else None


def _first_start(tries: Tries) -> Any:
    """When it first ran; if it never did, when it ended."""
    started = (record.task.started_at for record in tries if record.task.started_at)
    return next(started, tries[-1].task.finished_at)

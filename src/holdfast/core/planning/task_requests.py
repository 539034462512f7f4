"""Resources of a job's tasks: requests, assignments and queue entries."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from ..attempt import JobSnapshot, TaskAttempt
from ..job import Job, Role
from ..retry import MAX_CONFLICT_DELAY
from ..scheduling.placement import Assignment, QueueEntry, ResourceAmount, TaskRequest
from ..states import TaskState


def build_queue_entries(snapshot: JobSnapshot, now: datetime, engine: str = "") -> tuple[QueueEntry, ...]:
    """`engine`: that will run it; empty: any."""
    if snapshot.state.final or snapshot.stop or snapshot.outcome or snapshot.retry_at:
        return ()
    tasks = snapshot.tasks or build_task_attempts(snapshot.job)
    ready = [task for task in tasks if task.state is TaskState.WAITING and is_retry_due(task.retry_at, now)]
    if not ready:
        return ()
    if snapshot.job.gang:
        return (_build_queue_entry(snapshot, snapshot.id, ready, engine),)
    return tuple(_build_queue_entry(snapshot, snapshot.build_attempt_id(task), [task], engine) for task in ready)


def build_assignment(snapshot: JobSnapshot, task: TaskAttempt) -> Assignment:
    """Return the resources that a placed task uses."""
    assert task.node is not None
    return Assignment(
        attempt_id=snapshot.build_attempt_id(task),
        node=task.node,
        amount=get_role_limits(snapshot.job.get_role(task.role)),
        asked=get_role_requests(snapshot.job.get_role(task.role)),
        user=snapshot.user,
        group=snapshot.job.group,
        engine=task.engine,
        gpus=task.gpus,
        ports=task.ports,
        is_waiting=task.state is TaskState.PREPARING,
    )


def get_role_limits(role: Role) -> ResourceAmount:
    return ResourceAmount(cpu=role.resources.cpu, memory=role.resources.memory, gpu=role.resources.gpu)


def get_role_requests(role: Role) -> ResourceAmount | None:
    """Return what a node must have free for a task, if less than its limits. GPUs are never less."""
    asked = role.resources
    if asked.cpu_request is None and asked.memory_request is None:
        return None
    return ResourceAmount(
        cpu=min(asked.cpu, asked.cpu if asked.cpu_request is None else asked.cpu_request),
        memory=min(asked.memory, asked.memory if asked.memory_request is None else asked.memory_request),
        gpu=asked.gpu,
    )


def build_task_attempts(job: Job) -> tuple[TaskAttempt, ...]:
    return tuple(TaskAttempt(role=role.name, index=i) for role in job.roles for i in range(role.instances))


def is_retry_due(at: datetime | None, now: datetime) -> bool:
    """Whether a retry time is reached; a time further away than any delay means that the clock jumped."""
    return at is None or now >= at or at - now > timedelta(seconds=MAX_CONFLICT_DELAY)


def _build_queue_entry(snapshot: JobSnapshot, id: str, tasks: list[TaskAttempt], engine: str) -> QueueEntry:
    roles = {role.name: (get_role_limits(role), get_role_requests(role), role.ports) for role in snapshot.job.roles}
    return QueueEntry(
        id=id,
        job_id=snapshot.id,
        user=snapshot.user,
        group=snapshot.job.group,
        priority=snapshot.job.priority,
        order=(snapshot.submitted_at.timestamp(), id),
        requests=tuple(_build_request(snapshot.build_attempt_id(task), *roles[task.role]) for task in tasks),
        engine=engine,
    )


def _build_request(
    attempt_id: str, amount: ResourceAmount, asked: ResourceAmount | None, ports: Mapping[str, int]
) -> TaskRequest:
    return TaskRequest(attempt_id=attempt_id, amount=amount, asked=asked, ports=ports)

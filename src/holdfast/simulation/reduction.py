"""Reduce a job to what this machine can run: fewer instances, fewer resources, no retries. Changes are reported."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from holdfast.core.errors import UserError
from holdfast.core.job import Completion, Job, Resources, Role
from holdfast.core.scheduling.placement import Node, format_bytes, format_cores, format_gpus
from holdfast.jobspec.fields import build_name_hint

from .report import Remarks, RemarkTopic


def select_role_names(job: Job, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the roles to run; all if none is given."""
    known = [role.name for role in job.roles]
    for name in names:
        if name not in known:
            raise UserError(f"The job has no role {name[:100]!r}", field="role", hint=build_name_hint(name, known))
    return tuple(name for name in known if name in names) if names else tuple(known)


def reduce_job(job: Job, instances: int | None, node: Node, remarks: Remarks, chosen: Collection[str]) -> Job:
    """Reduce the job. `instances`: maximum for each role; None: all. Only `chosen` roles get remarks."""
    if job.max_retries or any(role.max_task_retries for role in job.roles if role.name in chosen):
        remarks.add_note(RemarkTopic.EXIT, "A simulation does not retry: the first failure is reported")
    return replace(
        job,
        roles=tuple(_reduce_role(role, instances, node, remarks.for_role(role.name, chosen)) for role in job.roles),
        max_retries=0,
        hold=None,
    )


def _reduce_role(role: Role, most: int | None, node: Node, remarks: Remarks) -> Role:
    count = role.instances if most is None else min(most, role.instances)
    if count < role.instances:
        hint = "Use --instances N to run more, or --instances all."
        remarks.add_note(RemarkTopic.INSTANCES, f"Runs {count} of {role.instances} instances", hint, role.name)
    return replace(
        role,
        instances=count,
        resources=_reduce_resources(role, node, remarks),
        completion=_reduce_completion(role.completion, count),
        max_task_retries=0,
    )


def _reduce_completion(rule: Completion, count: int) -> Completion:
    """Limit the rule to the number of tasks; otherwise it could never be met."""

    def limit_count(needed: int | None) -> int | None:
        return needed if needed is None else min(needed, count)

    return replace(rule, min_failed=limit_count(rule.min_failed), min_succeeded=limit_count(rule.min_succeeded))


def _reduce_resources(role: Role, node: Node, remarks: Remarks) -> Resources:
    asked = role.resources
    cpu, memory, gpu = min(asked.cpu, node.cpu), min(asked.memory, node.memory), min(asked.gpu, len(node.gpus))
    parts = []
    if cpu < asked.cpu:
        parts.append(f"{format_cores(cpu)} instead of {format_cores(asked.cpu)}")
    if memory < asked.memory:
        parts.append(f"{format_bytes(memory)} of memory instead of {format_bytes(asked.memory)}")
    if gpu < asked.gpu:
        parts.append(f"{format_gpus(gpu) if gpu else 'no GPU'} instead of {format_gpus(asked.gpu)}")
    if parts:
        remarks.add_note(
            RemarkTopic.RESOURCES, f"Runs with {', '.join(parts)}: this machine does not have more", role=role.name
        )
    return replace(asked, cpu=cpu, memory=memory, gpu=gpu, shm=min(asked.shm, memory) if asked.shm else asked.shm)

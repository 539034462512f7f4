"""A job cut down to what this machine can run: fewer instances, fewer resources, no retries. What was cut is said."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from holdfast.core.errors import UserError
from holdfast.core.job import Completion, Job, Resources, Role
from holdfast.core.scheduling.placement import Node, show_bytes, show_cores, show_gpus
from holdfast.jobspec.fields import guess_or_list

from .report import About, Remarks


def chosen_roles(job: Job, names: tuple[str, ...]) -> tuple[str, ...]:
    """Those to be run; all where none is named."""
    known = [role.name for role in job.roles]
    for name in names:
        if name not in known:
            raise UserError(f"The job has no role {name[:100]!r}", field="role", hint=guess_or_list(name, known))
    return tuple(name for name in known if name in names) if names else tuple(known)


def cut(job: Job, instances: int | None, node: Node, remarks: Remarks, chosen: Collection[str]) -> Job:
    """`instances`: at most so many of each role; None: all. Nothing is said of roles that are not `chosen`."""
    if job.max_retries or any(role.max_task_retries for role in job.roles if role.name in chosen):
        remarks.note(About.EXIT, "Nothing is tried again here: the first failure is reported")
    return replace(
        job,
        roles=tuple(_role(role, instances, node, remarks.on(role.name, chosen)) for role in job.roles),
        max_retries=0,
        hold=None,
    )


def _role(role: Role, most: int | None, node: Node, remarks: Remarks) -> Role:
    count = role.instances if most is None else min(most, role.instances)
    if count < role.instances:
        hint = "Run more with --instances N, or all of them with --instances all."
        remarks.note(About.INSTANCES, f"Runs {count} of {role.instances} instances", hint, role.name)
    return replace(
        role,
        instances=count,
        resources=_resources(role, node, remarks),
        completion=_completion(role.completion, count),
        max_task_retries=0,
    )


def _completion(rule: Completion, count: int) -> Completion:
    """A rule for more tasks than there are would never be met."""

    def fitting(needed: int | None) -> int | None:
        return needed if needed is None else min(needed, count)

    return Completion(min_failed=fitting(rule.min_failed), min_succeeded=fitting(rule.min_succeeded))


def _resources(role: Role, node: Node, remarks: Remarks) -> Resources:
    asked = role.resources
    cpu, memory, gpu = min(asked.cpu, node.cpu), min(asked.memory, node.memory), min(asked.gpu, len(node.gpus))
    parts = []
    if cpu < asked.cpu:
        parts.append(f"{show_cores(cpu)} instead of {show_cores(asked.cpu)}")
    if memory < asked.memory:
        parts.append(f"{show_bytes(memory)} of memory instead of {show_bytes(asked.memory)}")
    if gpu < asked.gpu:
        parts.append(f"{show_gpus(gpu) if gpu else 'no GPU'} instead of {show_gpus(asked.gpu)}")
    if parts:
        remarks.note(About.RESOURCES, f"Runs with {', '.join(parts)}: this machine has no more", role=role.name)
    return replace(asked, cpu=cpu, memory=memory, gpu=gpu, shm=min(asked.shm, memory) if asked.shm else asked.shm)

"""A placed task -> the Launch an engine starts."""

from __future__ import annotations

from holdfast.core.attempt import JobSnapshot, TaskAttempt
from holdfast.core.job import Role
from holdfast.engines.base import Launch
from holdfast.jobspec import fill_secrets


def build_launch(snapshot: JobSnapshot, task: TaskAttempt) -> Launch:
    """Secrets are filled in here and nowhere earlier."""
    job = snapshot.job
    role = job.role(task.role)
    return Launch(
        attempt_id=snapshot.attempt_id(task),
        job_id=snapshot.id,
        task=task.task,
        user=snapshot.user,
        group=job.group,
        image=role.image,
        script=_fill("\n".join(role.commands), job.secrets) + "\n",
        shell_options=role.shell_options,
        env={**_own_variables(snapshot, task, role), **{k: _fill(v, job.secrets) for k, v in role.env.items()}},
        resources=role.resources,
        gpus=task.gpus,
        ports=task.ports,
        mounts=role.mounts,
        workdir=role.workdir,
    )


def _fill(text: str, secrets: object) -> str:
    return fill_secrets(text, secrets) if secrets and isinstance(secrets, dict) else text


def _own_variables(snapshot: JobSnapshot, task: TaskAttempt, role: Role) -> dict[str, str]:
    return {
        "HOLDFAST_JOB": snapshot.id,
        "HOLDFAST_JOB_NAME": snapshot.job.name,
        "HOLDFAST_JOB_ATTEMPT": str(snapshot.attempt),
        "HOLDFAST_USER": snapshot.user,
        "HOLDFAST_GROUP": snapshot.job.group,
        "HOLDFAST_ROLE": task.role,
        "HOLDFAST_TASK": task.task,
        "HOLDFAST_TASK_INDEX": str(task.index),
        "HOLDFAST_TASK_COUNT": str(role.instances),
        "PRIMEHUB_USER": snapshot.user,
        "PRIMEHUB_GROUP": snapshot.job.group,
    }

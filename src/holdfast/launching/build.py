"""Puts a Launch together. Secrets are filled in here and nowhere earlier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from holdfast.core.attempt import JobSnapshot, TaskAttempt
from holdfast.core.job import Dialect, Job, Role
from holdfast.engines.base import Launch
from holdfast.jobspec import fill_secrets

from .context import LaunchContext
from .intra_job_ssh import with_intra_job_ssh
from .openpai import JobTasks, SharedLaunchData, add_openpai_runtime, openpai_filler
from .primehub import dress_primehub
from .volumes import with_files, with_volume


class Launcher:
    """For the tasks of one attempt that start together; what they share is worked out once."""

    def __init__(self, snapshot: JobSnapshot) -> None:
        self.snapshot = snapshot
        self._company: SharedLaunchData | None = None
        self.takes_time = snapshot.job.dialect.openpai  # a launch of it may be long: build it in a thread

    def launch(self, task: TaskAttempt, surroundings: LaunchContext) -> Launch:
        snapshot = self.snapshot
        if not snapshot.job.dialect.openpai:
            return _dress(_launch(snapshot, task, _filler(snapshot.job)), snapshot, task, surroundings)
        if self._company is None:
            self._company = SharedLaunchData(JobTasks(snapshot, surroundings.addresses))
        launch = _launch(snapshot, task, openpai_filler(snapshot.job, task.role))
        return add_openpai_runtime(launch, task, self._company, surroundings)


def _dress(launch: Launch, snapshot: JobSnapshot, task: TaskAttempt, surroundings: LaunchContext) -> Launch:
    if snapshot.job.dialect is Dialect.PRIMEHUB:
        return dress_primehub(launch, snapshot, snapshot.job.role(task.role), surroundings)
    if surroundings.variables:
        launch = replace(launch, env={**surroundings.variables, **launch.env})
    if surroundings.volume and surroundings.isolated:  # without a sandbox nothing appears at another path
        launch = with_volume(launch, surroundings.volume)
    if surroundings.files:
        launch = with_files(launch, surroundings.files, isolated=surroundings.isolated)
    return with_intra_job_ssh(launch, snapshot.job, surroundings) if snapshot.job.task_count > 1 else launch


def _launch(snapshot: JobSnapshot, task: TaskAttempt, fill: Callable[[str], str]) -> Launch:
    job = snapshot.job
    role = job.role(task.role)
    return Launch(
        attempt_id=snapshot.attempt_id(task),
        job_id=snapshot.id,
        task=task.task,
        user=snapshot.user,
        group=job.group,
        image=role.engine_image,
        script=fill("\n".join(role.commands)) + "\n",
        shell_options=role.shell_options,
        env={**_own_variables(snapshot, task, role), **{name: fill(value) for name, value in role.env.items()}},
        resources=role.resources,
        gpus=task.gpus,
        ports=task.ports,
        mounts=role.mounts,
        workdir=role.workdir,
    )


def _filler(job: Job) -> Callable[[str], str]:
    secrets = job.secrets
    return (lambda text: fill_secrets(text, secrets)) if secrets else (lambda text: text)


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

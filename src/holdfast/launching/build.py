"""Builds a Launch. Secrets are filled in here and nowhere earlier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from holdfast.core.attempt import JobSnapshot, TaskAttempt
from holdfast.core.job import Job, JobFormat, Role
from holdfast.engines.base import LaunchSpec
from holdfast.jobspec import fill_secrets

from .context import LaunchContext
from .intra_job_ssh import add_intra_job_ssh
from .openpai import JobTasks, SharedLaunchData, add_openpai_runtime, make_openpai_filler
from .primehub import add_primehub_runtime
from .sbatch import add_sbatch_runtime
from .volumes import add_shared_files, add_volume


class AttemptLaunchBuilder:
    """Builds the launches of one attempt's tasks that start together; shared data is computed once."""

    def __init__(self, snapshot: JobSnapshot) -> None:
        self.snapshot = snapshot
        self._shared_data: SharedLaunchData | None = None
        self._gangs: dict[datetime, tuple[str, ...]] = {}  # cached, by the time of placement
        self.needs_thread = snapshot.job.dialect.is_openpai  # its launch may be long: build it in a thread

    def build_launch(self, task: TaskAttempt, context: LaunchContext) -> LaunchSpec:
        launch = replace(self._build_for_node(task, context), gang=self._list_gang(task))
        if context.group_options:
            launch = replace(launch, engine_options={**context.group_options, **launch.engine_options})
        if task.node not in context.queue_nodes:
            return launch
        return replace(launch, node=None, gpus=(), ports={}, port_counts=self.snapshot.job.get_role(task.role).ports)

    def _list_gang(self, task: TaskAttempt) -> tuple[str, ...]:
        """Return the attempt ids of all tasks that were placed together with it; none if it was placed alone."""
        snapshot, at = self.snapshot, task.placed_at
        if at is None or not snapshot.job.gang or len(snapshot.tasks) == 1:
            return ()
        if at not in self._gangs:
            gang = tuple(snapshot.build_attempt_id(each) for each in snapshot.tasks if each.placed_at == at)
            self._gangs[at] = gang if len(gang) > 1 else ()
        return self._gangs[at]

    def _build_for_node(self, task: TaskAttempt, context: LaunchContext) -> LaunchSpec:
        snapshot = self.snapshot
        if not snapshot.job.dialect.is_openpai:
            return _add_runtime(
                _build_launch(snapshot, task, _make_secret_filler(snapshot.job)), snapshot, task, context
            )
        if self._shared_data is None:
            self._shared_data = SharedLaunchData(JobTasks(snapshot, context.addresses, context.queue_nodes))
        launch = _build_launch(snapshot, task, make_openpai_filler(snapshot.job, task.role))
        return add_openpai_runtime(launch, task, self._shared_data, context)


def _add_runtime(launch: LaunchSpec, snapshot: JobSnapshot, task: TaskAttempt, context: LaunchContext) -> LaunchSpec:
    if snapshot.job.dialect is JobFormat.PRIMEHUB:
        return add_primehub_runtime(launch, snapshot, snapshot.job.get_role(task.role), context)
    if context.variables:
        launch = replace(
            launch, env={**context.variables, **launch.env}, secret_env=launch.secret_env | context.variables.keys()
        )
    if context.volume and context.isolated:  # without a sandbox the target must equal the source
        launch = add_volume(launch, context.volume)
    if context.files:
        launch = add_shared_files(launch, context.files, isolated=context.isolated)
    if snapshot.job.dialect is JobFormat.SBATCH:
        return add_sbatch_runtime(launch, snapshot, task)
    return add_intra_job_ssh(launch, snapshot.job, context) if snapshot.job.task_count > 1 else launch


def _build_launch(snapshot: JobSnapshot, task: TaskAttempt, fill: Callable[[str], str]) -> LaunchSpec:
    job = snapshot.job
    role = job.get_role(task.role)
    own = {name: fill(value) for name, value in role.env.items()}
    return LaunchSpec(
        attempt_id=snapshot.build_attempt_id(task),
        job_id=snapshot.id,
        task=task.task,
        user=snapshot.user,
        group=job.group,
        image=role.engine_image,
        script=fill("\n".join(role.commands)) + "\n",
        shell_options=role.shell_options,
        env={**_make_holdfast_variables(snapshot, task, role), **own},
        secret_env=frozenset(name for name, value in own.items() if value != role.env[name]),
        node=task.node,
        resources=role.resources,
        engine=task.engine,
        gpus=task.gpus,
        ports=task.ports,
        engine_options={**role.type_options.get(task.engine, {}), **role.engine_options.get(task.engine, {})},
        mounts=role.mounts,
        workdir=role.workdir,
        # OpenPAI and PrimeHub run every job as root, whatever the image says: files for them rely on it.
        as_image_user=not job.dialect.emulates_platform,
    )


def _make_secret_filler(job: Job) -> Callable[[str], str]:
    secrets = job.secrets
    return (lambda text: fill_secrets(text, secrets)) if secrets else (lambda text: text)


def _make_holdfast_variables(snapshot: JobSnapshot, task: TaskAttempt, role: Role) -> dict[str, str]:
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

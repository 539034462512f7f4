"""The environment variables of OpenPAI's tasks, with the names of both its generations.

A name with a role in it has two spellings: as written in the job, and plain (see core.identity).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from holdfast.core import identity
from holdfast.core.attempt import JobSnapshot, TaskAttempt
from holdfast.core.job import MIB, JobFormat, Role

from .references import get_role_config

_FALLBACK_ADDRESS = "127.0.0.1"  # for an unknown machine


@dataclass(frozen=True)
class JobTasks:
    """All tasks of one attempt with their nodes: the same for each of them, so computed once."""

    snapshot: JobSnapshot
    addresses: Mapping[str, str]
    queue_nodes: frozenset[str] = frozenset()  # there, the engine sets the variables of devices

    @cached_property
    def plain_names(self) -> dict[str, str]:
        return identity.build_unique_role_names(role.name for role in self.snapshot.job.roles)

    def list_spellings(self, role: str) -> tuple[str, ...]:
        plain = self.plain_names[role]
        return (role,) if plain == role else (role, plain)

    @cached_property
    def placed_tasks(self) -> dict[str, list[TaskAttempt]]:
        """By role: the tasks with a known node; all tasks of a job placed together."""
        found: dict[str, list[TaskAttempt]] = {role.name: [] for role in self.snapshot.job.roles}
        for task in sorted(self.snapshot.tasks, key=lambda task: task.index):
            if task.node is not None:
                found[task.role].append(task)
        return found

    def get_address(self, task: TaskAttempt) -> str:
        return self.addresses.get(task.node or "", _FALLBACK_ADDRESS)

    @cached_property
    def variables(self) -> dict[str, str]:
        """Of the job and each of its roles."""
        return {**_make_job_variables(self), **_make_role_variables(self)}


@dataclass(frozen=True)
class TaskContext:
    """One task and its job."""

    job_tasks: JobTasks
    task: TaskAttempt

    @property
    def snapshot(self) -> JobSnapshot:
        return self.job_tasks.snapshot

    @cached_property
    def role(self) -> Role:
        return self.snapshot.job.get_role(self.task.role)

    @cached_property
    def container(self) -> str:
        return identity.build_container_uid(self.snapshot.build_attempt_id(self.task))


def get_first_port(task: TaskAttempt, label: str) -> str:
    numbers = task.ports.get(label, ())
    return str(numbers[0]) if numbers else ""


def make_own_variables(scene: TaskContext) -> dict[str, str]:
    own = {
        **_make_current_task_variables(scene),
        **_make_port_variables(scene),
        **_make_controller_variables(scene),
        **_make_legacy_variables(scene),
    }
    return {**own, **make_address_variables(scene.job_tasks, [scene.task])}


def _make_job_variables(job_tasks: JobTasks) -> dict[str, str]:
    snapshot, job = job_tasks.snapshot, job_tasks.snapshot.job
    full_name = identity.build_framework_name(snapshot.user, job.name)
    roles = ",".join(role.name for role in job.roles)
    instances = [f"{job_tasks.plain_names[role.name]}:{index}" for role in job.roles for index in range(role.instances)]
    return {
        "PAI_JOB_NAME": full_name,
        "PAI_FRAMEWORK_NAME": full_name,
        "PAI_USER_NAME": snapshot.user,
        "PAI_USERNAME": snapshot.user,
        "PAI_DEFAULT_FS_URI": "",
        "PAI_VIRTUAL_CLUSTER": job.group,
        **dict.fromkeys(("PAI_TASK_ROLE_COUNT", "PAI_TASK_ROLES_NUM", "PAI_JOB_TASK_ROLE_COUNT"), str(len(job.roles))),
        **dict.fromkeys(("PAI_TASK_ROLE_LIST", "PAI_JOB_TASK_ROLE_LIST"), roles),
        **dict.fromkeys(("PAI_TASKS_NUM", "PAI_JOB_TASK_COUNT"), str(job.task_count)),
        "PAI_TASK_ROLE_INSTANCES": ",".join(instances),
        "RUNTIME_LOG_PIPE": "/dev/null",  # the runtime has no separate log
    }


def _make_current_task_variables(scene: TaskContext) -> dict[str, str]:
    index, address = str(scene.task.index), scene.job_tasks.get_address(scene.task)
    gpus = scene.role.resources.gpu if scene.task.node in scene.job_tasks.queue_nodes else len(scene.task.gpus)
    return {
        "PAI_CURRENT_TASK_ROLE_NAME": scene.task.role,
        "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": index,
        "PAI_TASK_INDEX": index,
        "PAI_TASK_ROLE_INDEX": index,
        "PAI_CURRENT_CONTAINER_IP": address,
        "PAI_CONTAINER_HOST_IP": address,
        **({} if gpus else {"NVIDIA_VISIBLE_DEVICES": "none"}),  # otherwise the engine sets it
    }


def _make_port_variables(scene: TaskContext) -> dict[str, str]:
    task = scene.task
    lists = {label: _join_numbers(numbers) for label, numbers in task.ports.items()}
    http = get_first_port(task, "http")
    return {
        "PAI_CURRENT_CONTAINER_PORT": http,
        "PAI_CONTAINER_HOST_PORT": http,
        "PAI_CONTAINER_SSH_PORT": get_first_port(task, "ssh"),
        "PAI_CONTAINER_HOST_PORT_LIST": "".join(f"{label}:{numbers};" for label, numbers in lists.items()),
        **{f"PAI_CONTAINER_HOST_{label}_PORT_LIST": numbers for label, numbers in lists.items()},
    }


def _make_controller_variables(scene: TaskContext) -> dict[str, str]:
    """Return the variables of OpenPAI's later controller, with our ids."""
    snapshot, task = scene.snapshot, scene.task
    name = identity.build_debug_id(snapshot.user, snapshot.job.name)
    attempt_uid = identity.build_attempt_uid(snapshot.id, snapshot.attempt)
    plain = scene.job_tasks.plain_names[task.role]
    return {
        "FC_FRAMEWORK_NAMESPACE": "default",
        "FC_FRAMEWORK_NAME": name,
        "FC_TASKROLE_NAME": plain,
        "FC_TASK_INDEX": str(task.index),
        "FC_CONFIGMAP_NAME": f"{name}-attempt",
        "FC_POD_NAME": f"{name}-{plain}-{task.index}",
        "FC_FRAMEWORK_UID": identity.build_framework_uid(snapshot.id),
        "FC_FRAMEWORK_ATTEMPT_ID": str(snapshot.attempt),
        "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID": f"{snapshot.attempt}_{attempt_uid}",
        "FC_CONFIGMAP_UID": attempt_uid,
        "FC_TASKROLE_UID": identity.build_role_uid(snapshot.id, snapshot.attempt, task.role),
        "FC_TASK_UID": identity.build_task_uid(snapshot.id, snapshot.attempt, task.role, task.index),
        "FC_TASK_ATTEMPT_ID": str(task.number),
        "FC_POD_UID": scene.container,
        "FC_TASK_ATTEMPT_INSTANCE_UID": f"{task.number}_{scene.container}",
    }


def _make_legacy_variables(scene: TaskContext) -> dict[str, str]:
    """Return the variables that only OpenPAI's first generation had, with the job's own folders if it sets them."""
    snapshot, role = scene.snapshot, scene.role
    gpu, cpu, memory, shm = _format_resources(scene.job_tasks, role)
    failed, succeeded = (
        _format_completion_count(role.completion.min_failed),
        _format_completion_count(role.completion.min_succeeded),
    )
    return {
        "APP_ID": snapshot.id,
        "FRAMEWORK_NAME": identity.build_framework_name(snapshot.user, snapshot.job.name),
        "HADOOP_USER_NAME": snapshot.user,
        "PAI_CONTAINER_ID": scene.container,
        **dict.fromkeys(("PAI_DATA_DIR", "PAI_CODE_DIR", "PAI_OUTPUT_DIR"), ""),
        "PAI_TASK_ROLE_NAME": role.name,
        **dict.fromkeys(("PAI_TASK_ROLE_NUM", "PAI_CURRENT_TASK_ROLE_TASK_COUNT"), str(role.instances)),
        **dict.fromkeys(("PAI_TASK_CPU_NUM", "PAI_CURRENT_TASK_ROLE_CPU_COUNT"), cpu),
        **dict.fromkeys(("PAI_TASK_MEM_MB", "PAI_CURRENT_TASK_ROLE_MEM_MB"), memory),
        **dict.fromkeys(("PAI_TASK_GPU_NUM", "PAI_CURRENT_TASK_ROLE_GPU_COUNT"), gpu),
        "PAI_CURRENT_TASK_ROLE_SHM_MB": shm,
        "PAI_CURRENT_TASK_ROLE_MIN_FAILED_TASK_COUNT": failed,
        "PAI_CURRENT_TASK_ROLE_MIN_SUCCEEDED_TASK_COUNT": succeeded,
        "PAI_RESOURCE": ",".join((gpu, cpu, memory, shm)),
    }


def _make_role_variables(job_tasks: JobTasks) -> dict[str, str]:
    found: dict[str, str] = {}
    for role in job_tasks.snapshot.job.roles:
        tasks = [
            f"{job_tasks.get_address(task)}:{get_first_port(task, 'http')}"
            for task in job_tasks.placed_tasks[role.name]
        ]
        about = {
            "PAI_TASK_ROLE_TASK_COUNT_{}": str(role.instances),
            "PAI_RESOURCE_{}": ",".join(_format_resources(job_tasks, role)),
            "PAI_MIN_FAILED_TASK_COUNT_{}": _format_completion_count(role.completion.min_failed),
            "PAI_MIN_SUCCEEDED_TASK_COUNT_{}": _format_completion_count(role.completion.min_succeeded),
            "PAI_TASK_ROLE_{}_HOST_LIST": ",".join(tasks),
        }
        for spelling in job_tasks.list_spellings(role.name):
            found.update({name.format(spelling): value for name, value in about.items()})
    return found


def make_address_variables(job_tasks: JobTasks, tasks: Iterable[TaskAttempt]) -> dict[str, str]:
    """Return the nodes and ports of these tasks."""
    found: dict[str, str] = {}
    for task in tasks:
        address = job_tasks.get_address(task)
        lists = {label: _join_numbers(numbers) for label, numbers in task.ports.items()}
        for spelling in job_tasks.list_spellings(task.role):
            place = f"{spelling}_{task.index}"
            found[f"PAI_HOST_IP_{place}"] = address
            for label, numbers in lists.items():
                found[f"PAI_PORT_LIST_{place}_{label}"] = numbers
                found[f"PAI_{place}_{label}_PORT"] = numbers
    return found


def _format_resources(job_tasks: JobTasks, role: Role) -> tuple[str, str, str, str]:
    """Return GPUs, cores, MiB of memory and of shared memory; 0 if the file does not set it."""
    asked = role.resources
    shm = (asked.shm or 0) // MIB if _has_shm_setting(job_tasks, role) else 0
    return str(asked.gpu), _format_cores(asked.cpu), str(asked.memory // MIB), str(shm)


def _has_shm_setting(job_tasks: JobTasks, role: Role) -> bool:
    if job_tasks.snapshot.job.dialect is JobFormat.OPENPAI_V1:
        return True
    options = get_role_config(job_tasks.snapshot.job, role.name).get("extraContainerOptions")
    return isinstance(options, Mapping) and options.get("shmMB") is not None


def _format_completion_count(count: int | None) -> str:
    return "-1" if count is None else str(count)


def _join_numbers(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))


def _format_cores(cpu: float) -> str:
    return str(int(cpu)) if cpu.is_integer() else str(cpu)

"""The environment variables of OpenPAI's tasks, in the names of both its ages.

Where a name holds a role, it comes in two spellings: as the job's author wrote it, and plain (see core.identity).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from holdfast.core import identity
from holdfast.core.attempt import JobSnapshot, TaskAttempt
from holdfast.core.job import MIB, Dialect, Role

from .filling import openpai_config

_FALLBACK = "127.0.0.1"  # for a machine that is no longer known


@dataclass(frozen=True)
class JobTasks:
    """All tasks of one attempt as they were placed: the same for each of them, so worked out once."""

    snapshot: JobSnapshot
    addresses: Mapping[str, str]

    @cached_property
    def plain(self) -> dict[str, str]:
        return identity.plain_roles(role.name for role in self.snapshot.job.roles)

    def spellings(self, role: str) -> tuple[str, ...]:
        plain = self.plain[role]
        return (role,) if plain == role else (role, plain)

    @cached_property
    def placed(self) -> dict[str, list[TaskAttempt]]:
        """By role: the tasks whose place is known, which for a job placed together is all of them."""
        found: dict[str, list[TaskAttempt]] = {role.name: [] for role in self.snapshot.job.roles}
        for task in sorted(self.snapshot.tasks, key=lambda task: task.index):
            if task.node is not None:
                found[task.role].append(task)
        return found

    def address(self, task: TaskAttempt) -> str:
        return self.addresses.get(task.node or "", _FALLBACK)

    @cached_property
    def variables(self) -> dict[str, str]:
        """About the job and each of its roles."""
        return {**_job(self), **_roles(self)}


@dataclass(frozen=True)
class Scene:
    """One task among the others of its job."""

    crowd: JobTasks
    task: TaskAttempt

    @property
    def snapshot(self) -> JobSnapshot:
        return self.crowd.snapshot

    @cached_property
    def role(self) -> Role:
        return self.snapshot.job.role(self.task.role)

    @cached_property
    def container(self) -> str:
        return identity.container_uid(self.snapshot.attempt_id(self.task))


def first_port(task: TaskAttempt, label: str) -> str:
    numbers = task.ports.get(label, ())
    return str(numbers[0]) if numbers else ""


def own_variables(scene: Scene) -> dict[str, str]:
    """About this task alone."""
    own = {**_task(scene), **_ports(scene), **_controller(scene), **_first_age(scene)}
    return {**own, **task_variables(scene.crowd, [scene.task])}


def _job(crowd: JobTasks) -> dict[str, str]:
    snapshot, job = crowd.snapshot, crowd.snapshot.job
    full_name = identity.framework_name(snapshot.user, job.name)
    roles = ",".join(role.name for role in job.roles)
    instances = [f"{crowd.plain[role.name]}:{index}" for role in job.roles for index in range(role.instances)]
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
        "RUNTIME_LOG_PIPE": "/dev/null",  # there is no log of the runtime beside the task's own
    }


def _task(scene: Scene) -> dict[str, str]:
    index, address = str(scene.task.index), scene.crowd.address(scene.task)
    return {
        "PAI_CURRENT_TASK_ROLE_NAME": scene.task.role,
        "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": index,
        "PAI_TASK_INDEX": index,
        "PAI_TASK_ROLE_INDEX": index,
        "PAI_CURRENT_CONTAINER_IP": address,
        "PAI_CONTAINER_HOST_IP": address,
        **({} if scene.task.gpus else {"NVIDIA_VISIBLE_DEVICES": "none"}),  # otherwise the engine says which
    }


def _ports(scene: Scene) -> dict[str, str]:
    task = scene.task
    lists = {label: _joined(numbers) for label, numbers in task.ports.items()}
    http = first_port(task, "http")
    return {
        "PAI_CURRENT_CONTAINER_PORT": http,
        "PAI_CONTAINER_HOST_PORT": http,
        "PAI_CONTAINER_SSH_PORT": first_port(task, "ssh"),
        "PAI_CONTAINER_HOST_PORT_LIST": "".join(f"{label}:{numbers};" for label, numbers in lists.items()),
        **{f"PAI_CONTAINER_HOST_{label}_PORT_LIST": numbers for label, numbers in lists.items()},
    }


def _controller(scene: Scene) -> dict[str, str]:
    """What the controller of OpenPAI's later age said of itself: ids that are ours under its names."""
    snapshot, task = scene.snapshot, scene.task
    name = identity.debug_id(snapshot.user, snapshot.job.name)
    attempt_uid = identity.attempt_uid(snapshot.id, snapshot.attempt)
    plain = scene.crowd.plain[task.role]
    return {
        "FC_FRAMEWORK_NAMESPACE": "default",
        "FC_FRAMEWORK_NAME": name,
        "FC_TASKROLE_NAME": plain,
        "FC_TASK_INDEX": str(task.index),
        "FC_CONFIGMAP_NAME": f"{name}-attempt",
        "FC_POD_NAME": f"{name}-{plain}-{task.index}",
        "FC_FRAMEWORK_UID": identity.framework_uid(snapshot.id),
        "FC_FRAMEWORK_ATTEMPT_ID": str(snapshot.attempt),
        "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID": f"{snapshot.attempt}_{attempt_uid}",
        "FC_CONFIGMAP_UID": attempt_uid,
        "FC_TASKROLE_UID": identity.role_uid(snapshot.id, snapshot.attempt, task.role),
        "FC_TASK_UID": identity.task_uid(snapshot.id, snapshot.attempt, task.role, task.index),
        "FC_TASK_ATTEMPT_ID": str(task.number),
        "FC_POD_UID": scene.container,
        "FC_TASK_ATTEMPT_INSTANCE_UID": f"{task.number}_{scene.container}",
    }


def _first_age(scene: Scene) -> dict[str, str]:
    """What only OpenPAI's first age had; the folders are the job's own where it names them."""
    snapshot, role = scene.snapshot, scene.role
    gpu, cpu, memory, shm = _amounts(scene.crowd, role)
    failed, succeeded = _rule(role.completion.min_failed), _rule(role.completion.min_succeeded)
    return {
        "APP_ID": snapshot.id,
        "FRAMEWORK_NAME": identity.framework_name(snapshot.user, snapshot.job.name),
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


def _roles(crowd: JobTasks) -> dict[str, str]:
    found: dict[str, str] = {}
    for role in crowd.snapshot.job.roles:
        tasks = [f"{crowd.address(task)}:{first_port(task, 'http')}" for task in crowd.placed[role.name]]
        about = {
            "PAI_TASK_ROLE_TASK_COUNT_{}": str(role.instances),
            "PAI_RESOURCE_{}": ",".join(_amounts(crowd, role)),
            "PAI_MIN_FAILED_TASK_COUNT_{}": _rule(role.completion.min_failed),
            "PAI_MIN_SUCCEEDED_TASK_COUNT_{}": _rule(role.completion.min_succeeded),
            "PAI_TASK_ROLE_{}_HOST_LIST": ",".join(tasks),
        }
        for spelling in crowd.spellings(role.name):
            found.update({name.format(spelling): value for name, value in about.items()})
    return found


def task_variables(crowd: JobTasks, tasks: Iterable[TaskAttempt]) -> dict[str, str]:
    """Where these tasks are: their machines and ports."""
    found: dict[str, str] = {}
    for task in tasks:
        address = crowd.address(task)
        lists = {label: _joined(numbers) for label, numbers in task.ports.items()}
        for spelling in crowd.spellings(task.role):
            place = f"{spelling}_{task.index}"
            found[f"PAI_HOST_IP_{place}"] = address
            for label, numbers in lists.items():
                found[f"PAI_PORT_LIST_{place}_{label}"] = numbers
                found[f"PAI_{place}_{label}_PORT"] = numbers
    return found


def _amounts(crowd: JobTasks, role: Role) -> tuple[str, str, str, str]:
    """GPUs, cores, MiB of memory and of shared memory, of which 0 means that the file does not say."""
    asked = role.resources
    shm = (asked.shm or 0) // MIB if _names_shm(crowd, role) else 0
    return str(asked.gpu), _whole(asked.cpu), str(asked.memory // MIB), str(shm)


def _names_shm(crowd: JobTasks, role: Role) -> bool:
    if crowd.snapshot.job.dialect is Dialect.OPENPAI_V1:
        return True
    roles = openpai_config(crowd.snapshot.job).get("taskRoles")
    written = roles.get(role.name) if isinstance(roles, Mapping) else None
    options = written.get("extraContainerOptions") if isinstance(written, Mapping) else None
    return isinstance(options, Mapping) and options.get("shmMB") is not None


def _rule(count: int | None) -> str:
    return "-1" if count is None else str(count)


def _joined(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))


def _whole(cpu: float) -> str:
    return str(int(cpu)) if cpu.is_integer() else str(cpu)

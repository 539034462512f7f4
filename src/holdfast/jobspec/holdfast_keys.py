"""All keys of Holdfast's job file. The parser and the JSON Schema both use these tables."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from holdfast.core.job import SHARED_FILES_PATH, Hold, HoldScope
from holdfast.core.messages import msg

from . import rules
from .fields import FieldKind, FieldSpec, FieldValue, InvalidValue
from .holds import NO_HOLD, build_hold
from .kinds import (
    BOOLEAN_KIND,
    DURATION_KIND,
    OBJECT_KIND,
    make_choice_kind,
    make_integer_kind,
    make_list_kind,
    make_map_kind,
    make_object_kind,
    make_optional_kind,
    make_union_kind,
)  # fmt: skip
from .notify import NOTIFY_KIND
from .rules import ENV_NAME_KIND, ENV_VALUE_KIND, PORT_COUNT_KIND, PORT_LABEL_KIND, RETRIES_KIND

_TASK_COUNT_KIND = make_integer_kind(least=1, most=rules.MAX_TASKS)

_RESOURCES_KIND = make_object_kind(
    {
        "cpu": FieldSpec(rules.CPU_KIND, "CPU cores; fractions are allowed."),
        "memory": FieldSpec(rules.MEMORY_KIND, "Memory limit: 512Mi, 2Gi, 1.5G or a number of bytes."),
        "gpu": FieldSpec(rules.GPU_KIND, "Number of GPUs."),
        "shm": FieldSpec(make_optional_kind(rules.SHM_KIND), "Size of /dev/shm; none: the node's default."),
    }
)
_COMPLETION_KIND = make_object_kind(
    {
        "min_failed": FieldSpec(
            make_optional_kind(_TASK_COUNT_KIND),
            "The job fails when this number of tasks of this role have failed; none: never.",
        ),
        "min_succeeded": FieldSpec(
            make_optional_kind(_TASK_COUNT_KIND),
            "The job succeeds when this number of tasks of this role have succeeded.",
        ),
        "wait_for_all": FieldSpec(
            BOOLEAN_KIND, "Apply min_failed only when all tasks of this role have ended. Default: false."
        ),
    }
)


def _read_port_list(at: FieldValue) -> dict[str, int]:
    labels = _PORT_LABELS_KIND.read(at)
    twice = {label for label in labels if labels.count(label) > 1}
    if twice:
        hint = "Write a mapping of label to count to request several ports."
        raise InvalidValue(msg("contains {name} twice", name=repr(sorted(twice)[0])), hint, rule="uniqueItems")
    return dict.fromkeys(labels, 1)


_PORT_LABELS_KIND = make_list_kind(PORT_LABEL_KIND, most=100)
PORTS_KIND: FieldKind[dict[str, int]] = make_union_kind(
    (list, FieldKind(_read_port_list, _PORT_LABELS_KIND.schema)),
    (dict, make_map_kind(PORT_COUNT_KIND, name=PORT_LABEL_KIND, most=100, empty=1)),
    otherwise="a list of labels or a mapping of label to count",
)


def _read_task_retries(at: FieldValue) -> int:
    value = _TASK_RETRIES_KIND.read(at)
    return int(value.get("tasks", 0)) if isinstance(value, dict) else int(value)


_TASK_RETRIES_KIND = make_union_kind(
    ((int, float), RETRIES_KIND),
    (dict, make_object_kind({"tasks": FieldSpec(RETRIES_KIND, "Maximum number of retries of each failed task.")})),
    otherwise="a whole number or a mapping with tasks",
)
_JOB_RETRIES_KIND = make_union_kind(
    ((int, float), RETRIES_KIND),
    (
        dict,
        make_object_kind(
            {
                "max": FieldSpec(
                    RETRIES_KIND, "Maximum number of retries of the whole job; -1: unlimited, -2: also after success."
                ),
                "tasks": FieldSpec(
                    RETRIES_KIND, "Maximum number of retries of each failed task; requires gang: false."
                ),
            }
        ),
    ),
    otherwise="a whole number or a mapping with max and tasks",
)


def _read_hold(at: FieldValue) -> Hold:
    value = _HOLD_UNION_KIND.read(at)
    if isinstance(value, bool):
        return Hold() if value else NO_HOLD
    if isinstance(value, timedelta):
        return build_hold(value)
    return build_hold(value.get("for"), HoldScope(value.get("keep", HoldScope.ALL)))


_HOLD_UNION_KIND = make_union_kind(
    (bool, BOOLEAN_KIND),
    (
        dict,
        make_object_kind(
            {
                "on": FieldSpec(make_choice_kind("failure"), "When to hold a task: only failure is supported."),
                "for": FieldSpec(DURATION_KIND, "Maximum duration of the hold. Default: set by the admin."),
                "keep": FieldSpec(
                    make_choice_kind(HoldScope.ALL, HoldScope.FILES), "all: container and resources; files: files only."
                ),
            }
        ),
    ),
    ((str, int, float), DURATION_KIND),
    otherwise="true, false, a duration or a mapping with for and keep",
)
HOLD_KIND: FieldKind[Hold] = FieldKind(_read_hold, _HOLD_UNION_KIND.schema)

SLURM_KEYS = {
    "partition": FieldSpec(rules.ENGINE_OPTION_KIND, "Partition, or several separated by commas."),
    "account": FieldSpec(rules.ENGINE_OPTION_KIND, "Account that is charged."),
    "qos": FieldSpec(rules.ENGINE_OPTION_KIND, "Quality of service."),
    "constraint": FieldSpec(rules.ENGINE_OPTION_KIND, "Features that its nodes must have."),
    "reservation": FieldSpec(rules.ENGINE_OPTION_KIND, "Reservation whose nodes it uses."),
    "gres": FieldSpec(rules.ENGINE_OPTION_KIND, "Generic resources of each task; its GPUs count as resources.gpu."),
}
# Engine -> options for the system behind it; the key of the job file has the name of the engine.
ENGINE_OPTION_KINDS = {"slurm": make_object_kind(SLURM_KEYS)}

_ENV_KIND = make_map_kind(ENV_VALUE_KIND, name=ENV_NAME_KIND, most=rules.MAX_VARIABLES, empty="")


def _read_datasets(at: FieldValue) -> tuple[str, ...]:
    names = _DATASETS_KIND.read(at)
    if len(set(names)) < len(names):
        raise InvalidValue("contains a dataset twice", rule="uniqueItems")
    return names


_DATASETS_KIND = make_list_kind(rules.DATASET_KIND, most=32)


def _read_command(at: FieldValue) -> str:
    if isinstance(at.node.value, list):
        hint = "Use commands for a list of lines, or write the command and its arguments as one string."
        raise InvalidValue("must be text, not a list", hint, rule="type", expected="string")
    return rules.COMMAND_KIND.read(at)


# Keys of a role; at the top level, they are defaults for every role.
SHARED_KEYS = {
    "image": FieldSpec(rules.IMAGE_KIND, "Container image of the tasks. Default: host, the node's own system."),
    "command": FieldSpec(FieldKind(_read_command, rules.COMMAND_KIND.schema), "Shell command to run."),
    "commands": FieldSpec(rules.COMMANDS_KIND, "Shell commands as a list of lines, run as one script."),
    "instances": FieldSpec(rules.INSTANCES_KIND, "Number of tasks of this role. Default: 1."),
    "env": FieldSpec(_ENV_KIND, "Environment variables."),
    "instance_type": FieldSpec(
        rules.INSTANCE_TYPE_KIND, "Instance type of each task; values in resources override it."
    ),
    "resources": FieldSpec(_RESOURCES_KIND, "Resource request of each task."),
    "ports": FieldSpec(PORTS_KIND, "Network ports to reserve: a list of labels, or a mapping of label to count."),
    "mounts": FieldSpec(make_list_kind(rules.MOUNT_KIND, most=100), "Host folders to mount in the task."),
    "completion": FieldSpec(_COMPLETION_KIND, "When this role ends the whole job."),
    "shell_options": FieldSpec(
        make_list_kind(rules.SHELL_OPTION_KIND, most=16), "Shell options (`set -o`) for the script."
    ),
    "workdir": FieldSpec(
        make_optional_kind(rules.PATH_KIND), "Working folder. Default: the working folder of the image."
    ),
    "slurm": FieldSpec(ENGINE_OPTION_KINDS["slurm"], "Options for Slurm, if its engine runs the job."),
}
ROLE_KEYS = {
    **SHARED_KEYS,
    "retry": FieldSpec(
        FieldKind(_read_task_retries, _TASK_RETRIES_KIND.schema), "Maximum number of retries of a failed task."
    ),
}


@dataclass(frozen=True, slots=True)
class RoleDraft:
    """The fields of a role as written."""

    values: dict[str, Any]
    at: FieldValue


def _read_role_draft(at: FieldValue) -> RoleDraft:
    return RoleDraft({} if at.node.value is None else _ROLE_KIND.read(at), at)


_ROLE_KIND = make_object_kind(ROLE_KEYS)
_ROLE_DRAFT_KIND = FieldKind(_read_role_draft, {"anyOf": [_ROLE_KIND.schema, {"type": "null"}]})
JOB_KEYS = {
    "name": FieldSpec(rules.JOB_NAME_KIND, "Name of the job."),
    "description": FieldSpec(rules.DESCRIPTION_KIND, "Description of the job."),
    "group": FieldSpec(rules.GROUP_NAME_KIND, "Group whose quota the job uses."),
    **SHARED_KEYS,
    "roles": FieldSpec(
        make_map_kind(_ROLE_DRAFT_KIND, name=rules.ROLE_NAME_KIND, least=1, most=rules.MAX_ROLES),
        "Roles of the job by name; their tasks run in parallel.",
    ),
    "secrets": FieldSpec(
        rules.SECRETS_KIND, "Values that are stored encrypted and never shown; each is also an environment variable."
    ),
    "export_secrets": FieldSpec(BOOLEAN_KIND, "Export secrets as environment variables. Default: true."),
    "gang": FieldSpec(BOOLEAN_KIND, "Gang scheduling: place all tasks together or none. Default: true."),
    "retry": FieldSpec(_JOB_RETRIES_KIND, "Maximum number of retries after the job itself fails."),
    "time_limit": FieldSpec(make_optional_kind(DURATION_KIND), "Maximum run time: 90m, 2h30m, 1d, seconds, or none."),
    "grace": FieldSpec(DURATION_KIND, "Time between SIGTERM and SIGKILL when a task is stopped."),
    "hold": FieldSpec(
        HOLD_KIND, "Hold failed tasks for debugging; false disables the group's hold. Default: the group's setting."
    ),
    "priority": FieldSpec(rules.PRIORITY_KIND, "Queue priority; higher values start first. Default: 0."),
    "engine": FieldSpec(
        rules.ENGINE_KIND, "Engine that runs the job, such as docker. Default: the group's, else the server's."
    ),
    "tags": FieldSpec(make_list_kind(rules.TAG_KIND, most=100), "Tags for finding the job."),
    "datasets": FieldSpec(
        FieldKind(_read_datasets, {**_DATASETS_KIND.schema, "uniqueItems": True}),
        "Datasets to mount in every task under /datasets.",
    ),
    "files": FieldSpec(
        BOOLEAN_KIND,
        msg("Mount the group's shared files in every task at {files}. Default: false.", files=SHARED_FILES_PATH),
    ),
    "notify": FieldSpec(NOTIFY_KIND, "Notifications: events for your own recipients, or entries with an address."),
    "extras": FieldSpec(OBJECT_KIND, "Any other data; stored but not interpreted."),
}

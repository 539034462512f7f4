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
    BOOLEAN,
    DURATION_KIND,
    OBJECT,
    choice_kind,
    integer_kind,
    list_kind,
    map_kind,
    object_kind,
    optional_kind,
    union_kind,
)  # fmt: skip
from .notify import NOTIFY
from .rules import ENV_NAME, ENV_VALUE, PORT_COUNT, PORT_LABEL, RETRIES

_AT_LEAST_ONE = integer_kind(least=1, most=rules.MAX_TASKS)

_RESOURCES = object_kind(
    {
        "cpu": FieldSpec(rules.CPU, "CPU cores; fractions are allowed."),
        "memory": FieldSpec(rules.MEMORY, "Memory limit: 512Mi, 2Gi, 1.5G or a number of bytes."),
        "gpu": FieldSpec(rules.GPU, "Number of GPUs."),
        "shm": FieldSpec(optional_kind(rules.SHM), "Size of /dev/shm; none: the node's default."),
    }
)
_COMPLETION = object_kind(
    {
        "min_failed": FieldSpec(
            optional_kind(_AT_LEAST_ONE),
            "The job fails when this number of tasks of this role have failed; none: never.",
        ),
        "min_succeeded": FieldSpec(
            optional_kind(_AT_LEAST_ONE), "The job succeeds when this number of tasks of this role have succeeded."
        ),
    }
)


def _read_port_list(at: FieldValue) -> dict[str, int]:
    labels = _PORT_LABELS.read(at)
    twice = {label for label in labels if labels.count(label) > 1}
    if twice:
        hint = "Write a mapping of label to count to request several ports."
        raise InvalidValue(msg("contains {name} twice", name=repr(sorted(twice)[0])), hint, rule="uniqueItems")
    return dict.fromkeys(labels, 1)


_PORT_LABELS = list_kind(PORT_LABEL, most=100)
PORTS: FieldKind[dict[str, int]] = union_kind(
    (list, FieldKind(_read_port_list, _PORT_LABELS.schema)),
    (dict, map_kind(PORT_COUNT, name=PORT_LABEL, most=100, empty=1)),
    otherwise="a list of labels or a mapping of label to count",
)


def _read_task_retries(at: FieldValue) -> int:
    value = _TASK_RETRIES.read(at)
    return int(value.get("tasks", 0)) if isinstance(value, dict) else int(value)


_TASK_RETRIES = union_kind(
    ((int, float), RETRIES),
    (dict, object_kind({"tasks": FieldSpec(RETRIES, "Maximum number of retries of each failed task.")})),
    otherwise="a whole number or a mapping with tasks",
)
_JOB_RETRIES = union_kind(
    ((int, float), RETRIES),
    (
        dict,
        object_kind(
            {
                "max": FieldSpec(
                    RETRIES, "Maximum number of retries of the whole job; -1: unlimited, -2: also after success."
                ),
                "tasks": FieldSpec(RETRIES, "Maximum number of retries of each failed task; requires gang: false."),
            }
        ),
    ),
    otherwise="a whole number or a mapping with max and tasks",
)


def _read_hold(at: FieldValue) -> Hold:
    value = _HOLD.read(at)
    if isinstance(value, bool):
        return Hold() if value else NO_HOLD
    if isinstance(value, timedelta):
        return build_hold(value)
    return build_hold(value.get("for"), HoldScope(value.get("keep", HoldScope.ALL)))


_HOLD = union_kind(
    (bool, BOOLEAN),
    (
        dict,
        object_kind(
            {
                "on": FieldSpec(choice_kind("failure"), "When to hold a task: only failure is supported."),
                "for": FieldSpec(DURATION_KIND, "Maximum duration of the hold. Default: set by the admin."),
                "keep": FieldSpec(
                    choice_kind(HoldScope.ALL, HoldScope.FILES), "all: container and resources; files: files only."
                ),
            }
        ),
    ),
    ((str, int, float), DURATION_KIND),
    otherwise="true, false, a duration or a mapping with for and keep",
)
HOLD: FieldKind[Hold] = FieldKind(_read_hold, _HOLD.schema)

_ENV = map_kind(ENV_VALUE, name=ENV_NAME, most=rules.MAX_VARIABLES, empty="")


def _read_datasets(at: FieldValue) -> tuple[str, ...]:
    names = _DATASETS.read(at)
    if len(set(names)) < len(names):
        raise InvalidValue("contains a dataset twice", rule="uniqueItems")
    return names


_DATASETS = list_kind(rules.DATASET, most=32)


def _read_command(at: FieldValue) -> str:
    if isinstance(at.node.value, list):
        hint = "Use commands for a list of lines, or write the command and its arguments as one string."
        raise InvalidValue("must be text, not a list", hint, rule="type", expected="string")
    return rules.COMMAND.read(at)


# Keys of a role; at the top level, they are defaults for every role.
SHARED_KEYS = {
    "image": FieldSpec(rules.IMAGE, "Container image of the tasks. Default: host, the node's own system."),
    "command": FieldSpec(FieldKind(_read_command, rules.COMMAND.schema), "Shell command to run."),
    "commands": FieldSpec(rules.COMMANDS, "Shell commands as a list of lines, run as one script."),
    "instances": FieldSpec(rules.INSTANCES, "Number of tasks of this role. Default: 1."),
    "env": FieldSpec(_ENV, "Environment variables."),
    "instance_type": FieldSpec(rules.INSTANCE_TYPE, "Instance type of each task; values in resources override it."),
    "resources": FieldSpec(_RESOURCES, "Resource request of each task."),
    "ports": FieldSpec(PORTS, "Network ports to reserve: a list of labels, or a mapping of label to count."),
    "mounts": FieldSpec(list_kind(rules.MOUNT, most=100), "Host folders to mount in the task."),
    "completion": FieldSpec(_COMPLETION, "When this role ends the whole job."),
    "shell_options": FieldSpec(list_kind(rules.SHELL_OPTION, most=16), "Shell options (`set -o`) for the script."),
    "workdir": FieldSpec(optional_kind(rules.PATH), "Working folder. Default: the working folder of the image."),
}
ROLE_KEYS = {
    **SHARED_KEYS,
    "retry": FieldSpec(
        FieldKind(_read_task_retries, _TASK_RETRIES.schema), "Maximum number of retries of a failed task."
    ),
}


@dataclass(frozen=True, slots=True)
class RoleDraft:
    """The fields of a role as written."""

    values: dict[str, Any]
    at: FieldValue


def _read_draft(at: FieldValue) -> RoleDraft:
    return RoleDraft({} if at.node.value is None else _ROLE.read(at), at)


_ROLE = object_kind(ROLE_KEYS)
_DRAFT = FieldKind(_read_draft, {"anyOf": [_ROLE.schema, {"type": "null"}]})
JOB_KEYS = {
    "name": FieldSpec(rules.JOB_NAME, "Name of the job."),
    "description": FieldSpec(rules.DESCRIPTION, "Description of the job."),
    "group": FieldSpec(rules.GROUP_NAME, "Group whose quota the job uses."),
    **SHARED_KEYS,
    "roles": FieldSpec(
        map_kind(_DRAFT, name=rules.ROLE_NAME, least=1, most=rules.MAX_ROLES),
        "Roles of the job by name; their tasks run in parallel.",
    ),
    "secrets": FieldSpec(
        rules.SECRETS, "Values that are stored encrypted and never shown; each is also an environment variable."
    ),
    "export_secrets": FieldSpec(BOOLEAN, "Export secrets as environment variables. Default: true."),
    "gang": FieldSpec(BOOLEAN, "Gang scheduling: place all tasks together or none. Default: true."),
    "retry": FieldSpec(_JOB_RETRIES, "Maximum number of retries after the job itself fails."),
    "time_limit": FieldSpec(optional_kind(DURATION_KIND), "Maximum run time: 90m, 2h30m, 1d, seconds, or none."),
    "grace": FieldSpec(DURATION_KIND, "Time between SIGTERM and SIGKILL when a task is stopped."),
    "hold": FieldSpec(
        HOLD, "Hold failed tasks for debugging; false disables the group's hold. Default: the group's setting."
    ),
    "priority": FieldSpec(rules.PRIORITY, "Queue priority; higher values start first. Default: 0."),
    "tags": FieldSpec(list_kind(rules.TAG, most=100), "Tags for finding the job."),
    "datasets": FieldSpec(
        FieldKind(_read_datasets, {**_DATASETS.schema, "uniqueItems": True}),
        "Datasets to mount in every task under /datasets.",
    ),
    "files": FieldSpec(
        BOOLEAN,
        msg("Mount the group's shared files in every task at {files}. Default: false.", files=SHARED_FILES_PATH),
    ),
    "notify": FieldSpec(NOTIFY, "Notifications: events for your own recipients, or entries with an address."),
    "extras": FieldSpec(OBJECT, "Any other data; stored but not interpreted."),
}

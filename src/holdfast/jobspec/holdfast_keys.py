"""Every key of Holdfast's own job file. Reading and the JSON Schema are both made from these tables."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from holdfast.core.job import FILES, Hold, Keep
from holdfast.core.messages import msg

from . import rules
from .fields import At, Key, Kind, Wrong
from .holds import NOT_HELD, hold_for
from .kinds import (
    BOOLEAN,
    DURATION_KIND,
    OBJECT,
    choice,
    either,
    integer,
    list_of,
    map_of,
    object_of,
    or_none,
)  # fmt: skip
from .notifying import NOTIFY
from .rules import ENV_NAME, ENV_VALUE, PORT_COUNT, PORT_LABEL, RETRIES

_AT_LEAST_ONE = integer(least=1, most=rules.MAX_TASKS)

_RESOURCES = object_of(
    {
        "cpu": Key(rules.CPU, "Cores; fractions are fine."),
        "memory": Key(rules.MEMORY, "A hard limit: 512Mi, 2Gi, 1.5G or bytes."),
        "gpu": Key(rules.GPU, "Whole devices."),
        "shm": Key(or_none(rules.SHM), "Size of /dev/shm; none leaves it to the machine."),
    }
)
_COMPLETION = object_of(
    {
        "min_failed": Key(or_none(_AT_LEAST_ONE), "So many failed tasks of the role fail the job; none: never."),
        "min_succeeded": Key(or_none(_AT_LEAST_ONE), "So many succeeded tasks of the role end the job well."),
    }
)


def _read_port_list(at: At) -> dict[str, int]:
    labels = _PORT_LABELS.read(at)
    twice = {label for label in labels if labels.count(label) > 1}
    if twice:
        hint = "Write a mapping of label to count to ask for several."
        raise Wrong(msg("names {x1} twice", x1=repr(sorted(twice)[0])), hint, rule="uniqueItems")
    return dict.fromkeys(labels, 1)


_PORT_LABELS = list_of(PORT_LABEL, most=100)
PORTS: Kind[dict[str, int]] = either(
    (list, Kind(_read_port_list, _PORT_LABELS.schema)),
    (dict, map_of(PORT_COUNT, name=PORT_LABEL, most=100, empty=1)),
    otherwise="a list of labels or a mapping of label to count",
)


def _read_task_retries(at: At) -> int:
    value = _TASK_RETRIES.read(at)
    return int(value.get("tasks", 0)) if isinstance(value, dict) else int(value)


_TASK_RETRIES = either(
    ((int, float), RETRIES),
    (dict, object_of({"tasks": Key(RETRIES, "How often one failed task is tried again.")})),
    otherwise="a whole number or a mapping with tasks",
)
_JOB_RETRIES = either(
    ((int, float), RETRIES),
    (
        dict,
        object_of(
            {
                "max": Key(RETRIES, "How often the whole job is tried again; -1: for ever, -2: even after success."),
                "tasks": Key(RETRIES, "How often one failed task is tried again; needs gang: false."),
            }
        ),
    ),
    otherwise="a whole number or a mapping with max and tasks",
)


def _read_hold(at: At) -> Hold:
    value = _HOLD.read(at)
    if isinstance(value, bool):
        return Hold() if value else NOT_HELD
    if isinstance(value, timedelta):
        return hold_for(value)
    return hold_for(value.get("for"), Keep(value.get("keep", Keep.ALL)))


_HOLD = either(
    (bool, BOOLEAN),
    (
        dict,
        object_of(
            {
                "on": Key(choice("failure"), "When: only failure so far."),
                "for": Key(DURATION_KIND, "How long at most. Default: the site's."),
                "keep": Key(choice(Keep.ALL, Keep.FILES), "all: container and resources; files: only the files."),
            }
        ),
    ),
    ((str, int, float), DURATION_KIND),
    otherwise="true, false, a duration or a mapping with for and keep",
)
HOLD: Kind[Hold] = Kind(_read_hold, _HOLD.schema)

_ENV = map_of(ENV_VALUE, name=ENV_NAME, most=rules.MAX_VARIABLES, empty="")


def _read_datasets(at: At) -> tuple[str, ...]:
    names = _DATASETS.read(at)
    if len(set(names)) < len(names):
        raise Wrong("names a dataset twice", rule="uniqueItems")
    return names


_DATASETS = list_of(rules.DATASET, most=32)


def _read_command(at: At) -> str:
    if isinstance(at.node.value, list):
        hint = "Use commands for a list of lines; write a program's arguments as one text."
        raise Wrong("must be text, not a list", hint, rule="type", expected="string")
    return rules.COMMAND.read(at)


# What a role may say; written at the top, it holds for every role that does not say otherwise.
SHARED_KEYS = {
    "image": Key(rules.IMAGE, "Image the tasks run in. Default: host, this machine's own system."),
    "command": Key(Kind(_read_command, rules.COMMAND.schema), "Shell text to run."),
    "commands": Key(rules.COMMANDS, "The same as a list of lines, run as one script."),
    "instances": Key(rules.INSTANCES, "How many tasks of this kind. Default: 1."),
    "env": Key(_ENV, "Environment variables."),
    "instance_type": Key(rules.INSTANCE_TYPE, "Name of a size for each task; resources written beside it go first."),
    "resources": Key(_RESOURCES, "What each task asks for."),
    "ports": Key(PORTS, "Network ports to reserve: labels, or label to count."),
    "mounts": Key(list_of(rules.MOUNT, most=100), "Folders of the machine to show in the task."),
    "completion": Key(_COMPLETION, "When this role ends the whole job."),
    "shell_options": Key(list_of(rules.SHELL_OPTION, most=16), "`set -o` names for the script."),
    "workdir": Key(or_none(rules.PATH), "Folder to start in. Default: the image's own."),
}
ROLE_KEYS = {
    **SHARED_KEYS,
    "retry": Key(Kind(_read_task_retries, _TASK_RETRIES.schema), "How often a failed task is tried again."),
}


@dataclass(frozen=True, slots=True)
class Draft:
    """A role as far as it was written."""

    values: dict[str, Any]
    at: At


def _read_draft(at: At) -> Draft:
    return Draft({} if at.node.value is None else _ROLE.read(at), at)


_ROLE = object_of(ROLE_KEYS)
_DRAFT = Kind(_read_draft, {"anyOf": [_ROLE.schema, {"type": "null"}]})
JOB_KEYS = {
    "name": Key(rules.JOB_NAME, "What the job is called."),
    "description": Key(rules.DESCRIPTION, "Free text."),
    "group": Key(rules.GROUP_NAME, "Whose quota it uses."),
    **SHARED_KEYS,
    "roles": Key(
        map_of(_DRAFT, name=rules.ROLE_NAME, least=1, most=rules.MAX_ROLES),
        "Named kinds of tasks that run side by side.",
    ),
    "secrets": Key(rules.SECRETS, "Values kept encrypted and shown to nobody; each is also an environment variable."),
    "export_secrets": Key(BOOLEAN, "Whether secrets become environment variables. Default: true."),
    "gang": Key(BOOLEAN, "Whether all tasks are placed together or not at all. Default: true."),
    "retry": Key(_JOB_RETRIES, "How often the job is tried again after a failure of its own."),
    "time_limit": Key(or_none(DURATION_KIND), "How long it may run: 90m, 2h30m, 1d, seconds, or none."),
    "grace": Key(DURATION_KIND, "Time between the polite and the forced stop."),
    "hold": Key(HOLD, "Keep a failed task for debugging; false: not even where the group does. Default: the group's."),
    "priority": Key(rules.PRIORITY, "Higher goes first. Default: 0."),
    "tags": Key(list_of(rules.TAG, most=100), "Words to find it by."),
    "datasets": Key(
        Kind(_read_datasets, {**_DATASETS.schema, "uniqueItems": True}),
        "Names of datasets, shown to every task below /datasets.",
    ),
    "files": Key(
        BOOLEAN,
        msg("Whether every task sees the files that its group shares, at {files}. Default: false.", files=FILES),
    ),
    "notify": Key(NOTIFY, "Who is told of what: events for your own recipients, or entries with an address."),
    "extras": Key(OBJECT, "Anything else; kept, not looked at."),
}

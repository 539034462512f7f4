"""Options that choose where Slurm runs a task: their names, their values, and which of several wins.

Admins set them for the server, for groups, and for instance types (OpenPAI: SKU types). Jobs and roles set their own.
Other engines ignore them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from .job import Job
from .messages import join_messages, msg

SLURM_ENGINE = "slurm"
GRES_OPTION = "gres"
QUEUE_OPTION_NAMES = ("partition", "account", "qos", "constraint", "reservation")
SLURM_OPTION_NAMES = (*QUEUE_OPTION_NAMES, GRES_OPTION)  # gres belongs to a size: servers and groups do not set it
MAX_OPTION_LENGTH = 255
OPTION_PATTERN = r"^(?!-)[!-~]+$"  # a leading dash would look like another option of sbatch
OPTION_RULE = msg("must be ASCII characters without spaces, and without - at the start")
_GPU_NAME = "gpu"
_GRES_PATTERN = re.compile(r"(?:gres[/:])?([A-Za-z_][\w.-]*)(?:[:=]([A-Za-z_][\w.-]*))?(?:[:=]([0-9]{1,6}))?", re.ASCII)

Options = Mapping[str, str]


class OptionSource(StrEnum):
    """Where the value of an option comes from; a later source overrides an earlier one."""

    SETTING = "setting"
    GROUP = "group"
    INSTANCE_TYPE = "instance-type"  # or SKU type
    JOB = "job"  # or its role


@dataclass(frozen=True, slots=True)
class ChosenOption:
    value: str
    source: OptionSource


def choose_options(layers: Mapping[OptionSource, Options]) -> dict[str, ChosenOption]:
    """Return the value of each option that is set, from the last source that sets it. Empty values are not set."""
    chosen = {
        name: ChosenOption(value, source)
        for source in OptionSource
        for name, value in layers.get(source, {}).items()
        if value
    }
    return {name: chosen[name] for name in sorted(chosen, key=_get_option_order)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleOption:
    """An option that the tasks of a role get."""

    role: str
    name: str
    value: str
    source: OptionSource


def list_role_options(job: Job, settings: Options, group: Options) -> tuple[RoleOption, ...]:
    """Return the options of each role. `settings`, `group`: those of the server and of the job's group."""
    return tuple(
        RoleOption(role=role.name, name=name, value=chosen.value, source=chosen.source)
        for role in job.roles
        for name, chosen in choose_options(
            {
                OptionSource.SETTING: settings,
                OptionSource.GROUP: group,
                OptionSource.INSTANCE_TYPE: role.type_options.get(SLURM_ENGINE, {}),
                OptionSource.JOB: role.engine_options.get(SLURM_ENGINE, {}),
            }
        ).items()
    )


def _get_option_order(name: str) -> int:
    return SLURM_OPTION_NAMES.index(name) if name in SLURM_OPTION_NAMES else len(SLURM_OPTION_NAMES)


def iter_option_problems(options: Options, allowed: Collection[str] = SLURM_OPTION_NAMES) -> Iterator[tuple[str, str]]:
    """Yield the name and the problem of each option that is unknown or has an invalid value."""
    for name, value in options.items():
        if name not in allowed:
            shown = repr(name[:50])
            if name == GRES_OPTION:
                yield name, msg("gres belongs to a size: set it for an instance type or in a job")
            else:
                yield name, msg("{name} is not an option; use {known}", name=shown, known=", ".join(allowed))
        elif len(value) > MAX_OPTION_LENGTH:
            yield name, msg("{name} can have at most {limit} characters", name=name, limit=MAX_OPTION_LENGTH)
        elif value and not re.fullmatch(OPTION_PATTERN, value):
            yield name, join_messages(" ", (name, OPTION_RULE))


# -- generic resources


@dataclass(frozen=True, slots=True)
class GenericResource:
    name: str
    type: str  # empty: any
    count: int | None  # None: not written, which is one

    def format_count(self, count: int) -> str:
        return ":".join((*filter(None, (self.name, self.type)), str(count)))


def parse_gres(text: str) -> tuple[GenericResource, ...] | None:
    """Parse a list such as `gpu:a100:2,nvme:1`; None if a part has another form."""
    found = [_GRES_PATTERN.fullmatch(part) for part in text.split(",")]
    parts = [match for match in found if match is not None]
    if len(parts) < len(found):
        return None
    return tuple(GenericResource(part[1], part[2] or "", int(part[3]) if part[3] else None) for part in parts)


def count_gres_gpus(text: str) -> int:
    """Return the number of GPUs that a list of generic resources requests."""
    parts = [resource for part in text.split(",") for resource in parse_gres(part) or ()]
    return sum(1 if part.count is None else part.count for part in parts if part.name == _GPU_NAME)


def find_gres_problem(text: str, gpus: int) -> str:
    """Return what is wrong with the generic resources of a size with this number of GPUs; empty: nothing."""
    resources = parse_gres(text)
    if resources is None:
        return msg("gres must be a list such as gpu:a100:1 or gpu:a100:1,nvme:2")
    written = [resource.count for resource in resources if resource.name == _GPU_NAME]
    if len(written) > 1:
        return msg("gres can name gpu only once")
    if written and (not gpus if written[0] is None else written[0] != gpus):
        return msg("gres has {count} GPUs, but gpu is {gpus}", count=written[0] or 1, gpus=gpus)
    return ""


def scale_gres(text: str, units: int, gpus: int) -> str:
    """Return the generic resources of a task. `text`: those of one unit of its size. The number of GPUs is the task's
    own, which quotas count; others are multiplied by the units."""
    resources = parse_gres(text) or ()
    counted = [
        (resource, gpus if resource.name == _GPU_NAME else units * (1 if resource.count is None else resource.count))
        for resource in resources
    ]
    if gpus and all(resource.name != _GPU_NAME for resource in resources):
        counted.append((GenericResource(_GPU_NAME, "", None), gpus))
    return ",".join(resource.format_count(count) for resource, count in counted if count)


def scale_options(options: Options, units: int, gpus: int) -> dict[str, str]:
    """Return the options of a task whose size is that many units of an instance type."""
    found = dict(options)
    if GRES_OPTION in found:
        found[GRES_OPTION] = scale_gres(found[GRES_OPTION], units, gpus)
    return {name: value for name, value in found.items() if value}

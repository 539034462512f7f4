"""Tasks, CPUs, memory and GPUs of a batch script -> the resources of the one task that runs it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from holdfast.core.job import MIB, Resources
from holdfast.core.messages import msg

from .. import rules
from ..fields import FieldValue
from .options import SEVERAL_NODES_HINT, OptionValues
from .values import (
    MAX_COUNT,
    MAX_GPUS,
    MAX_MEMORY,
    get_text,
    read_count,
    read_gpus,
    read_gres,
    read_memory,
    read_node_count,
)

_READERS: dict[str, Callable[[FieldValue], Any]] = {
    "nodes": read_node_count,
    **dict.fromkeys(("ntasks", "ntasks-per-node", "ntasks-per-gpu"), read_count),
    **dict.fromkeys(("cpus-per-task", "cpus-per-gpu", "mincpus"), read_count),
    **dict.fromkeys(("gpus", "gpus-per-node", "gpus-per-task"), read_gpus),
    "gres": read_gres,
    **dict.fromkeys(("mem", "mem-per-cpu", "mem-per-gpu"), read_memory),
}
_TASK_NAMES = ("ntasks", "ntasks-per-node", "ntasks-per-gpu", "gpus-per-task")  # in the order of their priority
_GPU_NAMES = ("gpus", "gpus-per-node", "gres")  # what they say does not depend on the number of tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptResources:
    resources: Resources
    gres: str  # types of GPUs and other resources, which only Slurm knows
    variables: dict[str, str]  # of Slurm


def read_resources(options: OptionValues, defaults: Resources) -> ScriptResources:
    values = _read_values(options)
    gpu_count = max((values[name].total for name in _GPU_NAMES if name in values), default=0)
    tasks = _count_tasks(values, gpu_count)
    _report_several_nodes(options, values, tasks)
    _warn_about_tasks(options, tasks)
    gpus = _count_gpus(options, values, tasks)
    cpus = _count_cpus(values, tasks, gpus)
    resources = replace(
        defaults,
        cpu=defaults.cpu if cpus is None else float(cpus),
        gpu=gpus,
        memory=_compute_memory(options, values, cpus or math.ceil(defaults.cpu), gpus) or defaults.memory,
    )
    _report_large_requests(options, resources)
    return ScriptResources(
        resources=resources,
        gres=_build_gres(options, values, gpus),
        variables=_make_variables(values, tasks, resources),
    )


def _read_values(options: OptionValues) -> dict[str, Any]:
    """Return the values of all options about resources; invalid ones are reported and omitted."""
    found = {name: options[name].apply_reader(reader, None) for name, reader in _READERS.items() if name in options}
    return {name: value for name, value in found.items() if value is not None}


def _report_large_requests(options: OptionValues, resources: Resources) -> None:
    """Report products of options that exceed the limits of a job."""
    checks = (
        (resources.cpu, MAX_COUNT, ("cpus-per-task", "cpus-per-gpu", "ntasks", "ntasks-per-node", "ntasks-per-gpu")),
        (resources.gpu, MAX_GPUS, ("gpus", "gpus-per-node", "gres", "gpus-per-task")),
        (resources.memory, MAX_MEMORY, ("mem-per-cpu", "mem-per-gpu", "mem")),
    )
    for value, limit, names in checks:
        if value > limit:
            option = next(options[name] for name in names if name in options)
            message = msg("must be at most {limit}, not {value}", limit=limit, value=int(value))
            option.add_problem(message, rule="maximum", expected=limit)


def _build_gres(options: OptionValues, values: dict[str, Any], gpus: int) -> str:
    """Return the generic resources for Slurm, if they are more than a number of GPUs."""
    gres = values.get("gres")
    if gres is not None and (gres.types or gres.other_resources):
        text = options["gres"].read_as_kind(rules.ENGINE_OPTION_KIND, "")
        return text if gres.total or not gpus else f"{text},gpu:{gpus}"
    typed = next((name for name in ("gpus", "gpus-per-node") if name in values and values[name].types), None)
    if typed:
        return ",".join(f"gpu:{part.strip()}" for part in get_text(options[typed]).split(","))
    types = values["gpus-per-task"].types if "gpus-per-task" in values else ()
    return f"gpu:{types[0]}:{gpus}" if types else ""


# -- tasks and nodes


def _count_tasks(values: dict[str, Any], gpu_count: int) -> int:
    if "ntasks" in values:
        return int(values["ntasks"])
    if "ntasks-per-node" in values:
        return int(values["ntasks-per-node"])
    if "ntasks-per-gpu" in values:
        return int(values["ntasks-per-gpu"]) * max(1, gpu_count)
    if "gpus-per-task" in values and gpu_count:
        return max(1, gpu_count // max(1, int(values["gpus-per-task"].total)))
    return 1


def _report_several_nodes(options: OptionValues, values: dict[str, Any], tasks: int) -> None:
    nodes, name = values.get("nodes"), "nodes"
    if nodes is None and "ntasks-per-node" in values:
        nodes, name = math.ceil(tasks / values["ntasks-per-node"]), "ntasks-per-node"
    if nodes is not None and nodes > 1:
        message = msg("requests {count} nodes, but a script runs in one task on one node", count=nodes)
        options[name].add_problem(message, SEVERAL_NODES_HINT, rule="maximum", expected=1)


def _warn_about_tasks(options: OptionValues, tasks: int) -> None:
    if tasks > 1:
        option = next(options[name] for name in _TASK_NAMES if name in options)
        option.add_warning(
            msg("reserves the resources of {count} tasks on one node; the script runs once", count=tasks),
            msg("Start the tasks in the script, for example with mpirun."),
        )


# -- CPUs, GPUs, memory


def _count_cpus(values: dict[str, Any], tasks: int, gpus: int) -> int | None:
    """Return the CPUs; None: the default."""
    if "cpus-per-task" in values:
        cpus = tasks * int(values["cpus-per-task"])
    elif "cpus-per-gpu" in values and gpus:
        cpus = int(values["cpus-per-gpu"]) * gpus
    elif tasks > 1 or "ntasks" in values or "mincpus" in values:
        cpus = tasks
    else:
        return None
    return max(cpus, int(values.get("mincpus", 0)))


def _count_gpus(options: OptionValues, values: dict[str, Any], tasks: int) -> int:
    """Count the GPUs of the one node; options that disagree are reported."""
    counts = {name: values[name].total for name in _GPU_NAMES if name in values}
    if "gpus-per-task" in values:
        counts["gpus-per-task"] = tasks * values["gpus-per-task"].total
    asked = {name: count for name, count in counts.items() if count}
    if len(set(asked.values())) > 1:
        said = ", ".join(f"--{name}: {count}" for name, count in asked.items())
        message = msg("requests another number of GPUs than the other options ({counts})", counts=said)
        options[list(asked)[-1]].add_problem(message, rule="not")
    return max(asked.values(), default=0)


def _compute_memory(options: OptionValues, values: dict[str, Any], cpus: int, gpus: int) -> int | None:
    """Return the memory in bytes; None: the default."""
    given = [name for name in ("mem", "mem-per-cpu", "mem-per-gpu") if name in values]
    if len(given) > 1:
        message = msg("cannot be combined with {other}", other=f"--{given[0]}")
        options[given[1]].add_problem(message, msg("Remove one of the two."), rule="oneOf")
    if "mem-per-gpu" in given and not gpus:
        options["mem-per-gpu"].add_problem(msg("requires GPUs, but the script requests none"), rule="required")
    factors = {"mem": 1, "mem-per-cpu": cpus, "mem-per-gpu": gpus}
    return int(values[given[0]]) * factors[given[0]] if given else None


# -- variables


def _make_variables(values: dict[str, Any], tasks: int, resources: Resources) -> dict[str, str]:
    """Return the variables that follow from the options. As in Slurm, some exist only if the option was written."""
    cpus = math.ceil(resources.cpu)
    found = {
        **dict.fromkeys(("SLURM_JOB_NUM_NODES", "SLURM_NNODES"), 1),
        **dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_TASKS_PER_NODE"), tasks),
        **dict.fromkeys(("SLURM_CPUS_ON_NODE", "SLURM_JOB_CPUS_PER_NODE"), cpus),
        **({"SLURM_GPUS_ON_NODE": resources.gpu} if resources.gpu else {}),
    }
    for name in ("cpus-per-task", "cpus-per-gpu", "ntasks-per-node"):
        found |= {_format_variable_name(name): values[name]} if name in values else {}
    for name in ("gpus", "gpus-per-node", "gpus-per-task"):
        found |= {_format_variable_name(name): values[name].total} if name in values else {}
    for name, variable in (("mem", "mem-per-node"), ("mem-per-cpu", "mem-per-cpu"), ("mem-per-gpu", "mem-per-gpu")):
        found |= {_format_variable_name(variable): math.ceil(values[name] / MIB)} if name in values else {}
    return {name: str(value) for name, value in found.items()}


def _format_variable_name(option: str) -> str:
    return "SLURM_" + option.upper().replace("-", "_")

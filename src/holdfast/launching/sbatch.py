"""Adds the environment of Slurm to the Launch of a batch script.

On the Slurm engine the script runs inside of a job of Slurm, whose own variables win. That job does not have all of
them, and neither the name nor the array of the script: they are Holdfast's own there, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from shlex import join, quote
from typing import Any

from holdfast.core.attempt import JobSnapshot, TaskAttempt
from holdfast.engines.base import LaunchSpec
from holdfast.jobspec.sbatch import list_array_indices

from .shell import fill_script, read_script, render_exports


def add_sbatch_runtime(launch: LaunchSpec, snapshot: JobSnapshot, task: TaskAttempt) -> LaunchSpec:
    script: Mapping[str, Any] = snapshot.job.extras.get("sbatch", {})
    array = _make_array_variables(snapshot.id, script, task.index)
    entry = _render_entry_script(script, _make_variables(snapshot, script, array), array)
    return replace(launch, entry=entry, time_limit=script.get("task_time_limit"))


def _make_variables(snapshot: JobSnapshot, script: Mapping[str, Any], array: Mapping[str, str]) -> dict[str, str]:
    # Each task of an array has its own id in Slurm, and scripts name folders after it.
    job_id = f"{snapshot.id}_{array['SLURM_ARRAY_TASK_ID']}" if array else snapshot.id
    return {
        "SLURM_JOB_ID": job_id,
        "SLURM_JOBID": job_id,
        "SLURM_JOB_NAME": snapshot.job.name,
        "SLURM_JOB_USER": snapshot.user,
        **({"SLURM_RESTART_COUNT": str(snapshot.attempt)} if snapshot.attempt else {}),
        **dict.fromkeys(("SLURM_NODEID", "SLURM_PROCID", "SLURM_LOCALID"), "0"),
        **script.get("variables", {}),
        # MPICH and Intel MPI would look for srun; the processes are all on this node.
        "HYDRA_BOOTSTRAP": "fork",
        "I_MPI_HYDRA_BOOTSTRAP": "fork",
    }


def _make_array_variables(job_id: str, script: Mapping[str, Any], index: int) -> dict[str, str]:
    if "array" not in script:
        return {}
    indices = list_array_indices(script["array"])
    step = script["array"].partition(":")[2] if "," not in script["array"] else ""
    return {
        "SLURM_ARRAY_JOB_ID": job_id,
        "SLURM_ARRAY_TASK_ID": str(indices[index]),
        "SLURM_ARRAY_TASK_COUNT": str(len(indices)),
        "SLURM_ARRAY_TASK_MIN": str(indices[0]),
        "SLURM_ARRAY_TASK_MAX": str(indices[-1]),
        "SLURM_ARRAY_TASK_STEP": step or "1",
    }


def _render_entry_script(script: Mapping[str, Any], variables: Mapping[str, str], array: Mapping[str, str]) -> str:
    return fill_script(
        _ENTRY_SCRIPT,
        exports=render_exports(variables),
        missing="".join(
            f'    [ -n "${{{name}+set}}" ] || export {name}={quote(value)}\n'
            for name, value in variables.items()
            if name.startswith("SLURM_")
        ),
        name=quote(variables["SLURM_JOB_NAME"]),
        array=render_exports(array),
        timers=_render_timers(script),
        stdin=f"exec <{quote(script['input'])} || exit 1\n" if script.get("input") else "",
        interpreter=join(script.get("interpreter") or ("/bin/sh",)),
    )


def _render_timers(script: Mapping[str, Any]) -> str:
    signal, limit = script.get("signal"), script.get("task_time_limit")
    calls = [f"signal_later {signal['seconds']} {signal['name']}\n"] if signal else []
    calls += [f"stop_later {limit}\n"] if limit else []
    return _TIMER_FUNCTIONS + "".join(calls) if calls else ""


_ENTRY_SCRIPT = read_script(__package__, "sbatch_entry.sh")
_TIMER_FUNCTIONS = read_script(__package__, "sbatch_timers.sh")

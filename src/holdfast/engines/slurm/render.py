"""A task, or a gang of tasks, as arguments of `sbatch` and a batch script. Pure.

The arguments and the script are visible to others: they contain no command, variable or secret of the job.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.core.job import MIB
from holdfast.core.slurm_options import QUEUE_OPTION_NAMES
from holdfast.engines.base import LaunchSpec

from .node_programs import NODE_PROGRAM
from .options import SlurmOptions

REPORT_FOLDER = "report"
MAX_GANG_SIZE = 128  # components of a heterogeneous job


@dataclass(frozen=True, slots=True)
class Submission:
    arguments: tuple[str, ...]
    script: str


@dataclass(frozen=True, slots=True)
class TaskLocation:
    """A task and its folder, at the same path on all nodes."""

    launch: LaunchSpec
    folder: str


def render_submission(name: str, tasks: Sequence[TaskLocation], options: SlurmOptions) -> Submission:
    """Return the submission of one task, or of a gang in its order: one component of a heterogeneous job for each."""
    first = tasks[0]
    common = (
        f"--job-name={name}",
        f"--comment={first.launch.attempt_id}",
        "--no-requeue",  # it would run the same attempt again
        "--export=ALL",  # of the few variables that sbatch gets; NONE runs a login shell on the node, for seconds
        "--open-mode=append",
        f"--output={first.folder}/slurm.out",
        f"--chdir={first.folder}",
    )
    if len(tasks) == 1:
        # A second submission waits for the first one, and then finds its claim. Components of one job would wait for
        # each other.
        arguments = [*common, "--dependency=singleton", *render_resources(first.launch, options)]
        return Submission(tuple(arguments), _render_task_script(first, options))
    arguments = list(common)
    for task in tasks:
        arguments += [*([":"] if task is not first else []), *render_resources(task.launch, options)]
    return Submission(tuple(arguments), _render_gang_script(tasks, options))


def render_resources(launch: LaunchSpec, options: SlurmOptions) -> list[str]:
    resources = launch.resources
    chosen: Mapping[str, str] = {
        **{name: getattr(options, name) for name in QUEUE_OPTION_NAMES},
        **{name: value for name, value in launch.engine_options.items() if value},
    }
    arguments = ["--nodes=1", "--ntasks=1", f"--cpus-per-task={max(1, math.ceil(resources.cpu))}"]
    arguments.append(f"--mem={max(1, math.ceil(resources.memory / MIB))}M")
    if gres := chosen.get("gres"):
        arguments.append(f"--gres={gres}")
    elif resources.gpu:
        arguments.append(f"--gres=gpu:{resources.gpu}")
    if launch.time_limit is not None:
        arguments.append(f"--time={math.ceil((launch.time_limit + options.grace) / 60)}")
    return arguments + [f"--{name}={chosen[name]}" for name in QUEUE_OPTION_NAMES if chosen.get(name)]


def _render_command(task: TaskLocation, options: SlurmOptions, offset: int) -> str:
    words = ["/bin/sh", f"{task.folder}/{NODE_PROGRAM}", f"{options.heartbeat_interval:g}", str(offset)]
    return shlex.join([*words, str(options.port_start), str(options.port_end)])


def _render_task_script(task: TaskLocation, options: SlurmOptions) -> str:
    return f"#!/bin/sh\nexec {_render_command(task, options, 0)}\n"


def _render_gang_script(tasks: Sequence[TaskLocation], options: SlurmOptions) -> str:
    """Return a script that starts each task as a step, on its own component. Of two jobs of the same gang, the first to
    take the claim runs it as a whole."""
    claim = shlex.quote(f"{tasks[0].folder}/{REPORT_FOLDER}/gang")
    lines = [
        "#!/bin/sh",
        "set -C",
        f'{{ echo "$SLURM_JOB_ID" >{claim}; }} 2>/dev/null || exit 0',
        "set +C",
        "trap : TERM INT HUP",
        "pids=",
    ]
    for offset, task in enumerate(tasks):
        step = f"srun --het-group={offset} --nodes=1 --ntasks=1 --export=ALL {_render_command(task, options, offset)}"
        record = f"echo $? >{shlex.quote(f'{task.folder}/{REPORT_FOLDER}/step')}"
        lines += [f"({step} </dev/null; {record}) &", 'pids="$pids $!"']
    lines += ["for pid in $pids; do", '    while kill -0 "$pid" 2>/dev/null; do wait "$pid"; done', "done"]
    return "\n".join(lines) + "\n"

"""What slows a job down, or what it asks for and does not use: figures of its tasks -> findings.

A finding is a rule that holds for at least one task; tasks of one role that it holds for are told together. Nothing is
said of a task that ran too short, nor of what was not measured. Stragglers are found by comparison, in `stragglers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from holdfast.core.job import MIB
from holdfast.core.messages import msg
from holdfast.core.metrics.samples import CPU_STEPS
from holdfast.core.scheduling.placement import show_bytes, show_cores, show_gpus
from holdfast.core.verdicts import Finding, Slowness

from .stragglers import find_stragglers
from .task_run import TaskRun, show_time

# A look every 5 s: four of them are the least that tell a habit from a moment.
MIN_ENDED = 20.0  # seconds
# One that still runs may only be getting ready: importing, reading its data, building its model.
MIN_RUNNING = 60.0

# The driver's own housekeeping shows as a percent or two.
GPU_IDLE = 5.0  # percent of the time
# Well-fed training is above 70; below this the GPU waits more than twice as long as it works.
GPU_LOW = 30.0
# Whoever keeps this much of it busy does not wait for anything else that could be mended by asking for less.
GPU_BUSY = 70.0
# A busy thread is rarely seen at exactly 1: it waits a little, and others help a little.
ONE_CORE_LEAST, ONE_CORE_MOST = 0.8, 1.2  # cores
# And it is so for most of the time: the same mean may come from all cores working now and then.
ONE_CORE_STEPS = slice(CPU_STEPS.index(50.0) + 1, CPU_STEPS.index(150.0) + 1)
ONE_CORE_TIME = 0.6  # share of the time that was looked at
MANY_CORES = 2.0  # asked for; with fewer there is nothing to spread over
CPU_UNUSED = 0.25  # share of the cores asked for
CPU_BUSY = 0.75
# A single thread at its limit of one core is held up for a percent or two, by rounding.
THROTTLED = 0.10  # share of the time
# From here on the kernel drops cached files to make room, and the next large array is one too many.
MEMORY_NEAR = 0.90  # share of the limit
# And it is full for most of the time. Of a peak alone the kernel cannot say how much of it were files it had cached.
MEMORY_FULL = 0.60
# The kernel moves a few idle pages out at any time.
SWAP_LEAST = 64 * MIB
DISK_WAIT = 0.25  # share of the time
# Less than a core's half, and at least this much traffic: it moves data more than it computes.
NETWORK_CORES = 0.5
NETWORK_RATE = 1 * MIB  # bytes a second
LATE_LEAST = 30.0  # seconds; every program needs some time to get going
LATE_SHARE = 0.5
# What first speaks at its very end tells a result. It may have worked all the time.
LATE_MOST = 0.98


class Least(NamedTuple):
    """Seconds that a task must have run, and been measured, before anything is said of it; and been silent, before that
    is."""

    ended: float = MIN_ENDED
    running: float = MIN_RUNNING
    silent: float = LATE_LEAST

    def told(self, run: TaskRun) -> bool:
        least = self.ended if run.ended else self.running
        return run.seconds >= least and run.used.seconds >= least / 2


@dataclass(frozen=True, slots=True)
class Told:
    """What is said of the tasks of one role that a rule holds for."""

    text: str
    remedy: str
    figures: Mapping[str, float]


class Rule(NamedTuple):
    kind: Slowness
    holds: Callable[[TaskRun], bool]
    tell: Callable[[Sequence[TaskRun]], Told]


def find_slowness(runs: Iterable[TaskRun], least: Least | None = None) -> tuple[Finding, ...]:
    """Of the newest try of each task; the costliest first."""
    least = least or Least()
    known = [_heard(run, least) for run in runs if least.told(run)]
    roles = {run.role: [each for each in known if each.role == run.role] for run in known}
    found = []
    for rule in RULES:
        for members in roles.values():
            those = [run for run in members if rule.holds(run)]
            if those:
                told = rule.tell(those)
                tasks = tuple(run.task for run in those)
                found.append(
                    Finding(kind=rule.kind, text=told.text, remedy=told.remedy, tasks=tasks, figures=told.figures)
                )
    return (*found, *(finding for members in roles.values() for finding in find_stragglers(members)))


def _heard(run: TaskRun, least: Least) -> TaskRun:
    """Without a first output that came soon enough."""
    return run if run.first_output is None or run.first_output >= least.silent else replace(run, first_output=None)


# -- GPUs


def _never_opened(run: TaskRun) -> bool:
    return run.asked.gpu > 0 and run.watched and run.used.gpu_opened is False and (run.gpu_percent or 0.0) < GPU_IDLE


def _tell_never_opened(runs: Sequence[TaskRun]) -> Told:
    asked, seconds = runs[0].asked.gpu, max(run.seconds for run in runs)
    return Told(
        msg(
            "Asked for {asked}, and the program never opened one in {seconds}.",
            asked=show_gpus(asked),
            seconds=show_time(seconds),
        ),
        msg(
            "See whether the program finds a GPU (in PyTorch: torch.cuda.is_available()), and "
            "whether its packages are those for GPUs. If it needs none, leave gpu out: it starts "
            "sooner, and others can use the GPU."
        ),
        {"gpus": asked, "seconds": seconds},
    )


def _idle_gpus(run: TaskRun) -> tuple[int, ...]:
    return tuple(gpu.index for gpu in run.used.gpus if gpu.percent < GPU_IDLE) if run.watched else ()


def _gpu_unused(run: TaskRun) -> bool:
    return bool(_idle_gpus(run)) and not _never_opened(run)


def _tell_gpu_unused(runs: Sequence[TaskRun]) -> Told:
    asked = runs[0].asked.gpu
    idle = max(len(_idle_gpus(run)) for run in runs)
    percent = _mean(run.gpu_percent for run in runs)
    figures = {"gpus": asked, "idle": idle, "percent": percent}
    if idle >= asked:
        return Told(
            msg(
                "Asked for {asked}, opened it, and computed on it {percent} % of the time.",
                asked=show_gpus(asked),
                percent=f"{percent:.1f}",
            )
            if asked == 1
            else msg(
                "Asked for {asked}, and hardly computed on any of them: {percent} % of the time.",
                asked=show_gpus(asked),
                percent=f"{percent:.1f}",
            ),
            msg(
                "See whether model and data are moved to the GPU (in PyTorch: .to('cuda')), and what the "
                "program waits for before it computes."
            ),
            figures,
        )
    return Told(
        msg("Asked for {asked}, and {idle} of them did nothing.", asked=show_gpus(asked), idle=idle),
        msg(
            "Make the program use all of them (in PyTorch: torchrun --nproc_per_node={asked}), or ask for {x1}.",
            asked=asked,
            x1=show_gpus(asked - idle),
        ),
        figures,
    )


def _gpu_low(run: TaskRun) -> bool:
    percent = run.gpu_percent
    return percent is not None and GPU_IDLE <= percent < GPU_LOW and not _idle_gpus(run)


def _tell_gpu_low(runs: Sequence[TaskRun]) -> Told:
    percent, cores, asked = _mean(run.gpu_percent for run in runs), _cores(runs), runs[0].asked.cpu
    return Told(
        msg(
            "The GPU was busy {percent} % of the time, while {cores} of {asked} worked.",
            percent=f"{percent:.0f}",
            cores=_number(cores),
            asked=show_cores(asked),
        ),
        msg(
            "It waits for its data: read and prepare them in more processes (in PyTorch: num_workers "
            "of the DataLoader), ask for more cores, take larger batches, or keep the data nearer."
        ),
        {"percent": percent, "cores": cores, "cores_asked": asked},
    )


# -- processors


def _works(run: TaskRun) -> bool:
    """Something of it is busy, so what else it leaves idle does not slow it down."""
    return (run.gpu_percent or 0.0) >= GPU_LOW


def _one_core(run: TaskRun) -> bool:
    cores = run.cores
    return (
        cores is not None
        and run.asked.cpu >= MANY_CORES
        and ONE_CORE_LEAST <= cores <= ONE_CORE_MOST
        and _steadily_one(run)
        and not _throttled(run)
        and not _works(run)
    )


def _steadily_one(run: TaskRun) -> bool:
    steps = run.used.cpu_steps
    return sum(steps[ONE_CORE_STEPS]) >= ONE_CORE_TIME * sum(steps)


def _tell_one_core(runs: Sequence[TaskRun]) -> Told:
    cores, asked = _cores(runs), runs[0].asked.cpu
    return Told(
        msg("One core was busy ({x1} %) of {asked} asked for.", x1=f"{cores * 100:.0f}", asked=show_cores(asked)),
        msg(
            "The program works in one thread. Let it use more (threads, processes, OMP_NUM_THREADS, "
            "make -j, num_workers), or ask for 1 core."
        ),
        {"cores": cores, "cores_asked": asked},
    )


def _cpu_unused(run: TaskRun) -> bool:
    cores, asked = run.cores, run.asked.cpu
    if cores is None or asked < MANY_CORES or _works(run) or _one_core(run):
        return False
    return cores < CPU_UNUSED * asked and not (_disk_wait(run) or _network_wait(run))


def _tell_cpu_unused(runs: Sequence[TaskRun]) -> Told:
    cores, asked = _cores(runs), runs[0].asked.cpu
    enough = max(1, round(cores + 0.49))
    return Told(
        msg(
            "Used {cores} of {asked} on the average ({x1} %).",
            cores=_number(cores),
            asked=show_cores(asked),
            x1=f"{cores / asked * 100:.0f}",
        ),
        msg(
            "See what it waits for: another task, a service, a lock, a sleep, a machine that others "
            "keep busy (`holdfast stack` shows where its programs stand). If that is how it works, "
            "ask for {enough}.",
            enough=show_cores(enough),
        ),
        {"cores": cores, "cores_asked": asked},
    )


def _throttled(run: TaskRun) -> bool:
    return (_throttled_share(run) or 0.0) >= THROTTLED


def _throttled_share(run: TaskRun) -> float | None:
    """The kernel counts each processor that stood still; a task has as many as it asked for."""
    share = run.used.throttled_share
    return None if share is None else share / max(run.asked.cpu, 1.0)


def _tell_throttled(runs: Sequence[TaskRun]) -> Told:
    share, cores, asked = _mean(_throttled_share(run) for run in runs), _cores(runs), runs[0].asked.cpu
    return Told(
        msg(
            "Kept from running by its limit of {asked} for {x1} % of the time, at {cores} used.",
            asked=show_cores(asked),
            x1=f"{min(share, 1) * 100:.0f}",
            cores=_number(cores),
        ),
        msg(
            "It could use more: ask for more cores. If it starts a thread for every core of the "
            "machine, as many libraries do, tell it how many it has: OMP_NUM_THREADS={x1}.",
            x1=max(1, int(asked)),
        ),
        {"throttled": share, "cores": cores, "cores_asked": asked},
    )


# -- memory


def _memory_near(run: TaskRun) -> bool:
    limit = _memory_limit(run)
    return run.used.memory_peak >= MEMORY_NEAR * limit and (run.used.memory_mean or 0.0) >= MEMORY_FULL * limit


def _memory_limit(run: TaskRun) -> int:
    return run.used.memory_limit or run.asked.memory


def _tell_memory_near(runs: Sequence[TaskRun]) -> Told:
    worst = max(runs, key=lambda run: run.used.memory_peak)
    peak, limit = worst.used.memory_peak, _memory_limit(worst)
    return Told(
        msg(
            "Memory came to {peak} of {limit} ({x1} %).",
            peak=show_bytes(peak),
            limit=show_bytes(limit),
            x1=f"{peak / limit * 100:.0f}",
        ),
        msg(
            "With little left, files are read again and again instead of being kept in memory, and a "
            "little more ends it. Ask for {limit}, or let it keep less at one time (smaller batches, "
            "fewer workers).",
            limit=show_bytes(_roomier(limit)),
        ),
        {"peak": peak, "limit": limit},
    )


def _roomier(limit: int) -> int:
    """Half as much again, in whole 256 MiB."""
    step = 256 * MIB
    return -(-limit * 3 // 2 // step) * step


def _swapping(run: TaskRun) -> bool:
    return (run.used.swap_peak or 0) >= SWAP_LEAST


def _tell_swapping(runs: Sequence[TaskRun]) -> Told:
    swap = max(run.used.swap_peak or 0 for run in runs)
    return Told(
        msg("Up to {swap} of its memory lay on the disk, in swap space.", swap=show_bytes(swap)),
        msg(
            "Reading it back takes a thousand times as long as from memory. Ask for more memory, or "
            "let it keep less at one time."
        ),
        {"swap": swap},
    )


# -- waiting for data


def _busy(run: TaskRun) -> bool:
    """It uses so much of what it has that it cannot be waiting for much."""
    return (run.gpu_percent or 0.0) >= GPU_BUSY or (run.cores or 0.0) >= CPU_BUSY * run.asked.cpu


def _disk_wait(run: TaskRun) -> bool:
    share = run.used.disk_wait_share
    return share is not None and share >= DISK_WAIT and not _busy(run)


def _tell_disk_wait(runs: Sequence[TaskRun]) -> Told:
    share = _mean(run.used.disk_wait_share for run in runs)
    rate = _mean((run.disk_bytes or 0) / run.used.seconds for run in runs)
    return Told(
        msg(
            "Stood still for disks {x1} % of the time, at {rate} a second.",
            x1=f"{min(share, 1) * 100:.0f}",
            rate=show_bytes(round(rate)),
        ),
        msg(
            "Read ahead in other processes, read fewer and larger files, keep what is read often in "
            "memory (/dev/shm) or on a nearer disk, and write less often."
        ),
        {"disk_wait": share, "bytes_per_second": rate},
    )


def _network_wait(run: TaskRun) -> bool:
    if run.net_bytes is None or run.cores is None or _busy(run) or _works(run) or _disk_wait(run):
        return False
    return run.cores < min(NETWORK_CORES, CPU_BUSY * run.asked.cpu) and run.net_bytes >= NETWORK_RATE * run.used.seconds


def _tell_network_wait(runs: Sequence[TaskRun]) -> Told:
    cores, rate = _cores(runs), _mean((run.net_bytes or 0) / run.used.seconds for run in runs)
    total = sum(run.net_bytes or 0 for run in runs)
    return Told(
        msg(
            "Worked little ({cores} of {cpu}) while {rate} a second went over its connections, "
            "{total} in all: it seems to wait for whom it talks to.",
            cores=_number(cores),
            cpu=show_cores(runs[0].asked.cpu),
            rate=show_bytes(round(rate)),
            total=show_bytes(total),
        ),
        msg(
            "Data from other machines: keep them on this one (a dataset, or the group's files), or "
            "fetch them once and in parallel. Between its own tasks and processes, which counts too: "
            "send less, or see which of them is slow."
        ),
        {"cores": cores, "bytes_per_second": rate, "bytes": total},
    )


# -- before the first output


def _late_start(run: TaskRun) -> bool:
    first = run.first_output
    return first is not None and LATE_SHARE <= first / run.seconds <= LATE_MOST


def _tell_late_start(runs: Sequence[TaskRun]) -> Told:
    worst = max(runs, key=lambda run: run.first_output or 0.0)
    first = worst.first_output or 0.0
    return Told(
        msg(
            "{first} of {seconds} went by before its first output.",
            first=show_time(first),
            seconds=show_time(worst.seconds),
        ),
        msg(
            "If it installs packages or fetches data then, put them into the image or a dataset. If "
            "it works then, let it say so: Python shows prints at once with PYTHONUNBUFFERED=1."
        ),
        {"first_output": first, "seconds": worst.seconds},
    )


def _mean(values: Iterable[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else 0.0


def _cores(runs: Sequence[TaskRun]) -> float:
    return _mean(run.cores for run in runs)


def _number(cores: float) -> str:
    return f"{cores:.1f}" if cores >= 0.05 else f"{cores:.2f}"


RULES = (
    Rule(Slowness.GPU_NEVER_OPENED, _never_opened, _tell_never_opened),
    Rule(Slowness.GPU_UNUSED, _gpu_unused, _tell_gpu_unused),
    Rule(Slowness.SWAPPING, _swapping, _tell_swapping),
    Rule(Slowness.CPU_THROTTLED, _throttled, _tell_throttled),
    Rule(Slowness.GPU_LOW, _gpu_low, _tell_gpu_low),
    Rule(Slowness.DISK_WAIT, _disk_wait, _tell_disk_wait),
    Rule(Slowness.NETWORK_WAIT, _network_wait, _tell_network_wait),
    Rule(Slowness.ONE_CORE, _one_core, _tell_one_core),
    Rule(Slowness.CPU_UNUSED, _cpu_unused, _tell_cpu_unused),
    Rule(Slowness.MEMORY_NEAR_LIMIT, _memory_near, _tell_memory_near),
    Rule(Slowness.LATE_START, _late_start, _tell_late_start),
)

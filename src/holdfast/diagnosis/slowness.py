"""Findings on slow jobs and unused requests, from the metrics of their tasks.

A finding is a rule that matches at least one task; matching tasks of one role are grouped. Tasks that ran too briefly
and metrics that were not measured are ignored. Stragglers are found by comparison, in `stragglers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from holdfast.core.job import MIB
from holdfast.core.messages import msg
from holdfast.core.metrics.samples import CPU_HISTOGRAM_BUCKETS
from holdfast.core.scheduling.placement import format_bytes, format_cores, format_gpus
from holdfast.core.verdicts import Finding, FindingKind

from .stragglers import find_stragglers
from .task_run import TaskRun, format_run_time

# Samples are taken every 5 s: at least four are needed for a pattern.
MIN_ENDED_SECONDS = 20.0
# A running task may still be starting: importing, reading its data, building its model.
MIN_RUNNING_SECONDS = 60.0

# The driver itself causes one or two percent.
MAX_IDLE_GPU_PERCENT = 5.0  # percent of the time
# Efficient training is above 70; below this the GPU waits more than twice as long as it computes.
MAX_LOW_GPU_PERCENT = 30.0
# A task that keeps the GPU this busy does not wait for other resources.
MIN_BUSY_GPU_PERCENT = 70.0
# One busy thread rarely uses exactly one core: it waits a little, and other threads add a little.
MIN_ONE_CORE_USAGE, MAX_ONE_CORE_USAGE = 0.8, 1.2  # cores
# For most of the time: all cores busy now and then can have the same mean.
ONE_CORE_BUCKETS = slice(CPU_HISTOGRAM_BUCKETS.index(50.0) + 1, CPU_HISTOGRAM_BUCKETS.index(150.0) + 1)
MIN_ONE_CORE_SHARE = 0.6  # share of the sampled time
MIN_PARALLEL_CORES = 2.0  # requested; with fewer there is nothing to parallelise
MAX_UNUSED_SHARE = 0.25  # share of the requested cores
MIN_BUSY_SHARE = 0.75
# A single thread with a limit of one core is throttled one or two percent by rounding.
MIN_THROTTLED_SHARE = 0.10  # share of the time
# Above this, the kernel drops cached files, and the next large allocation exceeds the limit.
MIN_MEMORY_PEAK_SHARE = 0.90  # share of the limit
# For most of the time: a peak alone may include cached files.
MIN_MEMORY_MEAN_SHARE = 0.60
# The kernel moves a few idle pages out at any time.
MIN_SWAP_BYTES = 64 * MIB
MIN_DISK_WAIT_SHARE = 0.25  # share of the time
# Less than half a core and at least this much traffic: it transfers data more than it computes.
MAX_NETWORK_CORES = 0.5
MIN_NETWORK_RATE = 1 * MIB  # bytes a second
MIN_SILENT_SECONDS = 30.0  # seconds; every program needs some time to start
MIN_LATE_START_SHARE = 0.5
# A first output at the very end is a result: the program may have computed all the time.
MAX_LATE_START_SHARE = 0.98


class MinimumTimes(NamedTuple):
    """Minimum seconds of run time for a finding (ended or running task), and of silence for a late start."""

    ended: float = MIN_ENDED_SECONDS
    running: float = MIN_RUNNING_SECONDS
    silent: float = MIN_SILENT_SECONDS

    def is_long_enough(self, run: TaskRun) -> bool:
        least = self.ended if run.ended else self.running
        return run.seconds >= least and run.used.seconds >= least / 2


@dataclass(frozen=True, slots=True)
class FindingText:
    """Text of a finding for the matching tasks of one role."""

    text: str
    remedy: str
    values: Mapping[str, float]


class SlownessRule(NamedTuple):
    kind: FindingKind
    matches: Callable[[TaskRun], bool]
    describe: Callable[[Sequence[TaskRun]], FindingText]


def find_slowness(runs: Iterable[TaskRun], least: MinimumTimes | None = None) -> tuple[Finding, ...]:
    """Return findings for the newest try of each task, the most expensive first."""
    least = least or MinimumTimes()
    known = [_drop_early_output(run, least) for run in runs if least.is_long_enough(run)]
    roles = {run.role: [each for each in known if each.role == run.role] for run in known}
    found = []
    for rule in SLOWNESS_RULES:
        for members in roles.values():
            those = [run for run in members if rule.matches(run)]
            if those:
                description = rule.describe(those)
                tasks = tuple(run.task for run in those)
                found.append(
                    Finding(
                        kind=rule.kind,
                        text=description.text,
                        remedy=description.remedy,
                        tasks=tasks,
                        values=description.values,
                    )
                )
    return (*found, *(finding for members in roles.values() for finding in find_stragglers(members)))


def _drop_early_output(run: TaskRun, least: MinimumTimes) -> TaskRun:
    """Clear a first output that was early enough."""
    return run if run.first_output is None or run.first_output >= least.silent else replace(run, first_output=None)


# -- GPUs


def _has_unopened_gpu(run: TaskRun) -> bool:
    return (
        run.asked.gpu > 0
        and run.is_gpu_sampled
        and run.used.gpu_opened is False
        and (run.gpu_percent or 0.0) < MAX_IDLE_GPU_PERCENT
    )


def _describe_unopened_gpu(runs: Sequence[TaskRun]) -> FindingText:
    asked, seconds = runs[0].asked.gpu, max(run.seconds for run in runs)
    return FindingText(
        msg(
            "Requested {requested}, but the program opened none in {seconds}.",
            requested=format_gpus(asked),
            seconds=format_run_time(seconds),
        ),
        msg(
            "Check that the program finds a GPU (in PyTorch: torch.cuda.is_available()) and that its packages "
            "support GPUs. If it needs none, remove gpu from the job: it starts sooner, and other jobs can use "
            "the GPU."
        ),
        {"gpus": asked, "seconds": seconds},
    )


def _list_idle_gpus(run: TaskRun) -> tuple[int, ...]:
    return tuple(gpu.index for gpu in run.used.gpus if gpu.percent < MAX_IDLE_GPU_PERCENT) if run.is_gpu_sampled else ()


def _has_unused_gpu(run: TaskRun) -> bool:
    return bool(_list_idle_gpus(run)) and not _has_unopened_gpu(run)


def _describe_unused_gpu(runs: Sequence[TaskRun]) -> FindingText:
    asked = runs[0].asked.gpu
    idle = max(len(_list_idle_gpus(run)) for run in runs)
    percent = _average_known(run.gpu_percent for run in runs)
    values = {"gpus": asked, "idle": idle, "percent": percent}
    if idle >= asked:
        return FindingText(
            msg(
                "Requested {requested} and opened it, but GPU utilization was {percent} %.",
                requested=format_gpus(asked),
                percent=f"{percent:.1f}",
            )
            if asked == 1
            else msg(
                "Requested {requested}, but average GPU utilization was {percent} %.",
                requested=format_gpus(asked),
                percent=f"{percent:.1f}",
            ),
            msg(
                "Check that the model and data are moved to the GPU (in PyTorch: .to('cuda')). Find out what the "
                "program waits for before it computes."
            ),
            values,
        )
    return FindingText(
        msg("Requested {requested}, but {idle} of them stayed idle.", requested=format_gpus(asked), idle=idle),
        msg(
            "Make the program use all of them (in PyTorch: torchrun --nproc_per_node={requested}),"
            " or request {request}.",
            requested=asked,
            request=format_gpus(asked - idle),
        ),
        values,
    )


def _has_low_gpu_usage(run: TaskRun) -> bool:
    percent = run.gpu_percent
    return percent is not None and MAX_IDLE_GPU_PERCENT <= percent < MAX_LOW_GPU_PERCENT and not _list_idle_gpus(run)


def _describe_low_gpu_usage(runs: Sequence[TaskRun]) -> FindingText:
    percent, cores, asked = _average_known(run.gpu_percent for run in runs), _average_cores(runs), runs[0].asked.cpu
    return FindingText(
        msg(
            "GPU utilization was {percent} %, and CPU usage was {cores} of {requested}.",
            percent=f"{percent:.0f}",
            cores=_format_core_count(cores),
            requested=format_cores(asked),
        ),
        msg(
            "The GPU waits for data. Load data in more processes (in PyTorch: num_workers of the DataLoader), "
            "request more cores, use larger batches, or use faster storage."
        ),
        {"percent": percent, "cores": cores, "cores_asked": asked},
    )


# -- processors


def _has_busy_gpu(run: TaskRun) -> bool:
    """Whether its GPU is busy, so that idle cores do not slow it down."""
    return (run.gpu_percent or 0.0) >= MAX_LOW_GPU_PERCENT


def _is_using_one_core(run: TaskRun) -> bool:
    cores = run.cores
    return (
        cores is not None
        and run.asked.cpu >= MIN_PARALLEL_CORES
        and MIN_ONE_CORE_USAGE <= cores <= MAX_ONE_CORE_USAGE
        and _is_steadily_using_one_core(run)
        and not _is_throttled(run)
        and not _has_busy_gpu(run)
    )


def _is_steadily_using_one_core(run: TaskRun) -> bool:
    steps = run.used.cpu_steps
    return sum(steps[ONE_CORE_BUCKETS]) >= MIN_ONE_CORE_SHARE * sum(steps)


def _describe_one_core(runs: Sequence[TaskRun]) -> FindingText:
    cores, asked = _average_cores(runs), runs[0].asked.cpu
    return FindingText(
        msg(
            "Only one core was busy ({percent} %); {requested} requested.",
            percent=f"{cores * 100:.0f}",
            requested=format_cores(asked),
        ),
        msg(
            "The program runs in one thread. Make it use more (threads, processes, OMP_NUM_THREADS, make -j, "
            "num_workers), or request 1 core."
        ),
        {"cores": cores, "cores_asked": asked},
    )


def _has_unused_cores(run: TaskRun) -> bool:
    cores, asked = run.cores, run.asked.cpu
    if cores is None or asked < MIN_PARALLEL_CORES or _has_busy_gpu(run) or _is_using_one_core(run):
        return False
    return cores < MAX_UNUSED_SHARE * asked and not (_is_waiting_for_disk(run) or _is_waiting_for_network(run))


def _describe_unused_cores(runs: Sequence[TaskRun]) -> FindingText:
    cores, asked = _average_cores(runs), runs[0].asked.cpu
    enough = max(1, round(cores + 0.49))
    return FindingText(
        msg(
            "CPU usage was {cores} of {requested} on average ({percent} %).",
            cores=_format_core_count(cores),
            requested=format_cores(asked),
            percent=f"{cores / asked * 100:.0f}",
        ),
        msg(
            "Find out what it waits for: another task, a service, a lock, a sleep or a busy node. `holdfast "
            "stack` shows its stack traces. If this usage is normal, request {amount}.",
            amount=format_cores(enough),
        ),
        {"cores": cores, "cores_asked": asked},
    )


def _is_throttled(run: TaskRun) -> bool:
    return (_get_throttled_share(run) or 0.0) >= MIN_THROTTLED_SHARE


def _get_throttled_share(run: TaskRun) -> float | None:
    """Return the throttled share per core: the kernel adds up the time of all cores."""
    share = run.used.throttled_share
    return None if share is None else share / max(run.asked.cpu, 1.0)


def _describe_throttling(runs: Sequence[TaskRun]) -> FindingText:
    share, cores, asked = (
        _average_known(_get_throttled_share(run) for run in runs),
        _average_cores(runs),
        runs[0].asked.cpu,
    )
    return FindingText(
        msg(
            "CPU-throttled {percent} % of the time (limit: {requested}, used: {cores}).",
            requested=format_cores(asked),
            percent=f"{min(share, 1) * 100:.0f}",
            cores=_format_core_count(cores),
        ),
        msg(
            "Request more cores. If it starts a thread for every core of the node, as many libraries do, set "
            "OMP_NUM_THREADS={threads}.",
            threads=max(1, int(asked)),
        ),
        {"throttled": share, "cores": cores, "cores_asked": asked},
    )


# -- memory


def _is_near_memory_limit(run: TaskRun) -> bool:
    limit = _get_memory_limit(run)
    return (
        run.used.memory_peak >= MIN_MEMORY_PEAK_SHARE * limit
        and (run.used.memory_mean or 0.0) >= MIN_MEMORY_MEAN_SHARE * limit
    )


def _get_memory_limit(run: TaskRun) -> int:
    return run.used.memory_limit or run.asked.memory


def _describe_memory_near_limit(runs: Sequence[TaskRun]) -> FindingText:
    worst = max(runs, key=lambda run: run.used.memory_peak)
    peak, limit = worst.used.memory_peak, _get_memory_limit(worst)
    return FindingText(
        msg(
            "Memory usage peaked at {peak} of {limit} ({percent} %).",
            peak=format_bytes(peak),
            limit=format_bytes(limit),
            percent=f"{peak / limit * 100:.0f}",
        ),
        msg(
            "With little free memory, files cannot be cached, and the task is close to an out-of-memory kill. "
            "Request {limit}, or reduce memory use (smaller batches, fewer workers).",
            limit=format_bytes(_compute_higher_memory_limit(limit)),
        ),
        {"peak": peak, "limit": limit},
    )


def _compute_higher_memory_limit(limit: int) -> int:
    """Return one and a half times the limit, in multiples of 256 MiB."""
    step = 256 * MIB
    return -(-limit * 3 // 2 // step) * step


def _is_swapping(run: TaskRun) -> bool:
    return (run.used.swap_peak or 0) >= MIN_SWAP_BYTES


def _describe_swapping(runs: Sequence[TaskRun]) -> FindingText:
    swap = max(run.used.swap_peak or 0 for run in runs)
    return FindingText(
        msg("Up to {swap} of its memory was swapped to disk.", swap=format_bytes(swap)),
        msg("Swap is about a thousand times slower than memory. Request more memory, or reduce memory use."),
        {"swap": swap},
    )


# -- waiting for data


def _is_busy(run: TaskRun) -> bool:
    """Whether its usage is so high that it cannot wait for long."""
    return (run.gpu_percent or 0.0) >= MIN_BUSY_GPU_PERCENT or (run.cores or 0.0) >= MIN_BUSY_SHARE * run.asked.cpu


def _is_waiting_for_disk(run: TaskRun) -> bool:
    share = run.used.disk_wait_share
    return share is not None and share >= MIN_DISK_WAIT_SHARE and not _is_busy(run)


def _describe_disk_wait(runs: Sequence[TaskRun]) -> FindingText:
    share = _average_known(run.used.disk_wait_share for run in runs)
    rate = _average_known((run.disk_bytes or 0) / run.used.seconds for run in runs)
    return FindingText(
        msg(
            "Waited for disk I/O {percent} % of the time, at {rate} per second.",
            percent=f"{min(share, 1) * 100:.0f}",
            rate=format_bytes(round(rate)),
        ),
        msg(
            "Prefetch in other processes, read fewer and larger files, and write less often. Keep frequently "
            "read files in memory (/dev/shm) or on a faster disk."
        ),
        {"disk_wait": share, "bytes_per_second": rate},
    )


def _is_waiting_for_network(run: TaskRun) -> bool:
    if run.net_bytes is None or run.cores is None or _is_busy(run) or _has_busy_gpu(run) or _is_waiting_for_disk(run):
        return False
    return (
        run.cores < min(MAX_NETWORK_CORES, MIN_BUSY_SHARE * run.asked.cpu)
        and run.net_bytes >= MIN_NETWORK_RATE * run.used.seconds
    )


def _describe_network_wait(runs: Sequence[TaskRun]) -> FindingText:
    cores, rate = _average_cores(runs), _average_known((run.net_bytes or 0) / run.used.seconds for run in runs)
    total = sum(run.net_bytes or 0 for run in runs)
    return FindingText(
        msg(
            "CPU usage was low ({cores} of {cpu}) at {rate} of network traffic per second, {total} in total. It "
            "probably waits for the network.",
            cores=_format_core_count(cores),
            cpu=format_cores(runs[0].asked.cpu),
            rate=format_bytes(round(rate)),
            total=format_bytes(total),
        ),
        msg(
            "For data from other hosts: use a dataset or the group's files, or fetch it once and in parallel. "
            "For traffic between its own tasks and processes: send less, or find the slow one."
        ),
        {"cores": cores, "bytes_per_second": rate, "bytes": total},
    )


# -- before the first output


def _has_late_start(run: TaskRun) -> bool:
    first = run.first_output
    return first is not None and MIN_LATE_START_SHARE <= first / run.seconds <= MAX_LATE_START_SHARE


def _describe_late_start(runs: Sequence[TaskRun]) -> FindingText:
    worst = max(runs, key=lambda run: run.first_output or 0.0)
    first = worst.first_output or 0.0
    return FindingText(
        msg(
            "The first output appeared {first} after the start (total run time: {seconds}).",
            first=format_run_time(first),
            seconds=format_run_time(worst.seconds),
        ),
        msg(
            "If it installs packages or fetches data first, put them into the image or a dataset. If it "
            "computes, print progress: PYTHONUNBUFFERED=1 makes Python show output immediately."
        ),
        {"first_output": first, "seconds": worst.seconds},
    )


def _average_known(values: Iterable[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else 0.0


def _average_cores(runs: Sequence[TaskRun]) -> float:
    return _average_known(run.cores for run in runs)


def _format_core_count(cores: float) -> str:
    return f"{cores:.1f}" if cores >= 0.05 else f"{cores:.2f}"


SLOWNESS_RULES = (
    SlownessRule(FindingKind.GPU_NEVER_OPENED, _has_unopened_gpu, _describe_unopened_gpu),
    SlownessRule(FindingKind.GPU_UNUSED, _has_unused_gpu, _describe_unused_gpu),
    SlownessRule(FindingKind.SWAPPING, _is_swapping, _describe_swapping),
    SlownessRule(FindingKind.CPU_THROTTLED, _is_throttled, _describe_throttling),
    SlownessRule(FindingKind.GPU_LOW, _has_low_gpu_usage, _describe_low_gpu_usage),
    SlownessRule(FindingKind.DISK_WAIT, _is_waiting_for_disk, _describe_disk_wait),
    SlownessRule(FindingKind.NETWORK_WAIT, _is_waiting_for_network, _describe_network_wait),
    SlownessRule(FindingKind.ONE_CORE, _is_using_one_core, _describe_one_core),
    SlownessRule(FindingKind.CPU_UNUSED, _has_unused_cores, _describe_unused_cores),
    SlownessRule(FindingKind.MEMORY_NEAR_LIMIT, _is_near_memory_limit, _describe_memory_near_limit),
    SlownessRule(FindingKind.LATE_START, _has_late_start, _describe_late_start),
)

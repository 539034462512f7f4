"""Each rule: where it holds, just short of it, and jobs that are well."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.core.job import GIB, MIB, Resources
from holdfast.core.metrics.samples import CPU_HISTOGRAM_BUCKETS, GpuSummary, TaskSummary
from holdfast.core.verdicts import FindingKind
from holdfast.diagnosis import slowness
from holdfast.diagnosis.slowness import MinimumTimes, find_slowness
from holdfast.diagnosis.task_run import TaskRun, format_run_time


def run_of(
    *,
    asked: Resources | None = None,
    seconds: float = 300.0,
    ended: bool = True,
    cores: float = 0.9,
    task: str = "worker-0",
    first_output: float | None = None,
    **used: Any,
) -> TaskRun:
    """By default a task that is well: 300 s with one core asked for and used."""
    gpus = tuple(
        GpuSummary(index=number, percent=percent, memory_peak=GIB) for number, percent in enumerate(used.pop("gpu", ()))
    )
    figures = {"seconds": seconds, "sampled": seconds, "memory_peak": GIB, "cpu_steps": steady(cores, seconds)} | used
    return TaskRun(
        task=task,
        role=task.rsplit("-", 1)[0],
        asked=asked or Resources(cpu=1, memory=2 * GIB),
        seconds=seconds,
        ended=ended,
        first_output=first_output,
        used=TaskSummary(cpu=cores * seconds, ended=ended, gpus=gpus, **figures),
    )


def steady(cores: float, seconds: float) -> tuple[float, ...]:
    steps = [0.0] * (len(CPU_HISTOGRAM_BUCKETS) + 1)
    steps[sum(step <= cores * 100 for step in CPU_HISTOGRAM_BUCKETS)] = seconds
    return tuple(steps)


def kinds(*runs: TaskRun) -> list[FindingKind]:
    return [finding.kind for finding in find_slowness(runs)]


def big(**more: Any) -> Resources:
    return Resources(**{"cpu": 8, "memory": 16 * GIB, **more})


GPU = Resources(cpu=4, memory=16 * GIB, gpu=1)
GPUS = Resources(cpu=4, memory=16 * GIB, gpu=4)

HOLDS = {
    "a GPU that was never opened": (
        run_of(asked=GPU, cores=3.9, gpu=[0], gpu_opened=False),
        FindingKind.GPU_NEVER_OPENED,
    ),
    "a GPU without figures that was never opened": (
        run_of(asked=GPU, cores=3.9, gpu_opened=False),
        FindingKind.GPU_NEVER_OPENED,
    ),
    "a GPU that was opened and did nothing": (
        run_of(asked=GPU, cores=3, gpu=[4.9], gpu_opened=True),
        FindingKind.GPU_UNUSED,
    ),
    "three of four GPUs idle": (
        run_of(asked=GPUS, cores=3, gpu=[95, 0, 0, 0.5], gpu_opened=True),
        FindingKind.GPU_UNUSED,
    ),
    "a GPU that waits": (run_of(asked=GPU, cores=3.5, gpu=[29], gpu_opened=True), FindingKind.GPU_LOW),
    "one core of eight": (run_of(asked=big(), cores=0.99), FindingKind.ONE_CORE),
    "one core of two": (run_of(asked=Resources(cpu=2, memory=2 * GIB), cores=0.8), FindingKind.ONE_CORE),
    "idle": (run_of(asked=big(), cores=0.01), FindingKind.CPU_UNUSED),
    "little of much": (run_of(asked=big(), cores=1.9), FindingKind.CPU_UNUSED),
    "throttled": (run_of(cores=1, throttled=30.0), FindingKind.CPU_THROTTLED),
    "throttled on many cores": (run_of(asked=big(), cores=7.9, throttled=900.0), FindingKind.CPU_THROTTLED),
    "memory near its limit": (
        run_of(memory_peak=int(1.8 * GIB) + 1, memory_mean=1.2 * GIB + 1),
        FindingKind.MEMORY_NEAR_LIMIT,
    ),
    "memory near the limit in force": (
        run_of(memory_peak=int(0.95 * GIB), memory_limit=GIB, memory_mean=0.9 * GIB),
        FindingKind.MEMORY_NEAR_LIMIT,
    ),
    "swapping": (run_of(swap_peak=64 * MIB), FindingKind.SWAPPING),
    "waiting for disks": (run_of(cores=0.3, disk_wait=75.0, disk_read=3 * GIB, disk_written=0), FindingKind.DISK_WAIT),
    "waiting for the network": (
        run_of(cores=0.1, net_in=300 * MIB, net_out=0, disk_wait=1.0),
        FindingKind.NETWORK_WAIT,
    ),
    "half of it silent": (run_of(first_output=150.0), FindingKind.LATE_START),
    "most of it silent": (run_of(first_output=270.0), FindingKind.LATE_START),
    "nearly all of it silent": (run_of(first_output=279.0), FindingKind.LATE_START),
    "hours of silence before some output": (run_of(seconds=7200, first_output=7000.0), FindingKind.LATE_START),
}


@pytest.mark.parametrize("name", HOLDS)
def test_what_is_wrong_is_found_alone_with_numbers_and_a_remedy(name: str) -> None:
    run, kind = HOLDS[name]
    (finding,) = find_slowness([run])
    assert finding.kind is kind
    assert finding.tasks == ("worker-0",)
    assert any(letter.isdigit() for letter in finding.text)
    assert finding.text.endswith(".")
    assert finding.remedy.endswith(".")
    assert finding.values


WELL = {
    "one core well used": run_of(),
    "eight cores well used": run_of(asked=big(), cores=7.5),
    "half of eight cores": run_of(asked=big(), cores=4),
    "a third of eight cores": run_of(asked=big(), cores=2.0),
    "one core asked for, and idle": run_of(cores=0.0),
    "all cores now and then": run_of(
        asked=Resources(cpu=4, memory=2 * GIB), cores=1.1, cpu_steps=(200.0, *[0.0] * 8, 100.0, 0.0, 0.0, 0.0)
    ),
    "training on a GPU, fed by one core": run_of(asked=GPU, cores=1.0, gpu=[96], gpu_opened=True),
    "training on a GPU with idle cores": run_of(asked=GPU, cores=0.2, gpu=[90], gpu_opened=True),
    "a GPU used enough": run_of(asked=GPU, cores=3.5, gpu=[30], gpu_opened=True),
    "GPUs that nobody could look at": run_of(asked=GPU, cores=3.5),
    "GPUs that were looked at too little": run_of(asked=GPU, cores=3.5, gpu=[0], gpu_opened=False, sampled=140.0),
    "four GPUs in use": run_of(asked=GPUS, cores=3, gpu=[80, 81, 79, 80], gpu_opened=True),
    "hardly throttled": run_of(cores=1, throttled=29.9),
    "each of eight cores hardly throttled": run_of(asked=big(), cores=7.9, throttled=239.0),
    "memory below": run_of(memory_peak=int(1.79 * GIB), memory_mean=1.7 * GIB),
    "a peak that may be cached files": run_of(memory_peak=2 * GIB, memory_mean=1.1 * GIB),
    "a peak that nobody saw": run_of(memory_peak=2 * GIB),
    "a little swap": run_of(swap_peak=64 * MIB - 1),
    "waiting a little for disks": run_of(cores=0.3, disk_wait=74.0),
    "many readers beside a busy GPU": run_of(asked=GPU, cores=2, gpu=[93], gpu_opened=True, disk_wait=900.0),
    "many readers beside busy cores": run_of(asked=big(), cores=6.1, disk_wait=900.0),
    "little traffic": run_of(cores=0.1, net_in=299 * MIB, net_out=0),
    "traffic beside work": run_of(cores=0.9, net_in=30 * GIB, net_out=0),
    "traffic beside a working GPU": run_of(asked=GPU, cores=0.3, gpu=[60], gpu_opened=True, net_in=30 * GIB),
    "early output": run_of(first_output=149.0),
    "late, but soon": run_of(seconds=40, first_output=29.0),
    "a result at its end": run_of(first_output=299.0),
    "no output at all": run_of(first_output=None),
    "too short to tell": run_of(asked=big(), seconds=19.9, cores=0.0, throttled=19.0, swap_peak=GIB),
    "running too short to tell": run_of(
        asked=GPU, seconds=59.0, ended=False, cores=0.9, gpu=[0], gpu_opened=False, memory_peak=16 * GIB
    ),
    "long, but hardly measured": replace(run_of(asked=big()), used=TaskSummary(seconds=9.0, sampled=9.0)),
    "never measured": replace(run_of(asked=big()), used=TaskSummary()),
}


@pytest.mark.parametrize("name", WELL)
def test_nothing_is_found_where_nothing_is_wrong(name: str) -> None:
    assert kinds(WELL[name]) == []


def test_one_that_still_runs_is_told_once_it_ran_long_enough() -> None:
    assert kinds(run_of(asked=GPU, seconds=60, ended=False, cores=3.5, gpu=[0], gpu_opened=False)) == [
        FindingKind.GPU_NEVER_OPENED
    ]
    assert kinds(run_of(asked=big(), seconds=20, cores=0.0)) == [FindingKind.CPU_UNUSED]
    assert find_slowness([run_of(asked=big(), seconds=2, cores=0.0)], MinimumTimes(1, 1))


def test_the_reason_is_told_in_place_of_what_follows_from_it() -> None:
    """Cores are idle because the disk is slow; a GPU waits because one core feeds it."""
    assert kinds(run_of(asked=big(), cores=0.2, disk_wait=250.0)) == [FindingKind.DISK_WAIT]
    assert kinds(run_of(asked=big(), cores=0.2, net_in=9 * GIB)) == [FindingKind.NETWORK_WAIT]
    assert kinds(run_of(asked=big(gpu=1), cores=1.0, gpu=[12], gpu_opened=True)) == [
        FindingKind.GPU_LOW,
        FindingKind.ONE_CORE,
    ]


def test_several_things_are_all_told() -> None:
    run = run_of(
        cores=1.0, throttled=90.0, memory_peak=2 * GIB, memory_mean=2.0 * GIB, swap_peak=GIB, first_output=200.0
    )
    assert kinds(run) == [
        FindingKind.SWAPPING,
        FindingKind.CPU_THROTTLED,
        FindingKind.MEMORY_NEAR_LIMIT,
        FindingKind.LATE_START,
    ]


def test_tasks_of_a_role_are_told_together_and_roles_apart() -> None:
    lazy = [run_of(task=f"worker-{number}", asked=big(), cores=0.1) for number in range(3)]
    others = [run_of(task="ps-0", asked=big(), cores=0.1), run_of(task="chief-0")]
    assert [(finding.kind, finding.tasks) for finding in find_slowness([*lazy, *others])] == [
        (FindingKind.CPU_UNUSED, ("worker-0", "worker-1", "worker-2")),
        (FindingKind.CPU_UNUSED, ("ps-0",)),
    ]


TEXTS = {
    "one core of eight": "Only one core was busy (99 %); 8 cores requested.",
    "idle": "CPU usage was 0.01 of 8 cores on average (0 %).",
    "a GPU that was never opened": "Requested 1 GPU, but the program opened none in 5 min.",
    "three of four GPUs idle": "Requested 4 GPUs, but 3 of them stayed idle.",
    "throttled": "CPU-throttled 10 % of the time (limit: 1 core, used: 1.0).",
    "throttled on many cores": "CPU-throttled 38 % of the time (limit: 8 cores, used: 7.9).",
    "memory near the limit in force": "Memory usage peaked at 972.8 MiB of 1 GiB (95 %).",
    "swapping": "Up to 64 MiB of its memory was swapped to disk.",
    "waiting for disks": "Waited for disk I/O 25 % of the time, at 10.24 MiB per second.",
    "half of it silent": "The first output appeared 2 min 30 s after the start (total run time: 5 min).",
}


@pytest.mark.parametrize("name", TEXTS)
def test_sentences(name: str) -> None:
    assert find_slowness([HOLDS[name][0]])[0].text == TEXTS[name]


def test_remedies_name_amounts() -> None:
    assert "Request 1.5 GiB" in find_slowness([HOLDS["memory near the limit in force"][0]])[0].remedy
    assert "or request 1 GPU." in find_slowness([HOLDS["three of four GPUs idle"][0]])[0].remedy


def test_every_kind_has_a_rule_or_is_found_by_comparison() -> None:
    ruled = {rule.kind for rule in slowness.SLOWNESS_RULES}
    assert ruled | {FindingKind.STRAGGLER} == set(FindingKind)
    assert {kind for _, kind in HOLDS.values()} == ruled


# -- stragglers


def team(*cores: float, seconds: float = 300.0, **more: Any) -> list[TaskRun]:
    return [run_of(task=f"worker-{number}", cores=each, seconds=seconds, **more) for number, each in enumerate(cores)]


def test_one_that_does_less_than_all_others() -> None:
    (finding,) = find_slowness(team(0.9, 0.92, 0.3, 0.88))
    assert (finding.kind, finding.tasks) == (FindingKind.STRAGGLER, ("worker-2",))
    assert finding.text == "worker-2 used 0.30 cores; the other tasks of worker used 0.89 each."


@pytest.mark.parametrize(
    "runs",
    [
        team(0.9, 0.92, 0.46, 0.88),  # not that much less
        team(0.9, 0.3),  # of two, nobody can say
        team(0.9, 0.6, 0.2, 0.5),  # all differ
        team(0.15, 0.15, 0.01, 0.15),  # none does much
        team(0.9, 0.1, 0.1, 0.1),  # a leader, and others
        team(0.9, 0.9, 0.1, 0.1),  # half of them are no exception
    ],
)
def test_no_straggler_by_work(runs: list[TaskRun]) -> None:
    assert find_slowness(runs) == ()


def test_one_that_runs_longer_than_all_others() -> None:
    quick, slow = team(0.9, 0.9, 0.9, seconds=100), run_of(task="worker-3", seconds=160)
    (finding,) = find_slowness([*quick, slow])
    assert (finding.kind, finding.tasks) == (FindingKind.STRAGGLER, ("worker-3",))
    assert finding.text == "worker-3 ran for 2 min 40 s; most other tasks of worker ran for 1 min 40 s."
    assert find_slowness([*quick, replace(slow, ended=False)])[0].kind is FindingKind.STRAGGLER


def test_no_straggler_by_time() -> None:
    quick, slow = team(0.9, 0.9, 0.9, seconds=100), run_of(task="worker-3", seconds=159)
    assert find_slowness([*quick, slow]) == ()
    running = [replace(run, ended=False) for run in quick[:2]]
    assert find_slowness([*running, quick[2], replace(slow, seconds=900)]) == ()  # most still run


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (95, "1 min 35 s"),
        (900, "15 min"),
        (3600, "1 h"),
        (5400, "1 h 30 min"),
    ],
)
def test_times(seconds: float, text: str) -> None:
    assert format_run_time(seconds) == text

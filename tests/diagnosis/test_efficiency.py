"""What a job used of what it asked for, and what would have been enough."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.core.job import GIB, MIB, Resources
from holdfast.core.metrics.samples import GpuSummary, TaskSummary
from holdfast.core.verdicts import ResourceUsage
from holdfast.diagnosis.efficiency import round_up_size, summarize_efficiency
from holdfast.diagnosis.task_run import TaskRun

ASKED = Resources(cpu=4, memory=16 * GIB)


def run_of(
    task: str = "worker-0", *, asked: Resources = ASKED, seconds: float = 100.0, cores: float = 3.0, **used: Any
) -> TaskRun:
    figures = {"seconds": seconds, "sampled": seconds, "memory_peak": 12 * GIB} | used
    return TaskRun(
        task=task,
        role=task.rsplit("-", 1)[0],
        asked=asked,
        seconds=seconds,
        ended=True,
        used=TaskSummary(cpu=cores * seconds, **figures),
    )


def gpus(*percents: float, peak: int = GIB) -> tuple[GpuSummary, ...]:
    return tuple(GpuSummary(index=i, percent=percent, memory_peak=peak) for i, percent in enumerate(percents))


def test_nothing_that_ran_has_no_efficiency() -> None:
    assert summarize_efficiency([]) is None


def test_one_task() -> None:
    found = summarize_efficiency([run_of()])
    assert found is not None
    assert found.whole == ResourceUsage(
        tasks=1,
        seconds=100.0,
        cpu_asked=4,
        cpu_used=3.0,
        memory_asked=16 * GIB,
        memory_peak=12 * GIB,
        gpu_asked=0,
        gpu_used=None,
    )
    assert found.roles == {"worker": found.whole}
    assert found.advice == ()


def test_roles_and_the_whole() -> None:
    gpu = Resources(cpu=2, memory=8 * GIB, gpu=2)
    workers = [run_of(f"worker-{i}", asked=gpu, cores=1.5, memory_peak=6 * GIB, gpus=gpus(50, 60)) for i in range(2)]
    found = summarize_efficiency([*workers, run_of("ps-0", seconds=50)])
    assert found is not None
    worker, ps = found.roles["worker"], found.roles["ps"]
    assert (worker.tasks, worker.seconds, worker.cpu_asked, worker.cpu_used) == (2, 200.0, 4, 3.0)
    assert (worker.gpu_asked, worker.gpu_used, worker.gpu_memory_peak) == (4, pytest.approx(2.2), 4 * GIB)
    assert (ps.tasks, ps.gpu_asked, ps.gpu_used) == (1, 0, None)
    assert (found.whole.tasks, found.whole.seconds, found.whole.memory_asked) == (3, 250.0, 32 * GIB)
    assert found.whole.gpu_used == pytest.approx(2.2)
    assert found.whole.memory_peak == 24 * GIB


def test_all_tries_of_a_task_count_by_their_time() -> None:
    """A first try that hung for long, and a second that worked: what both kept from others."""
    found = summarize_efficiency([run_of(seconds=900, cores=0.0, memory_peak=GIB), run_of(seconds=100, cores=4.0)])
    assert found is not None
    assert (found.whole.tasks, found.whole.seconds, found.whole.cpu_asked) == (1, 1000.0, 4)
    assert found.whole.cpu_used == pytest.approx(0.4)
    assert found.whole.memory_peak == 12 * GIB


def test_what_was_not_measured_is_left_out() -> None:
    unknown = replace(run_of("worker-1"), used=TaskSummary())
    found = summarize_efficiency([run_of(), unknown])
    assert found is not None
    assert (found.whole.tasks, found.whole.cpu_asked, found.whole.cpu_used) == (1, 4, 3.0)


def test_of_a_moment_no_mean_is_told() -> None:
    gpu = Resources(cpu=2, memory=16 * GIB, gpu=2)
    moment = run_of(asked=gpu, seconds=9.9, gpus=gpus(50, 60))
    found = summarize_efficiency([moment])
    assert found is not None
    assert (found.whole.cpu_used, found.whole.gpu_used) == (None, None)
    assert (found.whole.memory_peak, found.whole.gpu_memory_peak) == (12 * GIB, 2 * GIB)
    found = summarize_efficiency([moment, run_of("worker-1", asked=gpu, seconds=10.0, gpus=gpus(50, 60))])
    assert found is not None
    assert found.whole.cpu_used is not None
    assert found.whole.gpu_used is not None


def test_without_any_figures_it_tells_what_was_asked_for() -> None:
    found = summarize_efficiency([replace(run_of(), used=TaskSummary())])
    assert found is not None
    assert found.whole == ResourceUsage(
        tasks=1,
        seconds=100.0,
        cpu_asked=4,
        cpu_used=None,
        memory_asked=16 * GIB,
        memory_peak=None,
        gpu_asked=0,
        gpu_used=None,
    )
    assert found.advice == ()


GPUS = Resources(cpu=4, memory=16 * GIB, gpu=4)
ADVICE = {
    "memory": ([run_of(memory_peak=int(1.4 * GIB))], ("Request 2 GiB of memory (peak 1.4 GiB of 16 GiB).",)),
    "memory of the largest": (
        [run_of(memory_peak=GIB), run_of("worker-1", memory_peak=5 * GIB)],
        ("Request 8 GiB of memory (peak 5 GiB of 16 GiB).",),
    ),
    "memory, hardly less": ([run_of(memory_peak=7 * GIB)], ()),
    "memory, not worth it": ([run_of(asked=Resources(cpu=4, memory=512 * MIB), memory_peak=64 * MIB)], ()),
    "cores": ([run_of(cores=0.99)], ("Request 1 core (average usage 1.0 of 4 cores).",)),
    "two cores": ([run_of(cores=1.2)], ("Request 2 cores (average usage 1.2 of 4 cores).",)),
    "cores, hardly less": ([run_of(cores=2.2)], ()),
    "one core, idle": ([run_of(asked=Resources(cpu=1, memory=16 * GIB), cores=0.0)], ()),
    "no GPU": ([run_of(asked=GPUS, gpus=gpus(0, 0, 0, 1))], ("Request no GPU (4 GPUs stayed idle).",)),
    "fewer GPUs": ([run_of(asked=GPUS, gpus=gpus(90, 0, 88, 1))], ("Request 2 GPUs (2 of 4 GPUs stayed idle).",)),
    "as many GPUs as one of them used": (
        [run_of(asked=GPUS, gpus=gpus(90, 0, 88, 1)), run_of("worker-1", asked=GPUS, gpus=gpus(90, 90, 88, 90))],
        (),
    ),
    "GPUs that nobody looked at": ([run_of(asked=GPUS)], ()),
    "too short": ([run_of(seconds=19, cores=0.1, memory_peak=MIB)], ()),
    "still running": ([replace(run_of(cores=0.1, memory_peak=MIB), ended=False)], ()),
    "one of them still running": (
        [run_of(cores=0.1, memory_peak=MIB), replace(run_of("worker-1", cores=0.1), ended=False)],
        (),
    ),
    "by role": ([run_of(cores=0.5), run_of("ps-0")], ("worker: Request 1 core (average usage 0.5 of 4 cores).",)),
}


@pytest.mark.parametrize("name", ADVICE)
def test_advice(name: str) -> None:
    runs, expected = ADVICE[name]
    found = summarize_efficiency(runs)
    assert found is not None
    assert found.advice == expected


@pytest.mark.parametrize(
    ("count", "size"),
    [
        (1, 64 * MIB),
        (64 * MIB, 64 * MIB),
        (65 * MIB, 128 * MIB),
        (600 * MIB, GIB),
        (GIB + 1, 3 * GIB // 2),
        (7 * GIB // 4, 2 * GIB),
        (5 * GIB, 6 * GIB),
        (100 * GIB, 128 * GIB),
    ],
)
def test_sizes_that_people_write(count: int, size: int) -> None:
    assert round_up_size(count) == size

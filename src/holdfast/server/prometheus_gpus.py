"""GPUs of machines as Prometheus reads them, by OpenPAI's names: all of them, whoever uses them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from holdfast.core.metrics.samples import GpuState
from holdfast.services.installation.monitoring import Standing

VENDOR = "nvidia"
SHARED_LABELS = ("node", "minor_number", "vender")  # of names that OpenPAI has for GPUs of all makers
LABELS = ("node_name", "minor_number")
ECC = "nvidiasmi_ecc_error_count"


def clean(value: object) -> str:
    """As a label may hold it: anything that is Unicode. What is none, such as half a character, becomes "?"."""
    return str(value).encode("utf-8", "replace").decode()


def _full(gpu: GpuState) -> float | None:
    return 100.0 * gpu.memory / gpu.memory_total if gpu.memory is not None and gpu.memory_total else None


class _Series(NamedTuple):
    name: str
    text: str
    value: Callable[[GpuState], float | None]


SHARED_SERIES = (
    _Series("gpu_utilization", "Percent of the time that a GPU was busy.", lambda gpu: gpu.percent),
    _Series("gpu_mem_utilization", "Percent of its memory that is used.", _full),
)
SERIES = (
    _Series("nvidiasmi_utilization_gpu", "Percent of the time that a GPU was busy.", lambda gpu: gpu.percent),
    _Series("nvidiasmi_utilization_memory", "Percent of its memory that is used.", _full),
    _Series("nvidiasmi_temperature", "Degrees Celsius.", lambda gpu: gpu.temperature),
    _Series("nvidiasmi_performance_state", "0 is the fastest, 15 the slowest.", lambda gpu: gpu.performance),
    _Series(
        "gpu_used_by_external_process_count",
        "Processes that compute on a GPU and belong to no task.",
        lambda gpu: gpu.foreign_processes,
    ),
)


def gpu_families(standing: Standing) -> Iterator[Metric]:
    there = GaugeMetricFamily("configured_gpu_count", "GPUs of a machine that jobs may use.", labels=["node"])
    for use in standing.nodes:
        there.add_metric([clean(use.node.name)], len(use.node.gpus))
    yield there
    gpus = [(clean(node), gpu) for node, those in _known(standing).items() for gpu in those.values()]
    for series in SHARED_SERIES:
        family = GaugeMetricFamily(series.name, series.text, labels=SHARED_LABELS)
        for node, gpu in gpus:
            _add(family, (node, str(gpu.index), VENDOR), series.value(gpu))
        yield family
    for series in SERIES:
        family = GaugeMetricFamily(series.name, series.text, labels=LABELS)
        for node, gpu in gpus:
            _add(family, (node, str(gpu.index)), series.value(gpu))
        yield family
    errors = GaugeMetricFamily(ECC, "Errors of a GPU's memory since its driver was loaded.", labels=(*LABELS, "type"))
    for node, gpu in gpus:
        _add(errors, (node, str(gpu.index), "single"), gpu.ecc_single)
        _add(errors, (node, str(gpu.index), "double"), gpu.ecc_double)
    yield errors


def _add(family: GaugeMetricFamily, labels: tuple[str, ...], value: float | None) -> None:
    if value is not None:
        family.add_metric(labels, value)


def _known(standing: Standing) -> dict[str, dict[int, GpuState]]:
    """What machines tell of their GPUs; of one that does not answer just now, what was last seen with its tasks."""
    found: dict[str, dict[int, GpuState]] = {}
    for _, task, now in standing.running:
        for gpu in now.reading.gpus:
            state = GpuState(index=gpu.index, percent=gpu.percent, memory=gpu.memory, memory_total=gpu.memory_total)
            found.setdefault(task.node or "", {})[gpu.index] = state
    for node, gpus in standing.gpus.items():
        found.setdefault(node, {}).update({gpu.index: gpu for gpu in gpus})
    return found

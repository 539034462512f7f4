"""Prometheus metrics of the GPUs of all nodes, with OpenPAI's names, whether or not a job uses them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from holdfast.core.metrics.samples import GpuState
from holdfast.services.installation.monitoring import MonitoringSnapshot

VENDOR = "nvidia"
SHARED_LABELS = ("node", "minor_number", "vender")  # of names that OpenPAI has for GPUs of all vendors
GPU_NODE_LABELS = ("node_name", "minor_number")
ECC_METRIC = "nvidiasmi_ecc_error_count"


def clean_label(value: object) -> str:
    """Return a valid label value: Unicode text. Invalid characters, such as a lone surrogate, become "?"."""
    return str(value).encode("utf-8", "replace").decode()


def _get_memory_percent(gpu: GpuState) -> float | None:
    return 100.0 * gpu.memory / gpu.memory_total if gpu.memory is not None and gpu.memory_total else None


class _GpuSeries(NamedTuple):
    name: str
    text: str
    value: Callable[[GpuState], float | None]


SHARED_GPU_SERIES = (
    _GpuSeries("gpu_utilization", "GPU utilization in percent.", lambda gpu: gpu.percent),
    _GpuSeries("gpu_mem_utilization", "GPU memory in use, in percent.", _get_memory_percent),
)
GPU_SERIES = (
    _GpuSeries("nvidiasmi_utilization_gpu", "GPU utilization in percent.", lambda gpu: gpu.percent),
    _GpuSeries("nvidiasmi_utilization_memory", "GPU memory in use, in percent.", _get_memory_percent),
    _GpuSeries("nvidiasmi_temperature", "GPU temperature in degrees Celsius.", lambda gpu: gpu.temperature),
    _GpuSeries("nvidiasmi_performance_state", "GPU performance state, 0 to 15.", lambda gpu: gpu.performance),
    _GpuSeries(
        "gpu_used_by_external_process_count",
        "Compute processes on a GPU that belong to no task.",
        lambda gpu: gpu.foreign_processes,
    ),
)


def collect_gpu_metrics(standing: MonitoringSnapshot) -> Iterator[Metric]:
    there = GaugeMetricFamily("configured_gpu_count", "GPUs of a node available to jobs.", labels=["node"])
    for use in standing.nodes:
        there.add_metric([clean_label(use.node.name)], len(use.node.gpus))
    yield there
    gpus = [(clean_label(node), gpu) for node, those in _group_gpus_by_node(standing).items() for gpu in those.values()]
    for series in SHARED_GPU_SERIES:
        family = GaugeMetricFamily(series.name, series.text, labels=SHARED_LABELS)
        for node, gpu in gpus:
            _add_sample(family, (node, str(gpu.index), VENDOR), series.value(gpu))
        yield family
    for series in GPU_SERIES:
        family = GaugeMetricFamily(series.name, series.text, labels=GPU_NODE_LABELS)
        for node, gpu in gpus:
            _add_sample(family, (node, str(gpu.index)), series.value(gpu))
        yield family
    errors = GaugeMetricFamily(
        ECC_METRIC, "GPU memory errors since the driver was loaded.", labels=(*GPU_NODE_LABELS, "type")
    )
    for node, gpu in gpus:
        _add_sample(errors, (node, str(gpu.index), "single"), gpu.ecc_single)
        _add_sample(errors, (node, str(gpu.index), "double"), gpu.ecc_double)
    yield errors


def _add_sample(family: GaugeMetricFamily, labels: tuple[str, ...], value: float | None) -> None:
    if value is not None:
        family.add_metric(labels, value)


def _group_gpus_by_node(standing: MonitoringSnapshot) -> dict[str, dict[int, GpuState]]:
    """Return the reported GPUs of each node; for a node that is not responding, those last seen with its tasks."""
    found: dict[str, dict[int, GpuState]] = {}
    for _, task, now in standing.running:
        for gpu in now.reading.gpus:
            state = GpuState(index=gpu.index, percent=gpu.percent, memory=gpu.memory, memory_total=gpu.memory_total)
            found.setdefault(task.machine or "", {})[gpu.index] = state
    for node, gpus in standing.gpus.items():
        found.setdefault(node, {}).update({gpu.index: gpu for gpu in gpus})
    return found

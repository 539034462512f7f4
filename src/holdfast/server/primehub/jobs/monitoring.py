"""A job's usage in the format of PrimeHub's agent."""

from __future__ import annotations

from holdfast.core.job import Job
from holdfast.core.metrics.samples import RING_BUFFER_SPECS, Sample
from holdfast.store.metrics.database import MetricSeries

from ..graphql.scalars import to_whole_numbers
from ..json_object import JsonObject


def metrics_to_json(series: MetricSeries, job: Job) -> JsonObject:
    """Return the metrics of one task: PrimeHub's jobs have only one."""
    reading = series.reading
    limit = job.roles[0].resources.memory if reading.memory_limit is None else reading.memory_limit
    spec = {"mem_total": limit, "GPU": [{"index": gpu.index, "mem_total": gpu.memory_total} for gpu in reading.gpus]}
    datasets = {
        ring.name: [_sample_to_json(sample) for sample in series.rings[ring.name]] for ring in RING_BUFFER_SPECS
    }
    found: JsonObject = to_whole_numbers({"spec": spec, "datasets": datasets})
    return found


def _sample_to_json(sample: Sample) -> JsonObject:
    return {
        "timestamp": round(sample.at),
        "cpu_util": round(sample.cpu, 2),
        "mem_used": round(sample.memory),
        "GPU": [
            {"index": gpu.index, "gpu_util": round(gpu.percent, 2), "mem_used": round(gpu.memory)}
            for gpu in sample.gpus
        ],
    }

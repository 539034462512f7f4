"""Rows of the metrics database: samples, and the state of a task as JSON."""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, TypeVar

from holdfast.core.metrics.samples import (
    RING_BUFFER_SPECS,
    GpuReading,
    GpuSample,
    GpuSummary,
    Reading,
    RingBufferSpec,
    Sample,
    TaskSummary,
)
from holdfast.core.metrics.sampling import add_to_summary

T = TypeVar("T")

_MAX_GPU_INDEX = 255
_GPU_STRUCT = struct.Struct("<Bee")  # index, percent, memory
_GPU_MEMORY_UNIT = 16.0 * 2**20  # bytes
_MAX_HALF = 65504.0  # the largest half-precision number

SAVE_TASK = """
    INSERT INTO task (id, attempt, updated, ended, state) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET updated = excluded.updated, ended = excluded.ended, state = excluded.state
"""
SAVE_SAMPLE = "INSERT OR REPLACE INTO sample VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
# One row for all: fetching each separately would release and acquire the GIL as many times.
_READ_SAMPLES = """
    SELECT json_group_array(json_array(at, seconds, cpu, memory, net_in, net_out, disk_read, disk_written, throttled,
                                       disk_wait, hex(gpus)))
    FROM sample WHERE task = ? AND slot >= ? AND slot < ?
"""

NO_POINTS = (0,) * len(RING_BUFFER_SPECS)

SampleRow = tuple[int | bytes | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMetricsState:
    """The state of a task beside its samples."""

    counts: tuple[int, ...]  # points ever added to each ring
    reading: Reading  # the last one
    summary: TaskSummary


# --- samples


_FIRST_SLOTS = {
    ring: sum(each.points for each in RING_BUFFER_SPECS[:number]) for number, ring in enumerate(RING_BUFFER_SPECS)
}


def sample_to_row(task: int, ring: RingBufferSpec, added: int, sample: Sample) -> SampleRow:
    """Convert a sample to a row. `added`: the number of points added to the ring before."""
    return (
        task,
        _FIRST_SLOTS[ring] + added % ring.points,
        round(sample.at * 1000),
        round(sample.seconds * 1000),
        round(sample.cpu * 100),
        round(sample.memory),
        round(sample.net_in),
        round(sample.net_out),
        round(sample.disk_read),
        round(sample.disk_written),
        round(sample.throttled * 100),
        round(sample.disk_wait * 100),
        _pack_gpus(sample.gpus) if sample.gpus else None,
    )


def read_ring(connection: sqlite3.Connection, task: int, ring: RingBufferSpec) -> list[Sample]:
    """Read the samples of a ring, oldest first."""
    begin = _FIRST_SLOTS[ring]
    (found,) = connection.execute(_READ_SAMPLES, (task, begin, begin + ring.points)).fetchone()
    return sort_samples([_sample_from_row(*row) for row in json.loads(found)])


def sort_samples(samples: Collection[Sample]) -> list[Sample]:
    """Sort samples, oldest first. Of two with the same time, after the clock was set back, keep the later one."""
    return sorted({each.at: each for each in samples}.values(), key=attrgetter("at"))


def _sample_from_row(
    at: int,
    seconds: int,
    cpu: int,
    memory: int,
    net_in: int,
    net_out: int,
    disk_read: int,
    disk_written: int,
    throttled: int,
    disk_wait: int,
    gpus: str,
) -> Sample:
    return Sample(
        at=at / 1000,
        seconds=seconds / 1000,
        cpu=cpu / 100,
        memory=float(memory),
        net_in=float(net_in),
        net_out=float(net_out),
        disk_read=float(disk_read),
        disk_written=float(disk_written),
        throttled=throttled / 100,
        disk_wait=disk_wait / 100,
        gpus=_unpack_gpus(gpus) if gpus else (),
    )


def _pack_gpus(gpus: Collection[GpuSample]) -> bytes:
    packed = (
        _GPU_STRUCT.pack(gpu.index, min(_MAX_HALF, gpu.percent), min(_MAX_HALF, gpu.memory / _GPU_MEMORY_UNIT))
        for gpu in gpus
        if 0 <= gpu.index <= _MAX_GPU_INDEX
    )
    return b"".join(packed)


def _unpack_gpus(text: str) -> tuple[GpuSample, ...]:
    return tuple(
        GpuSample(index=index, percent=percent, memory=memory * _GPU_MEMORY_UNIT)
        for index, percent, memory in _GPU_STRUCT.iter_unpack(bytes.fromhex(text))
    )


# --- the state of a task


def dump_state(state: TaskMetricsState) -> str:
    return _ENCODER.encode(
        {"counts": state.counts, "reading": _dump_fields(state.reading), "summary": _dump_fields(state.summary)}
    )


def load_state(text: str) -> TaskMetricsState:
    data = json.loads(text)
    reading, summary = data["reading"], data["summary"]
    steps = {name: tuple(summary[name]) for name in ("cpu_steps", "gpu_steps") if name in summary}
    state = TaskMetricsState(
        counts=tuple(data["counts"]),
        reading=_load_fields(Reading, reading, gpus=_load_gpus(GpuReading, reading)),
        summary=_load_fields(TaskSummary, summary, gpus=_load_gpus(GpuSummary, summary), **steps),
    )
    add_to_summary(
        state.summary, state.reading, state.reading, None
    )  # TypeError here, rather than later, if data are damaged
    return state


_FIELD_DEFAULTS: dict[type, dict[str, object]] = {
    kind: {field.name: field.default for field in fields(kind)}
    for kind in (Reading, TaskSummary, GpuReading, GpuSummary)
}
_ENCODER = json.JSONEncoder(separators=(",", ":"), check_circular=False)
_FIELD_GETTERS = {kind: attrgetter(*defaults) for kind, defaults in _FIELD_DEFAULTS.items()}


def _dump_fields(value: Reading | TaskSummary | GpuReading | GpuSummary) -> dict[str, Any]:
    """Return the fields that differ from their defaults."""
    defaults, values = _FIELD_DEFAULTS[type(value)], _FIELD_GETTERS[type(value)](value)
    found = {name: each for (name, default), each in zip(defaults.items(), values, strict=True) if each != default}
    if "gpus" in found:
        found["gpus"] = [_dump_fields(gpu) for gpu in found["gpus"]]
    return found


def _load_fields(kind: type[T], data: Mapping[str, Any], **more: object) -> T:
    """Load the known fields; other versions may have more."""
    return kind(**{**{name: data[name] for name in _FIELD_DEFAULTS[kind] if name in data}, **more})


def _load_gpus(kind: type[T], data: Mapping[str, Any]) -> tuple[T, ...]:
    return tuple(_load_fields(kind, gpu) for gpu in data.get("gpus", ()))

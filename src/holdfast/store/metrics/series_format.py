"""How the figures of one task lie in a file: two copies of a head, then four rings of records.

Each copy of the head and each record carries a checksum, so that one which was torn, or never written, is told apart
and left out. The head is written first, the copies in turn: a process that dies in between loses the newest record,
never what was there. Numbers are little-endian; None is NaN. Records are short, for there are many: times count in
tenths of a second from the file's origin, GPUs' memory is a short float of 16 MiB.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

from holdfast.core.metrics.samples import RINGS, GpuReading, GpuSample, GpuSummary, Reading, Sample, TaskSummary

MAGIC = b"HFfigure"
VERSION = 2
MAX_GPUS = 64

_HEAD = struct.Struct("<8sHHId" + "I" * len(RINGS))  # magic, version, GPUs, generation, origin, counts
_CHECK = struct.Struct("<I")
_RECORD = struct.Struct("<iHffffffee")
_GPU = struct.Struct("<ee")
_TENTHS = 10.0
_GPU_MEMORY = 16.0 * 2**20
_SHORT_MOST = 65504.0  # the largest short float

_READING = tuple(field.name for field in fields(Reading) if field.name != "gpus")
_SUMMARY = tuple(field.name for field in fields(TaskSummary) if field.name not in ("gpus", "cpu_steps", "gpu_steps"))
_STEPS = len(TaskSummary().cpu_steps), len(TaskSummary().gpu_steps)
_FLAGS = ("ended", "gpu_opened")
_WHOLE = (
    *("memory", "memory_peak", "memory_limit", "swap", "swap_peak", "net_in", "net_out", "disk_read", "disk_written"),
    *("processes", "processes_peak"),
)
_PLAIN = len(_READING) + len(_SUMMARY) + sum(_STEPS)
_PER_GPU = 4 + 6  # numbers of a reading, of a summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    gpus: int  # that each record has room for
    generation: int = 0
    origin: float  # seconds since 1970 that times of records count from
    counts: tuple[int, ...] = (0,) * len(RINGS)  # records ever written to each ring
    reading: Reading
    summary: TaskSummary


def head_size(gpus: int) -> int:
    return _HEAD.size + 8 * (_PLAIN + _PER_GPU * gpus) + _CHECK.size


def record_size(gpus: int) -> int:
    return _RECORD.size + _GPU.size * gpus + _CHECK.size


def head_place(head: Head) -> int:
    return (head.generation % 2) * head_size(head.gpus)


def ring_place(gpus: int, ring: int) -> int:
    before = sum(each.points for each in RINGS[:ring])
    return 2 * head_size(gpus) + before * record_size(gpus)


def record_place(gpus: int, ring: int, count: int) -> int:
    return ring_place(gpus, ring) + (count % RINGS[ring].points) * record_size(gpus)


# --- the head


def pack_head(head: Head) -> bytes:
    begin = _HEAD.pack(MAGIC, VERSION, head.gpus, head.generation, head.origin, *head.counts)
    numbers = [_number(getattr(head.reading, name)) for name in _READING]
    numbers += [_number(getattr(head.summary, name)) for name in _SUMMARY]
    numbers += [*head.summary.cpu_steps, *head.summary.gpu_steps]
    read = [(gpu.index, gpu.percent, gpu.memory, gpu.memory_total) for gpu in head.reading.gpus]
    summed = [
        (gpu.index, gpu.seconds, gpu.percent, gpu.percent_peak, gpu.memory_peak, gpu.memory_total)
        for gpu in head.summary.gpus
    ]
    numbers += _filled(read, 4, head.gpus) + _filled(summed, 6, head.gpus)
    return _checked(begin + struct.pack(f"<{len(numbers)}d", *numbers))


def unpack_head(data: bytes) -> Head | None:
    """The newer of two copies; None: this is no such file."""
    if len(data) < _HEAD.size:
        return None
    found = []
    for gpus in _told_gpus(data):
        size = head_size(gpus)
        copies = (_unpack_copy(data[start : start + size]) for start in (0, size))
        found += [copy for copy in copies if copy is not None and copy.gpus == gpus]
        if found:
            break
    return max(found, key=lambda head: head.generation) if found else None


def _told_gpus(data: bytes) -> Sequence[int]:
    """What the first copy says; where that one is torn, whatever may be."""
    magic, version, gpus, *_ = _HEAD.unpack_from(data)
    known = magic == MAGIC and version == VERSION and gpus <= MAX_GPUS
    return [gpus, *range(MAX_GPUS + 1)] if known else range(MAX_GPUS + 1)


def _unpack_copy(data: bytes) -> Head | None:
    if len(data) < _HEAD.size + _CHECK.size or not _sound(data):
        return None
    magic, version, gpus, generation, origin, *counts = _HEAD.unpack_from(data)
    if magic != MAGIC or version != VERSION or len(data) != head_size(gpus):
        return None
    numbers = struct.unpack_from(f"<{_PLAIN + _PER_GPU * gpus}d", data, _HEAD.size)
    plain, summed = numbers[len(_READING) :], numbers[_PLAIN + 4 * gpus :]
    steps = numbers[len(_READING) + len(_SUMMARY) : _PLAIN]
    reading = Reading(
        **_named(_READING, numbers),
        gpus=tuple(
            GpuReading(index=int(index), percent=percent, memory=int(memory), memory_total=int(total))
            for index, percent, memory, total in _rows(numbers[_PLAIN:], 4, gpus)
        ),
    )
    summary = TaskSummary(
        **_named(_SUMMARY, plain),
        gpus=tuple(
            GpuSummary(
                index=int(index),
                seconds=seconds,
                percent=percent,
                percent_peak=peak,
                memory_peak=int(memory),
                memory_total=int(total),
            )
            for index, seconds, percent, peak, memory, total in _rows(summed, 6, gpus)
        ),
        cpu_steps=tuple(steps[: _STEPS[0]]),
        gpu_steps=tuple(steps[_STEPS[0] :]),
    )
    return Head(
        gpus=gpus,
        generation=generation,
        origin=origin,
        counts=tuple(counts),
        reading=reading,
        summary=summary,
    )


def _number(value: float | bool | None) -> float:
    return math.nan if value is None else float(value)


def _named(names: Sequence[str], numbers: Sequence[float]) -> dict[str, Any]:
    return {name: _value(name, number) for name, number in zip(names, numbers, strict=False)}


def _value(name: str, number: float) -> float | bool | None:
    if math.isnan(number):
        return None
    if name in _FLAGS:
        return bool(number)
    return int(number) if name in _WHOLE else number


def _filled(rows: Sequence[tuple[float, ...]], width: int, count: int) -> list[float]:
    kept = [number for row in rows[:count] for number in row]
    return kept + [math.nan] * (width * count - len(kept))


def _rows(numbers: Sequence[float], width: int, count: int) -> list[Sequence[float]]:
    rows = [numbers[at : at + width] for at in range(0, width * count, width)]
    return [row for row in rows if not math.isnan(row[0])]


# --- records


def pack_record(sample: Sample, head: Head) -> bytes | None:
    """None where its time cannot be told: the clock jumped by years."""
    tenths = round((sample.at - head.origin) * _TENTHS)
    if not -(2**31) <= tenths < 2**31:
        return None
    figures = _RECORD.pack(
        tenths,
        min(65535, round(sample.seconds * _TENTHS)),
        sample.cpu,
        sample.memory,
        sample.net_in,
        sample.net_out,
        sample.disk_read,
        sample.disk_written,
        min(_SHORT_MOST, sample.throttled),
        min(_SHORT_MOST, sample.disk_wait),
    )
    by_index = {gpu.index: gpu for gpu in sample.gpus}
    gpus = b"".join(_pack_gpu(by_index.get(index)) for index in gpu_order(head))
    return _checked(figures + gpus.ljust(_GPU.size * head.gpus, b"\xff"))


def _pack_gpu(gpu: GpuSample | None) -> bytes:
    if gpu is None:
        return b"\xff" * _GPU.size
    return _GPU.pack(min(_SHORT_MOST, gpu.percent), min(_SHORT_MOST, gpu.memory / _GPU_MEMORY))


def gpu_order(head: Head) -> tuple[int, ...]:
    """Which GPUs the places in a record are for."""
    return tuple(gpu.index for gpu in head.summary.gpus[: head.gpus])


def unpack_records(data: bytes, head: Head) -> list[Sample]:
    """Those that are whole, in the order they lie in."""
    layout, order = _layout(head.gpus), gpu_order(head)
    view = memoryview(data)[: len(data) // layout.size * layout.size]
    checked = layout.size - _CHECK.size
    starts = range(0, len(view), layout.size)
    return [
        _sample(fields, head.origin, order)
        for start, fields in zip(starts, layout.iter_unpack(view), strict=True)
        if fields[-1] == zlib.crc32(view[start : start + checked])
    ]


@cache
def _layout(gpus: int) -> struct.Struct:
    """Of a whole record, with its checksum."""
    return struct.Struct(f"{_RECORD.format}{'ee' * gpus}I")


def _sample(fields: tuple[Any, ...], origin: float, order: tuple[int, ...]) -> Sample:
    tenths, seconds, cpu, memory, net_in, net_out, read, written, throttled, wait, *gpus = fields
    return Sample(
        at=origin + tenths / _TENTHS,
        seconds=seconds / _TENTHS,
        cpu=cpu,
        memory=memory,
        net_in=net_in,
        net_out=net_out,
        disk_read=read,
        disk_written=written,
        throttled=throttled,
        disk_wait=wait,
        gpus=tuple(
            GpuSample(index=index, percent=percent, memory=size * _GPU_MEMORY)
            for index, percent, size in zip(order, gpus[0::2], gpus[1::2], strict=False)
            if not math.isnan(percent)  # it could be read then
        ),
    )


# --- checksums


def _checked(data: bytes) -> bytes:
    return data + _CHECK.pack(zlib.crc32(data))


def _sound(data: bytes) -> bool:
    (check,) = _CHECK.unpack_from(data, len(data) - _CHECK.size)
    return bool(check == zlib.crc32(memoryview(data)[: -_CHECK.size]))


def next_head(head: Head, **changes: Any) -> Head:
    return replace(head, generation=head.generation + 1, **changes)

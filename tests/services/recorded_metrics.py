"""Invented metrics of tasks, recorded as measured ones are."""

from __future__ import annotations

from holdfast.core.metrics.samples import GpuReading, Reading
from holdfast.store.metrics.database import Measurement, MetricsDatabase

MIB = 2**20
GIB = 2**30
START = 1_772_366_400.0  # seconds since 1970; on the border of an interval of every ring


async def record_steady(
    database: MetricsDatabase,
    attempt_id: str,
    *,
    cpu: float = 100.0,
    memory: int = 100 * MIB,
    gpus: tuple[float, ...] = (),
    seconds: float = 600,
    start: float = START,
) -> None:
    """A task that keeps so many percent of a core busy all the time, and so much memory."""

    def reading(at: float) -> Reading:
        used = tuple(
            GpuReading(index=index, percent=percent, memory=(index + 1) * GIB, memory_total=8 * GIB)
            for index, percent in enumerate(gpus)
        )
        return Reading(
            at=at,
            cpu=cpu / 100 * at,
            memory=memory,
            memory_limit=GIB,
            net_in=int(1000 * at),
            net_out=int(500 * at),
            disk_read=int(4096 * at),
            disk_written=0,
            processes=3,
            gpus=used,
        )

    times = [10.0 * n for n in range(1, int(seconds // 10) + 1)]
    measurements = [Measurement(attempt_id=attempt_id, reading=reading(at), at=start + at, age=at) for at in times]
    await database.run_in_thread(database.record_measurements, measurements)

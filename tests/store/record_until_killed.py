"""Record metrics of a task until killed. Arguments: the folder, which reading to go on from."""

from __future__ import annotations

import sys
from pathlib import Path

from holdfast.core.metrics.samples import Reading
from holdfast.store.metrics.database import Measurement, MetricsDatabase

TASK = "job.0.worker-0.0"
START = 1_700_000_000.0


def main(folder: str, first: str) -> None:
    database, number = MetricsDatabase(Path(folder)), int(first)
    while True:
        at = 10.0 * number
        reading = Reading(at=at, cpu=at, memory=number)
        database.record_measurements([Measurement(attempt_id=TASK, reading=reading, at=START + at, age=at)])
        number += 1
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])

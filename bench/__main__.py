"""Runs the measurements one after the other, prints one table, writes build/bench.json."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import time
import traceback

from .harness import BUILD, Options, print_progress
from .rows import Row, render_table, write_json

# Light measurements first: a heavy one still affects the next.
MEASUREMENTS = (
    "idle",
    "start",
    "submit",
    "throughput",
    "docker",
    "slurm",
    "logs",
    "scale",
    "portal",
    "metrics",
    "sampling",
    "why",
    "schedules",
    "pull",
    "inside",
    "ssh",
    "crash",
    "first_job",
)
SKIPPED_BY_QUICK = ("first_job",)


def main() -> int:
    options, names = _parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers and jobs are stopped
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # servers start as for a user
    started = time.monotonic()
    rows = [row for name in names for row in run_measurement(name, options)]
    if options.quick:
        rows = [Row(f"{row.name} (quick)", row.value, row.unit, row.bar, row.note, row.failed) for row in rows]
    print(render_table(rows))
    print(f"\n{_format_summary(rows)} Took {time.monotonic() - started:.0f} s; the results are in build/bench.json.")
    if options.quick:
        print("Quick sizes: good for a first look, not for judging a bar.")
    write_json(rows, BUILD / "bench.json")
    return 1 if any(row.failed for row in rows) else 0


def run_measurement(name: str, options: Options) -> list[Row]:
    """Return the rows of a measurement. A failed measurement is a row too, and the others still run."""
    started = time.monotonic()
    try:
        module = importlib.import_module(f"bench.measure_{name}")
        return list(module.measure(options))
    except Exception as error:
        traceback.print_exc()
        text = str(error).strip().splitlines() or [""]
        return [Row(name, None, "", None, f"could not be measured: {type(error).__name__}: {text[0][:200]}", True)]
    finally:
        print_progress(f"{name}: {time.monotonic() - started:.0f} s")


def _format_summary(rows: list[Row]) -> str:
    rows_with_bar = [row for row in rows if row.meets_bar is not None]
    return f"{sum(bool(row.meets_bar) for row in rows_with_bar)} of {len(rows_with_bar)} bars hold."


def _parse_arguments() -> tuple[Options, list[str]]:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", metavar="NAME,...", help=f"some of: {', '.join(MEASUREMENTS)}")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, within about a minute")
    parser.add_argument("--keep", action="store_true", help="leave the state folders below build/bench-*")
    arguments = parser.parse_args()
    names = (
        arguments.only.split(",")
        if arguments.only
        else [m for m in MEASUREMENTS if not (arguments.quick and m in SKIPPED_BY_QUICK)]
    )
    unknown = [name for name in names if name not in MEASUREMENTS]
    if unknown:
        parser.error(f"no measurement {', '.join(unknown)}; there are {', '.join(MEASUREMENTS)}")
    return Options(quick=arguments.quick, keep=arguments.keep), names


if __name__ == "__main__":
    sys.exit(main())

"""Runs the measurements one after the other, prints one table, writes build/bench.json."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import time
import traceback

from .harness import BUILD, Options, say
from .rows import Row, render_table, write_json

# Quiet ones first: what follows a heavy one would measure its dust.
MEASUREMENTS = (
    "idle",
    "start",
    "submit",
    "throughput",
    "logs",
    "scale",
    "portal",
    "metrics",
    "sampling",
    "why",
    "schedules",
    "inside",
    "ssh",
    "crash",
    "first_job",
)
NOT_QUICK = ("first_job",)


def main() -> int:
    options, names = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is stopped
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # servers start as they would for a user
    began = time.monotonic()
    rows = [row for name in names for row in run(name, options)]
    if options.quick:
        rows = [Row(f"{row.name} (quick)", row.value, row.unit, row.bar, row.note, row.failed) for row in rows]
    print(render_table(rows))
    print(f"\n{_summary(rows)} Took {time.monotonic() - began:.0f} s; the results are in build/bench.json.")
    if options.quick:
        print("Quick sizes: good for a first look, not for judging a bar.")
    write_json(rows, BUILD / "bench.json")
    return 1 if any(row.failed for row in rows) else 0


def run(name: str, options: Options) -> list[Row]:
    """A measurement that breaks is a row too, and does not keep the others from running."""
    began = time.monotonic()
    try:
        module = importlib.import_module(f"bench.measure_{name}")
        return list(module.measure(options))
    except Exception as error:
        traceback.print_exc()
        text = str(error).strip().splitlines() or [""]
        return [Row(name, None, "", None, f"could not be measured: {type(error).__name__}: {text[0][:200]}", True)]
    finally:
        say(f"{name}: {time.monotonic() - began:.0f} s")


def _summary(rows: list[Row]) -> str:
    judged = [row for row in rows if row.holds is not None]
    return f"{sum(bool(row.holds) for row in judged)} of {len(judged)} bars hold."


def _arguments() -> tuple[Options, list[str]]:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", metavar="NAME,...", help=f"some of: {', '.join(MEASUREMENTS)}")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, within about a minute")
    parser.add_argument("--keep", action="store_true", help="leave the state folders below build/bench-*")
    given = parser.parse_args()
    names = given.only.split(",") if given.only else [m for m in MEASUREMENTS if not (given.quick and m in NOT_QUICK)]
    unknown = [name for name in names if name not in MEASUREMENTS]
    if unknown:
        parser.error(f"no measurement {', '.join(unknown)}; there are {', '.join(MEASUREMENTS)}")
    return Options(quick=given.quick, keep=given.keep), names


if __name__ == "__main__":
    sys.exit(main())

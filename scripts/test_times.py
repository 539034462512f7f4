"""Says where the time of a test run went: seconds per folder, and the slowest files.

Reads the JUnit file that `make test` leaves in build/. With --keep the seconds of files are written to
tests/file_seconds.json, by which the next runs begin with what takes longest.
"""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "tests" / "file_seconds.json"
SLOWEST = 10
MIN_KEPT = 1.0  # seconds


def read_seconds(report: Path) -> Counter[str]:
    """Of each file."""
    seconds: Counter[str] = Counter()
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - our own file
        if case.get("classname"):  # what stopped the run has none
            seconds[file_of(case.get("classname", ""))] += float(case.get("time", 0))
    return seconds


def file_of(dotted: str) -> str:
    """tests.core.test_plan.TestHolds -> tests/core/test_plan.py"""
    words = dotted.split(".")
    last = next((i for i, word in enumerate(words) if word.startswith("test_")), len(words) - 1)
    return "/".join(words[: last + 1]) + ".py"


def folder_of(file: str) -> str:
    parts = file.split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def show(seconds: Counter[str]) -> None:
    folders: Counter[str] = Counter()
    for file, spent in seconds.items():
        folders[folder_of(file)] += spent
    print(f"\nSeconds of tests, {sum(seconds.values()):.0f} in all, several at a time:")
    for folder, spent in folders.most_common():
        print(f"  {spent:7.1f}  {folder}")
    print("The slowest files:")
    for file, spent in seconds.most_common(SLOWEST):
        print(f"  {spent:7.1f}  {file}")


def keep(seconds: Counter[str]) -> None:
    rows = {file: round(spent) for file, spent in sorted(seconds.items()) if spent >= MIN_KEPT}
    KEPT.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    found = read_seconds(Path(sys.argv[1]))
    show(found)
    if "--keep" in sys.argv:
        keep(found)

"""Prints the duration of a test run: seconds per folder, and the slowest files.

Reads the JUnit files that `make test` and `make test-all` write to build/; of a file in both, the longer duration
counts. With --keep, saves the seconds of each file in tests/file_seconds.json, so that later runs start the slowest
files first.
"""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECONDS_FILE = ROOT / "tests" / "file_seconds.json"
SLOWEST_COUNT = 10
MIN_SAVED_SECONDS = 1.0


def read_file_seconds(report: Path) -> Counter[str]:
    """Return the seconds of each test file."""
    seconds: Counter[str] = Counter()
    for test_case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - our own file
        if test_case.get("classname"):  # an error that stopped the run has none
            seconds[get_test_file(test_case.get("classname", ""))] += float(test_case.get("time", 0))
    return seconds


def get_test_file(dotted: str) -> str:
    """Convert tests.core.test_plan.TestHolds to tests/core/test_plan.py."""
    names = dotted.split(".")
    last = next((i for i, name in enumerate(names) if name.startswith("test_")), len(names) - 1)
    return "/".join(names[: last + 1]) + ".py"


def get_test_folder(file: str) -> str:
    names = file.split("/")
    return "/".join(names[:2]) if len(names) > 2 else names[0]


def print_seconds(seconds: Counter[str]) -> None:
    folders: Counter[str] = Counter()
    for file, file_seconds in seconds.items():
        folders[get_test_folder(file)] += file_seconds
    print(f"\nSeconds of tests, {sum(seconds.values()):.0f} in all, several at a time:")
    for folder, folder_seconds in folders.most_common():
        print(f"  {folder_seconds:7.1f}  {folder}")
    print("The slowest files:")
    for file, file_seconds in seconds.most_common(SLOWEST_COUNT):
        print(f"  {file_seconds:7.1f}  {file}")


def save_seconds(seconds: Counter[str]) -> None:
    rows = {
        file: round(file_seconds) for file, file_seconds in sorted(seconds.items()) if file_seconds >= MIN_SAVED_SECONDS
    }
    SECONDS_FILE.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    seconds_by_file: Counter[str] = Counter()
    for name in sys.argv[1:]:
        if not name.startswith("--"):
            seconds_by_file |= read_file_seconds(Path(name))  # the larger of the two
    print_seconds(seconds_by_file)
    if "--keep" in sys.argv:
        save_seconds(seconds_by_file)

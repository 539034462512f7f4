"""Which tests stay together on one process of a parallel run, and which of them begin first.

A file stays together, for its fixtures (a server, a database) are made once. So do folders whose files share what is
expensive: no more than one process then starts it, and two browsers never compete for two cores. What takes longest
begins first, or the run would end with one process that works and others that wait. The seconds are those of an earlier
run; `scripts/test_times.py --keep` writes them.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

TOGETHER = ("tests/portal", "tests/openpai", "tests/primehub")  # one server and one browser or client for each
APART = (  # tests that share nothing
    "tests/controller/test_random_faults.py",
    "tests/e2e/test_crash.py",
    "tests/engines/test_ordinary_user.py",
)
BY_CLASS = (  # each class has a cluster of its own, and waits for it
    "tests/contracts/test_engine_slurm.py",
    "tests/contracts/test_engine_slurm_users.py",
)
# Their clusters have nodes and jobs of the same names, so at the same time they would share the cgroups of these.
WITH_CGROUPS = ("TestSlurmWithCgroups", "TestIsolatedWithCgroups", "TestSlurmAsUserWithoutIsolation")
SECONDS = Path(__file__).with_name("file_seconds.json")


def scope_of(test: str) -> str:
    """What a test stays together with."""
    file = test.partition("::")[0]
    if file in APART:
        return test
    if file in BY_CLASS:
        name = test.split("::")[1]
        return f"{BY_CLASS[0]}::cgroups" if name in WITH_CGROUPS else f"{file}::{name}"
    return next((folder for folder in TOGETHER if file.startswith(f"{folder}/")), file)


@cache
def _seconds_of_files() -> dict[str, float]:
    return dict(json.loads(SECONDS.read_text()))


@cache
def seconds_of(scope: str) -> float:
    known = _seconds_of_files()
    file = scope.partition("::")[0]
    return known.get(file, 0.0) + sum(seconds for name, seconds in known.items() if name.startswith(f"{scope}/"))


class Scheduling(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

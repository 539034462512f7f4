"""For all tests."""

from __future__ import annotations

import gc
import os
import signal
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import compiled_sql, shared_scan
from tests.scheduling import Scheduling, scope_of, seconds_of

# Before they are imported: shared tests show the values of a failed assertion, too.
pytest.register_assert_rewrite("tests.contracts", "tests.e2e", "tests.engines")

# Started in the background by a shell without job control, Ctrl-C is ignored by us and, unless we change that, by every
# program that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

compiled_sql.share()
shared_scan.share()

# How long an example takes says something about the machine, and nothing about what is tested.
settings.register_profile("holdfast", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("holdfast")


HOUSES = {"house", "rig", "desk", "hub", "pai", "web"}  # fixtures that take a tenth of a second for each parameter
PARAMETERS_WITH_HOUSE = 4


def _leave_to_release(items: list[pytest.Item]) -> None:
    """Mark the parameters of a test that `make test` does without: it says so, or each of them has a house built."""
    seen: Counter[str] = Counter()
    for item in items:
        if isinstance(item, pytest.Function) and (most := _parameters_to_run(item)):
            test = item.nodeid.partition("[")[0]
            seen[test] += 1
            if seen[test] > most:
                item.add_marker(pytest.mark.release)


def _parameters_to_run(item: pytest.Function) -> int | None:
    if mark := item.get_closest_marker("release_after"):
        return int(mark.args[0])
    return PARAMETERS_WITH_HOUSE if HOUSES.intersection(item.fixturenames) else None


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    _leave_to_release(items)
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: -seconds_of(scope_of(item.nodeid)))


def pytest_collection_finish() -> None:
    gc.collect()
    gc.set_threshold(50_000, 50, 100)  # tests make many objects, few of them in cycles
    gc.freeze()  # ten thousand tests stay: nothing is gained by looking through them again and again


def pytest_sessionfinish() -> None:
    gc.collect()
    gc.freeze()  # or pytest would look through all of them five times more


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling | None:
    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None

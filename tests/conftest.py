"""For all tests."""

from __future__ import annotations

import gc
import os
import signal
from collections import Counter
from typing import Any

import pytest

from tests.scheduling import Scheduling, scope_of, seconds_of

# Started in the background by a shell without job control, Ctrl-C is ignored by us and, unless we change that, by every
# program that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave_to_release(items: list[pytest.Item]) -> None:
    """Mark the parameters of a test that `make test` does without."""
    seen: Counter[str] = Counter()
    for item in items:
        if mark := item.get_closest_marker("release_after"):
            test = item.nodeid.partition("[")[0]
            seen[test] += 1
            if seen[test] > mark.args[0]:
                item.add_marker(pytest.mark.release)


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    _leave_to_release(items)
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: -seconds_of(scope_of(item.nodeid)))


def pytest_collection_finish() -> None:
    gc.collect()
    gc.set_threshold(50_000, 50, 100)  # tests make many objects, few of them in cycles
    gc.freeze()  # ten thousand tests stay: nothing is gained by looking through them again and again


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling | None:
    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None

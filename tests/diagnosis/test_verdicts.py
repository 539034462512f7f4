"""Jobs that are truly run, on one server, and why they failed; or that nothing is said of those that did not."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.verdicts import Confidence, Fault

from .cases import BROKEN, HEALTHY, Case
from .ward import Ward

pytestmark = pytest.mark.timeout(900)  # the first test waits for all jobs

LEAST = {Confidence.POSSIBLE: 0, Confidence.LIKELY: 1, Confidence.CERTAIN: 2}
LOST = [case for case in BROKEN if case.expected and case.expected.action == "lose"]
FAILING = [case for case in BROKEN if case not in LOST]
OF_LIMITS = [case for case in BROKEN if case.expected and case.expected.limits]


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ward]:
    ward = Ward(tmp_path_factory.mktemp("ward"))
    ward.start()
    try:
        ward.run([*FAILING, *HEALTHY])
        yield ward
    finally:
        ward.server.stop()


@pytest.fixture(scope="module")
def without_groups(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ward]:
    if os.getuid() != 0:
        pytest.skip("only root can take the control groups away from a server")
    ward = Ward(tmp_path_factory.mktemp("without-groups"))
    with pytest.MonkeyPatch.context() as patch:
        ward.start_without_control_groups(patch)
    try:
        assert ward.engine()["limits"] == "watched"
        ward.run(OF_LIMITS)
        yield ward
    finally:
        ward.server.stop()


@pytest.mark.parametrize("case", FAILING, ids=lambda case: case.name)
def test_a_broken_job(ward: Ward, case: Case) -> None:
    assert_failed(ward, case)
    check(ward, case)


@pytest.mark.parametrize("case", LOST, ids=lambda case: case.name)
def test_a_job_whose_machine_goes_down(tmp_path: Path, case: Case) -> None:
    ward = Ward(tmp_path)
    ward.start()
    try:
        ward.lose(case)
        check(ward, case)
        ward.stop(case)
    finally:
        ward.server.stop()


@pytest.mark.parametrize("case", HEALTHY, ids=lambda case: case.name)
def test_a_healthy_job(ward: Ward, case: Case) -> None:
    assert ward.state(case) == "Succeeded", ward.account(case)
    why = ward.why(case)
    assert why["failure"] is None, ward.account(case)
    assert not why["slow"]


@pytest.mark.parametrize("case", OF_LIMITS, ids=lambda case: case.name)
@pytest.mark.parametrize("version", ["cgroup v1", "cgroup v2"])
def test_where_the_kernel_limits_memory(ward: Ward, version: str, case: Case) -> None:
    if ward.engine()["limits"] != version:
        pytest.skip(f"memory is limited by {ward.engine()['limits']} on this machine")
    assert_failed(ward, case)
    check(ward, case)


@pytest.mark.parametrize("case", OF_LIMITS, ids=lambda case: case.name)
def test_where_memory_is_watched(without_groups: Ward, case: Case) -> None:
    assert_failed(without_groups, case)
    check(without_groups, case)


def test_every_fault_is_among_the_broken_jobs() -> None:
    expected = {fault for case in BROKEN if case.expected for fault in case.expected.faults}
    assert expected == set(Fault)


def assert_failed(ward: Ward, case: Case) -> None:
    if missing := ward.lacks(case):
        pytest.skip(f"needs {missing}")
    assert ward.state(case) == "Failed", ward.account(case)


def check(ward: Ward, case: Case) -> None:
    """The verdict is the expected one, in every respect that is named."""
    expected = case.expected
    assert expected is not None
    failure = ward.why(case)["failure"]
    said = f"\n{failure}\n{ward.account(case)}"
    assert failure is not None, said
    assert failure["fault"] in expected.faults, said
    if failure["fault"] != Fault.UNKNOWN:
        assert LEAST[Confidence(failure["confidence"])] >= LEAST[expected.confidence], said
    everything = [failure["title"], failure["explanation"], *failure["remedies"], *texts_of(failure)]
    assert_found(expected.title, failure["title"], said)
    assert_found(expected.says, "\n".join(everything), said)
    assert_found(expected.remedy, "\n".join(failure["remedies"]), said)
    assert expected.frame in (None, where(failure["frame"])), said
    assert expected.task in (None, failure["task"]), said
    assert expected.attempt in (None, failure["attempt"]), said
    assert expected.followers is None or sorted(failure["followers"]) == expected.followers, said


def texts_of(failure: dict[str, Any]) -> list[str]:
    return [evidence["text"] for evidence in failure["evidence"]]


def where(frame: dict[str, Any] | None) -> str | None:
    return f"{frame['file'].rpartition('/')[2]}:{frame['line']}" if frame else None


def assert_found(patterns: tuple[str, ...], text: str, said: str) -> None:
    for pattern in patterns:
        assert re.search(pattern, text), f"nothing like {pattern!r} in {text!r}{said}"

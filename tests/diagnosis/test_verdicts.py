"""Jobs that are truly run, on one server, and why they failed; or that nothing is said of those that did not."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.verdicts import Confidence, Fault

from .cases import BROKEN, HEALTHY, Case, Expected
from .job_runner import Ward

pytestmark = pytest.mark.timeout(900)  # the first test waits for all jobs

MIN_COUNT: dict[str, int] = {Confidence.POSSIBLE: 0, Confidence.LIKELY: 1, Confidence.CERTAIN: 2}
LOST = [case for case in BROKEN if case.expected and case.expected.action == "lose"]
HELD = [case for case in BROKEN if case.expected and case.expected.action == "hold"]
FAILING = [case for case in BROKEN if case not in [*LOST, *HELD]]
OF_LIMITS = [case for case in BROKEN if case.expected and case.expected.limits]

# Neighbours in the list are of a kind: of every four `make test` runs one.
SOME_FAILING = [
    pytest.param(case, id=case.name, marks=pytest.mark.release if place % 4 else ())
    for place, case in enumerate(FAILING)
]


def chosen(request: pytest.FixtureRequest, cases: list[Case]) -> list[Case]:
    """Those that the tests of this run look at."""
    names = {
        item.callspec.params["case"].name
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == request.path and "case" in item.fixturenames
    }
    return [case for case in cases if case.name in names]


@pytest.fixture(scope="module")
def ward(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ward]:
    ward = Ward(tmp_path_factory.mktemp("ward"))
    ward.start()
    try:
        ward.run(chosen(request, [*FAILING, *HEALTHY]))
        yield ward
    finally:
        ward.server.stop()


@pytest.fixture(scope="module")
def without_groups(
    request: pytest.FixtureRequest, ward: Ward, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ward]:
    if ward.engine["limits"] == "watched":
        yield ward
        return
    if os.getuid() != 0:
        pytest.skip("only root can take the control groups away from a server")
    ward = Ward(tmp_path_factory.mktemp("without-groups"))
    ward.start_without_control_groups()
    try:
        assert ward.engine["limits"] == "watched"
        ward.run(chosen(request, OF_LIMITS))
        yield ward
    finally:
        ward.server.stop()


@pytest.mark.parametrize("case", SOME_FAILING)
def test_a_broken_job(ward: Ward, case: Case) -> None:
    assert_failed(ward, case)
    check(ward, case)


@pytest.mark.parametrize("case", SOME_FAILING)
def test_what_a_verdict_rests_on(ward: Ward, case: Case) -> None:
    """Lines of a log are where they are said to be; the title is one whole line; there is something to try."""
    if lacking := ward.lacks(case):
        pytest.skip(f"needs {lacking}")
    failure = ward.why(case)["failure"]
    title = failure["title"]
    assert re.fullmatch(r"\S.{,298}[^\s:]", title), title
    assert failure["evidence"], failure
    assert failure["remedies"], failure
    for line in failure["evidence"]:
        if line["kind"] == "log" and line["offset"] is not None:  # the end of stderr has no place in the whole log
            assert plain(line["text"])[:80] in plain(ward.log_at(case, failure, line)), line


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


@pytest.mark.parametrize("case", HELD, ids=lambda case: case.name)
def test_a_job_that_is_held(ward: Ward, case: Case) -> None:
    ward.hold(case)
    check(ward, case)
    ward.stop(case)


@pytest.mark.parametrize("case", HEALTHY, ids=lambda case: case.name)
def test_a_healthy_job(ward: Ward, case: Case) -> None:
    why = ward.why(case)
    assert why["state"] == "Succeeded", ward.account(case)
    assert why["failure"] is None, ward.account(case)
    assert not why["slow"]


@pytest.mark.release
@pytest.mark.parametrize("case", OF_LIMITS, ids=lambda case: case.name)
@pytest.mark.parametrize("version", ["cgroup v1", "cgroup v2"])
def test_where_the_kernel_limits_memory(ward: Ward, version: str, case: Case) -> None:
    if ward.engine["limits"] != version:
        pytest.skip(f"memory is limited by {ward.engine['limits']} on this machine")
    assert_failed(ward, case)
    check(ward, case)


@pytest.mark.release
@pytest.mark.parametrize("case", OF_LIMITS, ids=lambda case: case.name)
def test_where_memory_is_watched(without_groups: Ward, case: Case) -> None:
    assert_failed(without_groups, case)
    check(without_groups, case)
    failure = without_groups.why(case)["failure"]
    told = (failure["title"], failure["explanation"], failure["evidence"])
    assert "kernel" not in str(told)  # it did nothing of the kind


def test_every_fault_is_among_the_broken_jobs() -> None:
    expected = {fault for case in BROKEN if case.expected for fault in case.expected.faults}
    assert expected == set(Fault)


def assert_failed(ward: Ward, case: Case) -> None:
    if lacking := ward.lacks(case):
        pytest.skip(f"needs {lacking}")
    assert ward.why(case)["state"] == "Failed", ward.account(case)


def check(ward: Ward, case: Case) -> None:
    assert case.expected is not None
    failure = ward.why(case)["failure"]
    wrong = list(differences(case.expected, failure)) if failure else ["nothing is said of its failure"]
    assert not wrong, "\n".join([*wrong, str(failure), ward.account(case)])


def differences(expected: Expected, failure: dict[str, Any]) -> Iterator[str]:
    """From the expected verdict, in every respect that is named."""
    if failure["fault"] not in expected.faults:
        yield f"{failure['fault']} is not {expected.fault}"
    if failure["fault"] != Fault.UNKNOWN and MIN_COUNT[failure["confidence"]] < MIN_COUNT[expected.confidence]:
        yield f"{failure['confidence']} is less than {expected.confidence}"
    evidence = [each["text"] for each in failure["evidence"]]
    everything = [failure["title"], failure["explanation"], *failure["remedies"], *evidence]
    yield from missing(expected.title, failure["title"])
    yield from missing(expected.says, "\n".join(everything))
    yield from missing(expected.remedy, "\n".join(failure["remedies"]))
    for name, wanted, found in (
        ("frame", expected.frame, where(failure["frame"])),
        ("task", expected.task, failure["task"]),
        ("attempt", expected.attempt, failure["attempt"]),
        ("followers", expected.followers, sorted(failure["followers"])),
    ):
        if wanted not in (None, found):
            yield f"the {name} is {found}, not {wanted}"


def plain(text: str) -> str:
    """Without colours, and without how lines end."""
    return re.sub(r"\x1b\[[0-9;]*m|[\r\n]", "", text)


def missing(patterns: Iterable[str], text: str) -> Iterator[str]:
    for pattern in patterns:
        if not re.search(pattern, text):
            yield f"nothing like {pattern!r} in {text!r}"


def where(frame: dict[str, Any] | None) -> str | None:
    return f"{frame['file'].rpartition('/')[2]}:{frame['line']}" if frame else None

"""How the end of a task in Slurm is derived. Pure, and the notes in its folder."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast.core.attempt import ObservedState
from holdfast.core.exits.exit import Cause, ExitKind, build_time_limit_exit
from holdfast.core.planning.plan import plan_job
from holdfast.core.states import JobState
from holdfast.engines.slurm.slurm_folder import SlurmFolder, read_facts
from holdfast.engines.slurm.task_end import (
    Allocation,
    EndEvidence,
    EndKind,
    EndRecord,
    add_run,
    build_end_observation,
    decide_end,
    parse_end_record,
)
from tests.core.jobs import NOON, job
from tests.core.test_plan import POLICY, running

AT = datetime(2026, 1, 1, tzinfo=UTC)
RAN = Allocation(job=7, node="n1", at=AT, uptime=100.0)
STARTED = EndEvidence(allocation=RAN, code=None, state="RUNNING")
REPORTED = replace(STARTED, code=3)
UNREPORTED = replace(STARTED, is_final=True, overdue=True)


def final(evidence: EndEvidence, state: str, exit: tuple[int, int] = (0, 0)) -> EndEvidence:
    return replace(evidence, state=state, is_final=True, exit=exit)


@pytest.mark.parametrize(
    ("evidence", "kind", "code", "oom"),
    [
        (replace(REPORTED, code=0), EndKind.EXITED, 0, False),
        (final(REPORTED, "FAILED", (3, 0)), EndKind.EXITED, 3, False),
        (replace(REPORTED, state=""), EndKind.EXITED, 3, False),  # Slurm has forgotten it
        (replace(REPORTED, step_code=3), EndKind.EXITED, 3, False),  # the rest of its gang runs on
        (replace(final(REPORTED, "OUT_OF_MEMORY"), code=137, oom=True), EndKind.EXITED, 137, True),
        (replace(final(REPORTED, "OUT_OF_MEMORY"), code=0, oom=True), EndKind.EXITED, 0, False),
        (final(REPORTED, "TIMEOUT"), EndKind.TIME_LIMIT, 3, False),
        (final(REPORTED, "CANCELLED"), EndKind.CANCELLED, 3, False),
        (final(REPORTED, "PREEMPTED"), EndKind.PREEMPTED, 3, False),
        (final(REPORTED, "NODE_FAIL"), EndKind.EXITED, 3, False),  # it ended by itself before that
        (replace(final(REPORTED, "NODE_FAIL"), code=143), EndKind.NODE_FAILED, 143, False),
        (replace(final(REPORTED, "CANCELLED"), stop_code=143), EndKind.EXITED, 3, False),
        (replace(final(REPORTED, "CANCELLED"), code=143, stop_code=137), EndKind.EXITED, 137, False),
        (replace(final(REPORTED, "CANCELLED"), code=143, stop_code=143), EndKind.EXITED, 143, False),
        (final(UNREPORTED, "FAILED", (0, 9)), EndKind.EXITED, 137, False),
        (final(UNREPORTED, "FAILED", (44, 0)), EndKind.EXITED, 44, False),
        (final(UNREPORTED, "COMPLETED"), EndKind.LOST, 0, False),
        (final(UNREPORTED, "DEADLINE"), EndKind.DEADLINE, 0, False),
        (replace(final(UNREPORTED, "FAILED", (2, 0)), reused=True), EndKind.NUMBER_REUSED, 0, False),
        (replace(final(REPORTED, "CANCELLED"), reused=True), EndKind.EXITED, 3, False),
        (replace(final(REPORTED, "FAILED", (2, 0)), code=143, reused=True), EndKind.NUMBER_REUSED, 143, False),
        (replace(final(REPORTED, "FAILED", (143, 0)), code=143, reused=True), EndKind.EXITED, 143, False),
        (replace(final(REPORTED, "FAILED", (40, 0)), code=143), EndKind.NUMBER_REUSED, 143, False),
        (replace(final(REPORTED, "FAILED", (143, 0)), code=143), EndKind.EXITED, 143, False),
        (replace(final(REPORTED, "FAILED", (0, 9)), code=137), EndKind.EXITED, 137, False),
        (replace(final(REPORTED, "OUT_OF_MEMORY", (0, 125)), code=137, oom=True), EndKind.EXITED, 137, True),
        (final(UNREPORTED, "BOOT_FAIL"), EndKind.NODE_FAILED, 0, False),
        (replace(final(UNREPORTED, "NODE_FAIL"), silent=True), EndKind.NODE_FAILED, 0, False),
        (replace(final(UNREPORTED, "CANCELLED", (0, 15)), stop_code=137, overdue=False), EndKind.EXITED, 137, False),
        (replace(final(UNREPORTED, "OUT_OF_MEMORY", (0, 125)), oom=True), EndKind.EXITED, 137, True),
        (replace(STARTED, step_code=137, stop_code=143), EndKind.EXITED, 137, False),
        (replace(STARTED, state="", silent=True), EndKind.LOST, 0, False),
        (replace(STARTED, state="", code=137, is_recent=True), EndKind.LOST, 137, False),  # slurmctld forgot it
        (replace(STARTED, state="", code=143, is_recent=True), EndKind.LOST, 143, False),
        (replace(STARTED, state="", code=137), EndKind.EXITED, 137, False),  # it ended long ago
        (replace(STARTED, state="", code=3, is_recent=True), EndKind.EXITED, 3, False),
        (replace(STARTED, state="", code=143, stop_code=143, is_recent=True), EndKind.EXITED, 143, False),
        (replace(final(UNREPORTED, "FAILED", (127, 0)), allocation=None), EndKind.NOT_RUN, 127, False),
        (replace(final(UNREPORTED, "CANCELLED"), allocation=None), EndKind.CANCELLED, 0, False),
        (replace(final(UNREPORTED, "CANCELLED"), allocation=None, stop_code=143), EndKind.EXITED, 143, False),
        (replace(final(UNREPORTED, "CANCELLED"), allocation=None, stop_code=137), EndKind.EXITED, 137, False),
    ],
)
def test_the_report_comes_first_and_slurm_adds_why(evidence: EndEvidence, kind: EndKind, code: int, oom: bool) -> None:
    record = decide_end(evidence)
    assert record is not None
    assert (record.kind, record.code, record.oom) == (kind, code, oom)


@pytest.mark.parametrize(
    "evidence",
    [
        STARTED,
        REPORTED,  # Slurm does not know yet why
        replace(REPORTED, state="COMPLETING"),
        replace(STARTED, allocation=None, state="PENDING"),
        replace(STARTED, allocation=None, state=""),  # it may be started again
        replace(STARTED, state=""),  # its heartbeat goes on
        replace(final(STARTED, "FAILED"), overdue=False),  # its report may not be visible yet
        final(UNREPORTED, "NODE_FAIL"),  # its processes may still run there
        replace(final(STARTED, "FAILED", (127, 0)), allocation=None),
        replace(final(STARTED, "CANCELLED"), allocation=None, reused=True),  # it is submitted again
    ],
)
def test_an_end_that_is_not_certain_is_not_told(evidence: EndEvidence) -> None:
    assert decide_end(evidence) is None


@pytest.mark.parametrize(
    ("kind", "seen", "cause"),
    [
        (EndKind.EXITED, ObservedState.EXITED, ""),
        (EndKind.TIME_LIMIT, ObservedState.EXITED, Cause.ENGINE_TIME_LIMIT),
        (EndKind.DEADLINE, ObservedState.EXITED, Cause.ENGINE_TIME_LIMIT),
        (EndKind.CANCELLED, ObservedState.LOST, Cause.LOST),
        (EndKind.NUMBER_REUSED, ObservedState.LOST, Cause.LOST),
        (EndKind.PREEMPTED, ObservedState.LOST, Cause.PREEMPTED),
        (EndKind.NODE_FAILED, ObservedState.LOST, Cause.NODE_FAILED),
        (EndKind.LOST, ObservedState.LOST, Cause.LOST),
        (EndKind.GANG_INCOMPLETE, ObservedState.REFUSED, Cause.START_FAILED),
        (EndKind.NOT_RUN, ObservedState.REFUSED, Cause.START_FAILED),
        (EndKind.NEVER_STARTS, ObservedState.REFUSED, Cause.NOT_ALLOWED),
    ],
)
def test_ends_are_told_apart(kind: EndKind, seen: ObservedState, cause: str) -> None:
    record = add_run(EndRecord(kind=kind, code=3), replace(RAN, gpus=(1,), ports={"http": (80, 81)}), 102.5)
    assert parse_end_record(record.to_json().encode()) == record
    observation = build_end_observation("a", record)
    assert (observation.seen, observation.cause) == (seen, cause)
    assert bool(observation.message) is (kind is not EndKind.EXITED)
    assert (observation.started_at, observation.elapsed, observation.node) == (AT, 2.5, "n1")
    assert (observation.gpus, observation.ports) == ((1,), {"http": (80, 81)})


@pytest.mark.parametrize(
    ("record", "started", "kind", "state"),
    [
        (EndRecord(kind=EndKind.EXITED, code=3), True, ExitKind.USER_ERROR, JobState.FAILED),
        (EndRecord(kind=EndKind.EXITED, code=137, oom=True), True, ExitKind.OUT_OF_MEMORY, JobState.FAILED),
        (EndRecord(kind=EndKind.TIME_LIMIT), True, ExitKind.TIME_LIMIT, JobState.FAILED),
        (EndRecord(kind=EndKind.DEADLINE), True, ExitKind.TIME_LIMIT, JobState.FAILED),
        (EndRecord(kind=EndKind.DEADLINE), False, ExitKind.REFUSED, JobState.FAILED),
        (EndRecord(kind=EndKind.NEVER_STARTS, reason="PartitionConfig"), False, ExitKind.REFUSED, JobState.FAILED),
        (EndRecord(kind=EndKind.CANCELLED), True, ExitKind.PLATFORM, JobState.PENDING),
        (EndRecord(kind=EndKind.CANCELLED), False, ExitKind.PLATFORM, JobState.PENDING),
        (EndRecord(kind=EndKind.PREEMPTED), True, ExitKind.PLATFORM, JobState.PENDING),
        (EndRecord(kind=EndKind.NODE_FAILED), True, ExitKind.PLATFORM, JobState.PENDING),
        (EndRecord(kind=EndKind.NUMBER_REUSED), True, ExitKind.PLATFORM, JobState.PENDING),
        (EndRecord(kind=EndKind.LOST), True, ExitKind.PLATFORM, JobState.PENDING),
        (EndRecord(kind=EndKind.NOT_RUN, code=127), False, ExitKind.PLATFORM, JobState.PENDING),
        (EndRecord(kind=EndKind.GANG_INCOMPLETE), False, ExitKind.PLATFORM, JobState.PENDING),
    ],
)
def test_only_failures_of_the_platform_are_retried(
    record: EndRecord, started: bool, kind: ExitKind, state: JobState
) -> None:
    """PENDING: it is retried, and that is not counted."""
    before = running(job())
    attempt_id = before.build_attempt_id(before.tasks[0])
    seen = build_end_observation(attempt_id, add_run(record, RAN if started else None, 102.5))
    plan = plan_job(before, {attempt_id: seen}, NOON, POLICY)
    assert plan.after.state is state
    outcome = plan.ended.outcome if plan.ended else plan.after.outcome
    assert outcome is not None
    assert outcome.exit.kind is kind
    assert plan.after.user_retries == 0


def test_a_time_limit_of_slurm_is_a_time_limit_of_the_task() -> None:
    exit = build_time_limit_exit("why", 143)
    assert (exit.kind, exit.signal, exit.cause) == (ExitKind.TIME_LIMIT, 15, "engine-time-limit")


@pytest.mark.parametrize("text", ["", "{}", "[]", "end 3 5", '{"kind": "odd", "gpus": [], "ports": {}}'])
def test_what_is_no_record_of_an_end_is_ignored(text: str) -> None:
    assert parse_end_record(text.encode()) is None


# --- the folder -------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> SlurmFolder:
    (tmp_path / "report").mkdir()
    return SlurmFolder(str(tmp_path))


def test_the_first_record_of_an_end_stays(folder: SlurmFolder) -> None:
    assert folder.is_alive()
    first = EndRecord(kind=EndKind.EXITED, code=3)
    assert folder.record_end(first) == first
    assert folder.record_end(EndRecord(kind=EndKind.LOST)) == first
    assert not folder.is_alive()


def test_a_task_ends_before_its_start_or_runs_and_never_both(folder: SlurmFolder) -> None:
    assert folder.take_claim()
    assert folder.take_claim()
    assert folder.read_allocation() is None
    Path(folder["report/allocation"]).write_text("run 7 0 - n1 boot 12.5 0,2-3\n")
    assert not folder.take_claim()


def test_the_node_reports_where_it_runs(folder: SlurmFolder) -> None:
    Path(folder["report/allocation"]).write_text("run 9 1 2 n2 0b54-boot 12.50 0,2-3\n")
    Path(folder["report/ports"]).write_text("http 15000,15001\nssh 15002\n")
    Path(folder["report/claim"]).write_text("run 5 1250\nend 3 20.75 -\n")
    facts = read_facts(folder, "a")
    assert facts.allocation is not None
    assert (facts.allocation.job, facts.allocation.step, facts.allocation.node) == (9, "2", "n2")
    assert facts.allocation.gpus == (0, 2, 3)
    assert facts.allocation.ports == {"http": (15000, 15001), "ssh": (15002,)}
    assert facts.report.code == 3
    assert not facts.is_running


@pytest.mark.parametrize(
    "text", ["", "run", "run 9 1 2 n2 boot", "run 9 1 2 n2 boot x -\n", "run x 1 2 n2 boot 12 -\n"]
)
def test_a_claim_that_is_not_complete_yet_is_none(folder: SlurmFolder, text: str) -> None:
    Path(folder["report/allocation"]).write_text(text)
    assert folder.read_allocation() is None

"""The planner, driven by hand and by a world that does anything in any order."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.attempt import JobSnapshot, Observation, ObservedState, StopRequest, TaskAttempt
from holdfast.core.exits.exit import Cause, ExitKind
from holdfast.core.exits.table import find_spec
from holdfast.core.holds import HoldAction, HoldPolicy, HoldRequest
from holdfast.core.job import GIB, HoldScope, Job, JobFormat, Resources
from holdfast.core.planning.plan import plan_job
from holdfast.core.planning.steps import JobPolicy, Plan, RemoveStep, StartStep, StopStep
from holdfast.core.planning.task_requests import build_assignment, build_queue_entries
from holdfast.core.retry import MAX_PLATFORM_DELAY
from holdfast.core.scheduling.ledger import Ledger
from holdfast.core.scheduling.placement import Node, Placement, PlacementRefusal, ResourceAmount
from holdfast.core.scheduling.placing import place_jobs
from holdfast.core.scheduling.queue import Queue
from holdfast.core.states import JobState, TaskState
from tests.longer import examples

from .jobs import NOON, job, jobs, role, snapshot

POLICY = JobPolicy(time_limit=timedelta(hours=24), grace=timedelta(seconds=30))
DAY = timedelta(days=1)
HOLDS = (
    None,
    HoldPolicy(duration=timedelta(seconds=500)),
    HoldPolicy(keep=HoldScope.FILES),
    HoldPolicy(remaining_holds=0, refusal="There are enough."),
)
BIG = Node(name="big", cpu=1000, memory=10_000 * GIB, gpus=tuple(range(100)))


def decisions(of: JobSnapshot, now: datetime = NOON) -> list[Placement | PlacementRefusal]:
    queue = Queue()
    for entry in build_queue_entries(of, now):
        queue.add(entry)
    return place_jobs(queue, Ledger([BIG]))


def placed(of: JobSnapshot) -> Placement:
    (decision,) = decisions(of)
    assert isinstance(decision, Placement)
    return decision


def see(of: JobSnapshot, seen: ObservedState, **fields: object) -> dict[str, Observation]:
    ids = [of.build_attempt_id(task) for task in of.tasks if task.state.live]
    return {id: Observation(attempt_id=id, seen=seen, **fields) for id in ids}  # type: ignore[arg-type]


def running(of: Job | None = None) -> JobSnapshot:
    prepared = snapshot(of)
    for decision in decisions(prepared):
        prepared = plan_job(prepared, {}, NOON, POLICY, decision=decision).after
    return plan_job(prepared, see(prepared, ObservedState.RUNNING), NOON, POLICY).after


def test_what_the_engine_has_chosen_is_kept_from_the_first_report() -> None:
    first = snapshot(job(role(instances=2)))
    made = plan_job(first, {}, NOON, POLICY, decision=placed(first))
    assert {task.host for task in made.after.tasks} == {""}
    chosen = {"node": "n7", "gpus": (3,), "ports": {"web": (20000,)}}
    made = plan_job(made.after, see(made.after, ObservedState.STARTING, message="Pulling", **chosen), NOON, POLICY)
    assert len(made.tasks) == 2
    for task in made.after.tasks:
        assert (task.state, task.node, task.machine) == (TaskState.PREPARING, "big", "n7")
        assert (task.host, task.gpus, task.ports) == ("n7", (3,), {"web": (20000,)})
    made = plan_job(made.after, see(made.after, ObservedState.STARTING, message="Pulling", **chosen), NOON, POLICY)
    assert made.tasks == ()
    made = plan_job(made.after, see(made.after, ObservedState.RUNNING), NOON, POLICY)
    assert [event.message for event in made.events][1:] == ["main-0 runs on n7", "main-1 runs on n7"]
    assert {task.host for task in made.after.tasks} == {"n7"}
    made = plan_job(made.after, see(made.after, ObservedState.RUNNING, node="n8"), NOON, POLICY)  # moved there
    assert {(task.host, task.gpus) for task in made.after.tasks} == {("n8", (3,))}


def test_a_node_that_names_itself_has_no_host() -> None:
    first = snapshot()
    made = plan_job(first, {}, NOON, POLICY, decision=placed(first))
    made = plan_job(made.after, see(made.after, ObservedState.RUNNING, node="big"), NOON, POLICY)
    assert (made.after.tasks[0].host, made.after.tasks[0].machine) == ("", "big")


def test_a_task_stopped_in_the_queue_of_the_engine_never_started() -> None:
    first = snapshot()
    made = plan_job(first, {}, NOON, POLICY, decision=placed(first))
    made = plan_job(made.after, see(made.after, ObservedState.QUEUED, message="Waits"), NOON, POLICY)
    stopping = replace(made.after, stop=StopRequest(actor="ann", at=NOON))
    made = plan_job(stopping, {}, NOON, POLICY)
    made = plan_job(made.after, see(made.after, ObservedState.EXITED, code=143), NOON, POLICY)
    assert made.after.state is JobState.CANCELLED
    assert (made.after.started_at, made.after.tasks[0].started_at) == (None, None)


def test_a_job_from_submission_to_success() -> None:
    first = snapshot()
    made = plan_job(first, {}, NOON, POLICY, decision=placed(first))
    assert made.after.state is JobState.PREPARING
    assert [type(step) for step in made.steps] == [StartStep]
    made = plan_job(made.after, see(made.after, ObservedState.RUNNING), NOON, POLICY)
    assert made.after.state is JobState.RUNNING
    assert made.wake_in == timedelta(hours=24)
    made = plan_job(made.after, see(made.after, ObservedState.EXITED, code=0), NOON, POLICY)
    assert made.after.state is JobState.SUCCEEDED
    assert made.after.exit is not None
    assert made.after.exit.code == 0
    assert [type(step) for step in made.steps] == [RemoveStep]
    assert [event.state for event in made.events] == [JobState.SUCCEEDED]


def test_the_programs_own_exit_code_is_kept() -> None:
    before = running()
    after = plan_job(before, see(before, ObservedState.EXITED, code=42), NOON, POLICY).after
    assert after.state is JobState.FAILED
    assert after.exit is not None
    assert (after.exit.kind, after.exit.code) == (ExitKind.USER_ERROR, 42)


def test_stop_asks_every_task_to_end_and_then_cancels() -> None:
    before = replace(running(job(role(instances=3))), stop=StopRequest(actor="ann", at=NOON))
    made = plan_job(before, {}, NOON, POLICY)
    assert [step.grace for step in made.steps if isinstance(step, StopStep)] == [timedelta(seconds=30)] * 3
    assert made.after.state is JobState.RUNNING
    made = plan_job(made.after, see(made.after, ObservedState.EXITED, code=143), NOON, POLICY)
    assert made.after.state is JobState.CANCELLED
    assert made.after.message == "Cancelled by ann"
    assert made.events[-1].actor == "ann"


def test_a_pending_job_is_cancelled_at_once() -> None:
    made = plan_job(snapshot(stop=StopRequest(actor="ann", at=NOON)), {}, NOON, POLICY)
    assert made.after.state is JobState.CANCELLED
    assert not made.steps


def test_time_limit_fails_the_job_and_says_so() -> None:
    before = running()
    made = plan_job(before, {}, NOON, POLICY, elapsed=timedelta(hours=24))
    assert any(isinstance(step, StopStep) for step in made.steps)
    made = plan_job(made.after, see(made.after, ObservedState.EXITED, code=143), NOON, POLICY)
    assert made.after.state is JobState.FAILED
    assert made.after.message == "Exceeded its time limit of 1d"
    assert made.after.exit is not None
    assert made.after.exit.kind is ExitKind.TIME_LIMIT


def test_a_lost_task_is_retried_by_itself_and_not_counted() -> None:
    before = running()
    made = plan_job(before, see(before, ObservedState.LOST, message="the machine was restarted"), NOON, POLICY)
    assert made.after.state is JobState.PENDING
    assert (made.after.user_retries, made.after.platform_retries) == (0, 1)
    assert made.wake_in == timedelta(seconds=1)
    later = plan_job(made.after, {}, NOON + timedelta(seconds=1), POLICY).after
    assert (later.attempt, later.retry_at) == (1, None)
    assert all(task.state is TaskState.WAITING for task in later.tasks)


def test_a_retry_is_not_put_off_by_a_clock_set_back_by_years() -> None:
    before = running()
    waits = plan_job(before, see(before, ObservedState.LOST), NOON, POLICY).after
    assert plan_job(waits, {}, NOON - timedelta(days=3650), POLICY).after.attempt == 1


def test_a_refused_image_fails_before_running_and_is_not_retried() -> None:
    first = snapshot(job(max_retries=5))
    prepared = plan_job(first, {}, NOON, POLICY, decision=placed(first)).after
    made = plan_job(prepared, see(prepared, ObservedState.REFUSED, message="no image x; known: host"), NOON, POLICY)
    assert made.after.state is JobState.FAILED
    assert made.after.started_at is None
    assert made.after.message == "main-0: System Error: no image x; known: host"


def test_what_runs_otherwise_than_asked_leaves_a_warning() -> None:
    first = snapshot()
    prepared = plan_job(first, {}, NOON, POLICY, decision=placed(first)).after
    made = plan_job(prepared, see(prepared, ObservedState.RUNNING, warning="runs on host instead of x"), NOON, POLICY)
    assert [(event.kind, event.message) for event in made.events][-1] == ("warning", "runs on host instead of x")


def test_a_server_that_died_before_starting_starts_it_once_it_is_back() -> None:
    first = snapshot()
    prepared = plan_job(first, {}, NOON, POLICY, decision=placed(first)).after
    made = plan_job(prepared, see(prepared, ObservedState.ABSENT), NOON, POLICY)
    assert [type(step) for step in made.steps] == [StartStep]
    assert made.after.state is JobState.PREPARING


def test_a_task_alone_is_retried_when_the_job_is_not_a_gang() -> None:
    before = running(job(role(instances=2, max_task_retries=1), gang=False))
    failed = before.build_attempt_id(before.tasks[0])
    made = plan_job(before, {failed: Observation(attempt_id=failed, seen=ObservedState.EXITED, code=1)}, NOON, POLICY)
    assert made.after.state is JobState.RUNNING
    again = made.after.tasks[0]
    assert (again.number, again.state, again.user_retries) == (1, TaskState.WAITING, 1)
    assert {(task.number, task.state) for task in made.tasks} == {(0, TaskState.FAILED), (1, TaskState.WAITING)}


OPENPAI = {"dialect": JobFormat.OPENPAI_V2}


def end(before: JobSnapshot, seen: ObservedState, now: datetime = NOON, **fields: object) -> Plan:
    return plan_job(before, see(before, seen, **fields), now, POLICY)


@pytest.mark.parametrize(
    ("code", "cause", "of_openpai", "of_ours"),
    [
        (1, "", "again", "again"),
        (1, Cause.CUDA_OOM, "over", "again"),
        (1, Cause.GPU_MEMORY_ERROR, "free", "again"),
        (130, "", "free", "again"),
        (131, "", "free", "again"),
        (137, "", "free", "again"),
        (143, "", "free", "again"),
        (139, "", "again", "again"),
        (135, "", "over", "over"),
    ],
)
@pytest.mark.parametrize("dialect", JobFormat)
def test_retries_of_openpai_jobs_go_by_its_table(
    code: int, cause: str, of_openpai: str, of_ours: str, dialect: JobFormat
) -> None:
    after = end(running(job(max_retries=1, dialect=dialect)), ObservedState.EXITED, code=code, cause=cause).after
    counts = {"again": (1, 0), "free": (0, 1), "over": (0, 0)}
    expected = of_openpai if dialect.is_openpai else of_ours
    assert (after.user_retries, after.platform_retries) == counts[expected]
    assert after.state is (JobState.FAILED if expected == "over" else JobState.PENDING)


def test_the_cause_is_kept_with_the_programs_own_code() -> None:
    after = end(running(job(**OPENPAI)), ObservedState.EXITED, code=3, cause=Cause.IMPORT_ERROR).after
    assert after.exit is not None
    assert (after.exit.code, after.exit.cause, find_spec(after.exit).code) == (3, Cause.IMPORT_ERROR, 232)


@pytest.mark.parametrize(
    ("seen", "fields", "code"),
    [
        (ObservedState.LOST, {}, -1001),
        (ObservedState.LOST, {"cause": Cause.SANDBOX_FAILED}, -1006),
        (ObservedState.ABSENT, {}, -101),
        (ObservedState.REFUSED, {"transient": True, "cause": Cause.PORT_IN_USE}, 253),
        (ObservedState.REFUSED, {"transient": True}, -120),
        (ObservedState.REFUSED, {"cause": Cause.IMAGE_MISSING}, 254),
        (ObservedState.REFUSED, {}, -200),
        (ObservedState.EXITED, {"code": 137, "oom": True, "cause": "segfault"}, -1200),
    ],
)
def test_what_engines_know_of_the_cause_is_kept(seen: ObservedState, fields: dict[str, object], code: int) -> None:
    after = end(running(), seen, **fields).after
    (task,) = after.tasks
    assert task.exit is not None
    assert find_spec(task.exit).code == code


def test_a_cause_in_the_log_of_what_we_stopped_is_no_cause() -> None:
    before = replace(running(job(**OPENPAI)), stop=StopRequest(actor="ann", at=NOON))
    before = plan_job(before, {}, NOON, POLICY).after
    after = end(before, ObservedState.EXITED, code=1, cause=Cause.CUDA_OOM).after
    (task,) = after.tasks
    assert task.exit is not None
    assert (find_spec(task.exit).code, task.exit.cause) == (-210, "")


def test_more_than_any_machine_has_is_told_as_such() -> None:
    first = snapshot(job(role(resources=Resources(cpu=5000)), **OPENPAI))
    (decision,) = decisions(first)
    after = plan_job(first, {}, NOON, POLICY, decision=decision).after
    assert after.exit is not None
    assert find_spec(after.exit).code == -1100
    assert after.outcome is not None
    assert (after.outcome.role, after.outcome.reached, after.outcome.needed) == (None, None, None)


def test_an_attempt_that_is_followed_by_another_is_told_once() -> None:
    before = running(job(max_retries=1))
    made = end(before, ObservedState.EXITED, now=NOON + timedelta(seconds=5), code=4)
    assert made.ended is not None
    assert (made.ended.number, made.ended.counted) == (0, True)
    assert (made.ended.started_at, made.ended.finished_at) == (NOON, NOON + timedelta(seconds=5))
    assert (made.ended.outcome.exit.code, made.ended.outcome.role) == (4, "main")
    later = plan_job(made.after, {}, NOON + timedelta(seconds=5), POLICY)
    assert (later.after.attempt, later.ended) == (1, None)
    lost = end(before, ObservedState.LOST)
    assert lost.ended is not None
    assert not lost.ended.counted
    assert end(running(job()), ObservedState.EXITED, code=4).ended is None  # the job itself tells of its last one


def test_a_program_that_always_kills_itself_is_slowed_down_and_can_be_stopped() -> None:
    state, now, waits = snapshot(job(max_retries=0, **OPENPAI)), NOON, []
    for attempt in range(15):
        assert state.attempt == attempt
        (decision,) = decisions(state, now)
        state = plan_job(state, {}, now, POLICY, decision=decision).after
        made = end(state, ObservedState.EXITED, now=now, code=137)
        assert made.after.state is JobState.PENDING
        assert made.wake_in is not None
        waits.append(made.wake_in.total_seconds())
        early = now + made.wake_in - timedelta(seconds=1)
        assert not decisions(plan_job(made.after, {}, early, POLICY).after, early)
        now += made.wake_in
        waiting, state = made.after, plan_job(made.after, {}, now, POLICY).after
    assert waits == sorted(waits)
    assert waits[-3:] == [MAX_PLATFORM_DELAY] * 3
    assert (state.user_retries, state.platform_retries) == (0, 15)
    stopped = plan_job(replace(waiting, stop=StopRequest(actor="ann", at=now)), {}, now, POLICY).after
    assert stopped.state is JobState.CANCELLED


def test_a_task_that_always_kills_itself_is_slowed_down_too_when_the_job_is_not_a_gang() -> None:
    state, now = running(job(role(), gang=False, **OPENPAI)), NOON
    for number in range(1, 12):
        made = end(state, ObservedState.EXITED, now=now, code=143)
        assert made.after.state is JobState.RUNNING
        assert made.after.tasks[0].number == number
        due = made.after.tasks[0].retry_at
        assert due is not None
        wait, now = due - now, due
        (decision,) = decisions(made.after, now)
        state = plan_job(made.after, {}, now, POLICY, decision=decision).after
    assert wait == timedelta(seconds=MAX_PLATFORM_DELAY)
    assert (state.tasks[0].user_retries, state.tasks[0].platform_retries) == (0, 11)


class World:
    """An engine and a scheduler that do what hypothesis says, in any order, as often as it likes."""

    def __init__(self, of: Job, data: st.DataObject) -> None:
        self.data = data
        self.policy = replace(POLICY, hold=data.draw(st.sampled_from(HOLDS)))
        self.held: dict[str, Observation] = {}
        self.now = NOON
        self.state = snapshot(of)
        self.started: list[str] = []
        self.running: set[str] = set()
        self.ended: dict[str, Observation] = {}
        self.stopped: set[str] = set()

    def take(self, made: Plan) -> None:
        ended_before = {self.state.build_attempt_id(t) for t in self.state.tasks if t.state.ended}
        self.state = made.after
        for step in made.steps:
            assert step.attempt_id not in ended_before, "a step for what had ended"
            if isinstance(step, StartStep) and step.attempt_id not in self.ended:
                if step.attempt_id not in self.running:
                    self.started.append(step.attempt_id)
                self.running.add(step.attempt_id)
            elif isinstance(step, StopStep):
                self.stopped.add(step.attempt_id)

    def look(self) -> dict[str, Observation]:
        """Any subset of the truth, with repeats; sometimes more than was requested."""
        seen = {}
        for id in sorted(self.running):
            what = self.data.draw(st.sampled_from(["nothing", "running", "exit", "lost", "held"]))
            if id in self.held and what in ("running", "held"):
                seen[id] = self.held[id]
            elif what == "running":
                seen[id] = Observation(attempt_id=id, seen=ObservedState.RUNNING)
            elif what == "held" and self.policy.hold is not None:
                seen[id] = self.held[id] = Observation(attempt_id=id, seen=ObservedState.HELD, code=2)
            elif what == "exit" or id in self.stopped:
                code = self.data.draw(st.sampled_from([0, 0, 1, 137, 143]))
                seen[id] = Observation(attempt_id=id, seen=ObservedState.EXITED, code=code, oom=code == 137)
            elif what == "lost":
                seen[id] = Observation(attempt_id=id, seen=ObservedState.LOST, message="lost")
        for id, observation in seen.items():
            if observation.seen not in (ObservedState.RUNNING, ObservedState.HELD):
                self.running.discard(id)
                self.ended[id] = observation
        return {**self.ended, **seen}

    def tick(self, stop: bool) -> None:
        self.now += timedelta(seconds=self.data.draw(st.sampled_from([0, 1, 400, 1000])))
        if stop and self.state.stop is None:
            self.state = replace(self.state, stop=StopRequest(actor="ann", at=self.now))
        asked = [HoldRequest(actor="ann", at=self.now, action=ask, until=self.now + DAY) for ask in self.asks()]
        self.take(plan_job(self.state, self.look(), self.now, self.policy, requests=asked, chance=0.5))
        for decision in decisions(self.state, self.now):
            self.take(plan_job(self.state, {}, self.now, self.policy, decision=decision))

    def asks(self) -> list[HoldAction]:
        return self.data.draw(st.lists(st.sampled_from(HoldAction), max_size=2)) if self.held else []


@settings(max_examples=examples(300), deadline=None)
@given(jobs(), st.data())
def test_any_order_of_events_starts_nothing_twice_and_ends(of: Job, data: st.DataObject) -> None:
    world = World(of, data)
    stop_at = data.draw(st.none() | st.integers(0, 10))
    for turn in range(12):
        world.tick(stop=turn == stop_at)
    world.tick(stop=True)  # the owner gives up: from here on it must end, whatever was seen before
    for _ in range(6):
        everything = {id: Observation(attempt_id=id, seen=ObservedState.EXITED, code=0) for id in world.running}
        world.ended |= everything
        world.running.clear()
        world.take(plan_job(world.state, world.ended, world.now, world.policy))
    assert world.state.state.final
    assert len(world.started) == len(set(world.started))
    assert all(task.state.ended for task in world.state.tasks)
    assert plan_job(world.state, world.ended, world.now, world.policy) == Plan(after=world.state)


@settings(max_examples=examples(200), deadline=None)
@given(jobs(), st.data())
def test_no_plan_both_starts_and_stops_an_attempt(of: Job, data: st.DataObject) -> None:
    world = World(of, data)
    for turn in range(8):
        before = world.state
        made = plan_job(before, world.look(), world.now, world.policy)
        started = {step.attempt_id for step in made.steps if isinstance(step, StartStep)}
        others = {step.attempt_id for step in made.steps if not isinstance(step, StartStep)}
        assert not started & others
        world.take(made)
        world.tick(stop=turn == 5)


@settings(max_examples=examples(100), deadline=None)
@given(jobs(), st.lists(st.sampled_from([0, 1, 3]), min_size=1, max_size=40))
def test_every_job_whose_tasks_end_reaches_a_final_state_by_itself(of: Job, codes: list[int]) -> None:
    world = snapshot(replace(of, max_retries=min(of.max_retries, 2)))
    now, turn = NOON, 0
    while not world.state.final:
        now += timedelta(minutes=20)
        world = plan_job(world, {}, now, POLICY).after
        for decision in decisions(world, now):
            world = plan_job(world, {}, now, POLICY, decision=decision).after
        for id in [world.build_attempt_id(task) for task in world.tasks if task.state.live]:
            seen = {id: Observation(attempt_id=id, seen=ObservedState.EXITED, code=codes[turn % len(codes)])}
            world = plan_job(world, seen, now, POLICY).after
            turn += 1
        assert turn < 1000
    assert world.attempt <= 2
    assert world.finished_at is not None


def test_why_an_attempt_ended_and_that_it_is_tried_again_is_one_sentence() -> None:
    before = running()
    made = plan_job(before, see(before, ObservedState.LOST, message="Nobody knows how it ended."), NOON, POLICY)
    assert made.after.message.startswith("main-0: Nobody knows how it ended; retrying in 1s: ")


@pytest.mark.parametrize(
    ("cpu", "memory", "needs"),
    [
        (None, None, ResourceAmount(cpu=2, memory=4 * GIB, gpu=1)),
        (0.5, None, ResourceAmount(cpu=0.5, memory=4 * GIB, gpu=1)),
        (None, GIB, ResourceAmount(cpu=2, memory=GIB, gpu=1)),
        (9, 9 * GIB, ResourceAmount(cpu=2, memory=4 * GIB, gpu=1)),  # never more than the limits
    ],
)
def test_a_machine_is_asked_for_requests_and_quotas_for_limits(
    cpu: float | None, memory: int | None, needs: ResourceAmount
) -> None:
    size = Resources(cpu=2, memory=4 * GIB, gpu=1, cpu_request=cpu, memory_request=memory)
    waits = snapshot(job(role(resources=size)))
    (entry,) = build_queue_entries(waits, NOON)
    assert (entry.total, entry.needs) == (ResourceAmount(cpu=2, memory=4 * GIB, gpu=1), needs)
    held = build_assignment(waits, TaskAttempt(role="main", index=0, node="one"))
    assert (held.amount, held.needs) == (entry.total, needs)

"""The one place that decides: a job's state, what engines saw, and the time -> its next state and what to do about it.

Pure: the same inputs give the same plan. Steps are wishes to the outside world and can be derived again from the saved
state, so a server that dies between saving a plan and performing it loses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from .attempt import Held, JobSnapshot, Observation, Outcome, Result, Seen, TaskAttempt
from .completion import decide_outcome
from .exits.exit import STOPPED_FOR_DISK, Behaviour, Cause, Exit, ExitKind, classify, platform_exit, refused_exit
from .exits.table import spec_of, with_cause
from .holds import Ask, HoldPolicy, HoldRequest, banner, can_be_held, warned_from
from .job import Job, Keep, Role
from .messages import join_messages, msg
from .records import JobAttempt, NewEvent
from .retry import CONFLICT_MAX, GiveUp, decide_retry
from .scheduling.placement import Amount, Assignment, Placed, Refused, Request, Waiting, show_bytes
from .states import Change, JobState, TaskState, transition

NEVER_STARTED = msg("Never started. ")  # before why, in what is said of a task that was stopped before it ran


@dataclass(frozen=True, slots=True)
class Start:
    attempt_id: str
    task: TaskAttempt


@dataclass(frozen=True, slots=True)
class Stop:
    attempt_id: str
    grace: timedelta


@dataclass(frozen=True, slots=True)
class Remove:
    """Free what an ended attempt holds, except its logs."""

    attempt_id: str


@dataclass(frozen=True, slots=True)
class Announce:
    """Add to its log, once for each key."""

    attempt_id: str
    key: str
    text: str


Step = Start | Stop | Remove | Announce


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What the admin, the group and the job settled on."""

    time_limit: timedelta | None  # None: no limit
    grace: timedelta
    hold: HoldPolicy | None = None  # None: its tasks are not held


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    after: JobSnapshot
    tasks: tuple[TaskAttempt, ...] = ()  # those of the current attempt that changed
    steps: tuple[Step, ...] = ()
    events: tuple[NewEvent, ...] = ()
    ended: JobAttempt | None = None  # the attempt that is over, when another one follows
    wake_in: timedelta | None = None  # look again then, even if nothing happens


def plan(
    snapshot: JobSnapshot,
    seen: Mapping[str, Observation],
    now: datetime,
    policy: Policy,
    *,
    decision: Placed | Refused | None = None,
    requests: Sequence[HoldRequest] = (),
    elapsed: timedelta | None = None,
    chance: float = 0.0,
) -> Plan:
    """`elapsed`: how long the attempt has run, by a clock that does not jump. `chance` in [0, 1) is for retry waits.
    `requests`: what people ask of its holds."""
    if snapshot.state.final:
        return Plan(after=snapshot)
    work = _Work(snapshot, now, policy, chance)
    work.begin_attempt()
    work.absorb(seen)
    work.accept(decision)
    work.grant(requests)
    work.honour_stop()
    work.end_holds()
    work.warn_of_ends()
    work.enforce_time_limit(elapsed)
    work.retry_tasks()
    work.decide()
    work.settle()
    work.show_hold()
    return work.finished_plan(elapsed)


def waiting_of(snapshot: JobSnapshot, now: datetime) -> tuple[Waiting, ...]:
    """What of this job stands in the queue now."""
    if snapshot.state.final or snapshot.stop or snapshot.outcome or snapshot.retry_at:
        return ()
    tasks = snapshot.tasks or fresh_tasks(snapshot.job)
    ready = [task for task in tasks if task.state is TaskState.WAITING and _due(task.retry_at, now)]
    if not ready:
        return ()
    if snapshot.job.gang:
        return (_waiting(snapshot, snapshot.id, ready),)
    return tuple(_waiting(snapshot, snapshot.attempt_id(task), [task]) for task in ready)


def assignment_of(snapshot: JobSnapshot, task: TaskAttempt) -> Assignment:
    """What a placed task occupies."""
    assert task.node is not None
    return Assignment(
        attempt_id=snapshot.attempt_id(task),
        node=task.node,
        amount=amount_of(snapshot.job.role(task.role)),
        asked=asked_of(snapshot.job.role(task.role)),
        user=snapshot.user,
        group=snapshot.job.group,
        gpus=task.gpus,
        ports=task.ports,
    )


def amount_of(role: Role) -> Amount:
    """The limits of one of its tasks."""
    return Amount(cpu=role.resources.cpu, memory=role.resources.memory, gpu=role.resources.gpu)


def asked_of(role: Role) -> Amount | None:
    """What a machine must have free for one of its tasks, where that is less than the limits. Never less of GPUs."""
    asked = role.resources
    if asked.cpu_request is None and asked.memory_request is None:
        return None
    return Amount(
        cpu=min(asked.cpu, asked.cpu if asked.cpu_request is None else asked.cpu_request),
        memory=min(asked.memory, asked.memory if asked.memory_request is None else asked.memory_request),
        gpu=asked.gpu,
    )


def fresh_tasks(job: Job) -> tuple[TaskAttempt, ...]:
    return tuple(TaskAttempt(role=role.name, index=i) for role in job.roles for i in range(role.instances))


def _waiting(snapshot: JobSnapshot, id: str, tasks: list[TaskAttempt]) -> Waiting:
    roles = {role.name: (amount_of(role), asked_of(role), role.ports) for role in snapshot.job.roles}
    return Waiting(
        id=id,
        job_id=snapshot.id,
        user=snapshot.user,
        group=snapshot.job.group,
        priority=snapshot.job.priority,
        order=(snapshot.submitted_at.timestamp(), id),
        requests=tuple(_request(snapshot.attempt_id(task), *roles[task.role]) for task in tasks),
    )


def _request(attempt_id: str, amount: Amount, asked: Amount | None, ports: Mapping[str, int]) -> Request:
    return Request(attempt_id=attempt_id, amount=amount, asked=asked, ports=ports)


def _due(at: datetime | None, now: datetime) -> bool:
    """A time further off than any wait we set means that the clock jumped: due."""
    return at is None or now >= at or at - now > timedelta(seconds=CONFLICT_MAX)


class _Work:
    """A plan in the making."""

    def __init__(self, snapshot: JobSnapshot, now: datetime, policy: Policy, chance: float) -> None:
        self.before = snapshot
        self.job = snapshot.job
        self.after = snapshot
        self.now = now
        self.policy = policy
        self.chance = chance
        self.tasks: list[TaskAttempt] = list(snapshot.tasks or fresh_tasks(snapshot.job))
        self.changed: dict[tuple[str, int, int], TaskAttempt] = {}
        self.starts: dict[str, Start] = {}
        self.steps: list[Step] = []
        self.events: list[NewEvent] = []
        self.ended: JobAttempt | None = None
        self.held_now = 0  # by this plan

    # -- the phases, in order

    def begin_attempt(self) -> None:
        if self.after.retry_at is None or self.after.stop or not _due(self.after.retry_at, self.now):
            return
        self.tasks = list(fresh_tasks(self.job))
        self.after = replace(
            self.after,
            attempt=self.after.attempt + 1,
            retry_at=None,
            outcome=None,
            attempt_started_at=None,
            message=msg("Waits for room"),
        )
        self.note("attempt", msg("Attempt {attempt} begins", attempt=self.after.attempt))

    def absorb(self, seen: Mapping[str, Observation]) -> None:
        for i, task in enumerate(self.tasks):
            if task.state.live:
                observation = seen.get(self.after.attempt_id(task))
                if observation is not None:
                    self.look(i, task, observation)

    def accept(self, decision: Placed | Refused | None) -> None:
        if decision is None or self.after.stop or self.after.outcome:
            return
        if isinstance(decision, Refused):
            self.refuse(decision)
            return
        places = {assignment.attempt_id: assignment for assignment in decision.assignments}
        for i, task in enumerate(self.tasks):
            place = places.get(self.after.attempt_id(task))
            if place is not None and task.state is TaskState.WAITING:
                self.place(i, task, place)
        if self.after.state is JobState.PENDING and any(task.state.live for task in self.tasks):
            nodes = sorted({task.node for task in self.tasks if task.node})
            self.move(Change.PLACE, "placed", msg("Placed on {nodes}", nodes=", ".join(nodes)))

    def honour_stop(self) -> None:
        stop = self.after.stop
        if stop is None:
            return
        told = msg("Stopped: {why}", why=stop.why) if stop.why else msg("Stopped by {actor}", actor=stop.actor)
        reason = Exit(kind=ExitKind.CANCELLED, message=told, behaviour=Behaviour.PERMANENT)
        self.stop_tasks(reason)
        for i, task in enumerate(self.tasks):
            if task.state is TaskState.HELD:
                self.let_go(i, task)

    def grant(self, requests: Sequence[HoldRequest]) -> None:
        for request in requests:
            for i, task in enumerate(self.tasks):
                if task.state is TaskState.HELD and task.stop is None and request.task in (None, task.task):
                    self.answer(i, task, request)

    def end_holds(self) -> None:
        for i, task in enumerate(self.tasks):
            held = task.held
            if task.state is TaskState.HELD and held and task.stop is None and self.now >= held.until:
                self.note("hold-ended", msg("{task} was held long enough", task=task.task), task)
                self.let_go(i, task)

    def warn_of_ends(self) -> None:
        """Once for each end: a hold that is extended has another."""
        for i, task in enumerate(self.tasks):
            held = task.held
            if task.state is not TaskState.HELD or held is None or held.warned or task.stop is not None:
                continue
            at = warned_from(held.since, held.until)
            if at is not None and self.now >= at:
                self.put(i, replace(task, held=replace(held, warned=True)))
                self.note(
                    "hold-ending",
                    msg(
                        "{task} is held until {until} UTC, and ends then",
                        task=task.task,
                        until=f"{held.until:%Y-%m-%d %H:%M}",
                    ),
                    task,
                )

    def enforce_time_limit(self, elapsed: timedelta | None) -> None:
        """What is held has stopped working: no time counts any more."""
        limit = self.policy.time_limit
        if limit is None or elapsed is None or elapsed < limit or self.after.stop or self.after.outcome:
            return
        if not self.works():
            return
        text = msg("Ran longer than its time limit of {limit}", limit=_show_duration(limit))
        reason = Exit(kind=ExitKind.TIME_LIMIT, message=text, behaviour=Behaviour.PERMANENT)
        self.after = replace(self.after, outcome=Outcome(result=Result.FAILED, message=text, exit=reason))
        self.note("time-limit", text)
        self.stop_tasks(reason)

    def retry_tasks(self) -> None:
        if self.job.gang or self.after.stop or self.after.outcome:
            return
        for i, task in enumerate(self.tasks):
            ended = task.state in (TaskState.FAILED, TaskState.SUCCEEDED)
            if task.exit is not None and ended and task.held is None:
                self.retry_task(i, task, task.exit)

    def decide(self) -> None:
        if self.after.stop or self.after.outcome or self.after.retry_at:
            return
        outcome = decide_outcome(self.job, self.tasks)
        if outcome is None:
            return
        self.after = replace(self.after, outcome=outcome)
        self.stop_tasks(Exit(kind=ExitKind.ATTEMPT_OVER, message=msg("Stopped: the attempt is over")))

    def settle(self) -> None:
        if not all(task.state.ended for task in self.tasks):
            return
        if self.after.stop and not any(task.held for task in self.tasks):
            text = self.after.stop.cancelled
            reason = Exit(kind=ExitKind.CANCELLED, message=text, code=self.first_code())
            self.end(Change.CANCEL, "cancelled", text, reason, actor=self.after.stop.actor)
        elif self.after.stop:
            self.end_attempt(self.outcome_of_holds())
        elif self.after.outcome:
            self.end_attempt(self.after.outcome)

    def outcome_of_holds(self) -> Outcome:
        """A job that was stopped while something of it was held had failed before."""
        task = next(task for task in self.tasks if task.held)
        assert task.held is not None
        reason = task.held.exit
        text = join_messages(": ", (task.task, reason.message))
        return Outcome(result=Result.FAILED, message=text, exit=reason, role=task.role, index=task.index)

    def show_hold(self) -> None:
        held = [task for task in self.tasks if task.state is TaskState.HELD]
        if self.after.state is JobState.RUNNING and held:
            first = join_messages(": ", (held[0].task, held[0].held.exit.message)) if held[0].held else held[0].task
            others = msg(" with {x1} more", x1=len(held) - 1) if len(held) > 1 else ""
            self.move(Change.HOLD, "held", msg("{first}; held{others}", first=first, others=others))
        elif self.after.state is JobState.HELD and not held:
            self.move(Change.RESUME, "resumed", msg("Nothing of it is held any more"))

    # -- what the phases are made of

    def look(self, i: int, task: TaskAttempt, observation: Observation) -> None:
        seen = observation.seen
        if task.held is not None:
            self.look_at_held(i, task, task.held, seen)
        elif seen is Seen.ABSENT and task.state is TaskState.PREPARING and task.stop is None:
            self.start(self.after.attempt_id(task), task)
        elif seen is Seen.ABSENT and task.stop is not None:
            self.finish(i, task, task.stop)
        elif seen is Seen.ABSENT:
            self.finish(i, task, platform_exit(msg("Its files on the machine are gone"), Cause.FILES_GONE))
        elif seen is Seen.REFUSED and observation.transient:
            self.finish(i, task, task.stop or platform_exit(observation.message, observation.cause))
        elif seen is Seen.REFUSED:
            text = msg("System Error: {message}", message=observation.message)
            self.finish(i, task, task.stop or refused_exit(text, observation.cause))
        elif seen is Seen.LOST:
            lost = platform_exit(observation.message, observation.cause or Cause.LOST)
            self.finish(i, self.started(i, task, observation), task.stop or lost)
        elif seen is Seen.EXITED:
            self.exited(i, self.started(i, task, observation), observation)
        elif seen is Seen.HELD:
            self.failed(i, self.started(i, task, observation), observation)
        elif seen is Seen.RUNNING:
            task = self.started(i, task, observation)
            if task.stop is not None:
                self.steps.append(Stop(self.after.attempt_id(task), self.policy.grace))

    def started(self, i: int, task: TaskAttempt, observation: Observation) -> TaskAttempt:
        if task.state is not TaskState.PREPARING:
            return task
        at = observation.started_at or self.now
        task = self.put(i, replace(task, state=TaskState.RUNNING, started_at=at))
        self.after = replace(
            self.after,
            started_at=self.after.started_at or at,
            attempt_started_at=self.after.attempt_started_at or at,
        )
        if self.after.state in (JobState.PREPARING, JobState.UNKNOWN):
            self.move(Change.START, "started", "Running")
        if len(self.tasks) > 1:
            self.note("task-started", msg("{task} runs on {node}", task=task.task, node=task.node), task)
        if observation.warning:
            self.note("warning", observation.warning, task)
        return task

    def look_at_held(self, i: int, task: TaskAttempt, held: Held, seen: Seen) -> None:
        """Whatever ends its processes, by us or from within: its files stay until the hold is over."""
        if seen is Seen.ABSENT:
            self.note("hold-ended", msg("The files of {task} are gone from the machine", task=task.task), task)
            self.finish(i, task, held.exit, task.finished_at)
        elif seen in (Seen.EXITED, Seen.LOST):
            if task.stop is not None:
                self.finish(i, task, held.exit, task.finished_at)
            elif not held.ended:
                ended = replace(held, keep=Keep.FILES, ended=True)
                self.put(i, replace(task, held=ended, finished_at=self.now))
                self.note(
                    "hold-files",
                    msg("Only the files of {task} are kept on: its processes have ended", task=task.task),
                    task,
                )
        elif task.stop is not None or held.keep is Keep.FILES:
            self.steps.append(Stop(self.after.attempt_id(task), self.policy.grace))
        else:
            self.announce(task, held)

    def failed(self, i: int, task: TaskAttempt, observation: Observation) -> None:
        """Its command failed, and the rest of it waits for what we decide."""
        reason = self.reason_of(task, observation)
        hold = self.policy.hold
        if task.stop is None and hold is not None and can_be_held(reason) and self.held_now < hold.room:
            self.held_now += 1
            self.hold(i, task, reason, hold)
            return
        if task.stop is None:
            task = self.put(i, replace(task, stop=reason))
            if hold is not None and can_be_held(reason):
                self.note("not-held", msg("{task} is not held: {refusal}", task=task.task, refusal=hold.refusal), task)
        self.steps.append(Stop(self.after.attempt_id(task), timedelta()))

    def hold(self, i: int, task: TaskAttempt, reason: Exit, hold: HoldPolicy) -> None:
        held = Held(since=self.now, until=self.now + hold.duration, exit=reason, keep=hold.keep)
        task = self.put(i, replace(task, state=TaskState.HELD, held=held))
        kept = msg("with all it has") if hold.keep is Keep.ALL else msg("its files only")
        text = msg(
            "{task}: {message}; held for {duration}, {kept}",
            task=task.task,
            message=reason.message,
            duration=_show_duration(hold.duration),
            kept=kept,
        )
        self.note("task-held", text, task)
        self.announce(task, held)
        if hold.keep is Keep.FILES:
            self.steps.append(Stop(self.after.attempt_id(task), self.policy.grace))

    def announce(self, task: TaskAttempt, held: Held) -> None:
        told = banner(held.exit.code or 0, HoldPolicy(duration=held.until - held.since, keep=held.keep))
        self.steps.append(Announce(self.after.attempt_id(task), "held", told))

    def answer(self, i: int, task: TaskAttempt, request: HoldRequest) -> None:
        assert task.held is not None
        if request.ask is Ask.RELEASE:
            text = request.why or msg("{task} was released by {actor}", task=task.task, actor=request.actor)
            self.note("hold-ended", text, task, request.actor)
            self.let_go(i, task)
        elif request.ask is Ask.EXTEND and request.until is not None:
            until = request.until
            if self.policy.hold is not None:
                until = min(until, task.held.since + self.policy.hold.longest)
            self.put(i, replace(task, held=replace(task.held, until=until, warned=False)))
            text = msg(
                "{task} is held until {until} UTC: {actor} asked for it",
                task=task.task,
                until=f"{until:%Y-%m-%d %H:%M}",
                actor=request.actor,
            )
            self.note("hold-extended", text, task, request.actor)
        elif request.ask is Ask.KEEP_FILES and task.held.keep is Keep.ALL:
            self.put(i, replace(task, held=replace(task.held, keep=Keep.FILES)))
            self.note(
                "hold-files",
                msg("Only the files of {task} are kept on: {actor} asked for it", task=task.task, actor=request.actor),
                task,
            )
            self.steps.append(Stop(self.after.attempt_id(task), self.policy.grace))

    def let_go(self, i: int, task: TaskAttempt) -> None:
        """It ends as it would have without the hold."""
        assert task.held is not None
        if task.held.ended:
            self.finish(i, task, task.held.exit, task.finished_at)
        elif task.stop is None:
            self.put(i, replace(task, stop=task.held.exit))
            self.steps.append(Stop(self.after.attempt_id(task), self.policy.grace))

    def exited(self, i: int, task: TaskAttempt, observation: Observation) -> None:
        reason = self.reason_of(task, observation)
        if task.stop is not None:
            known = task.stop.code is not None  # it had failed before we ended the rest of it
            reason = task.stop if known else replace(task.stop, code=reason.code, signal=reason.signal)
        self.finish(i, task, reason, observation.finished_at)

    def reason_of(self, task: TaskAttempt, observation: Observation) -> Exit:
        """How its command ended, if nobody had asked it to."""
        code = observation.code if observation.code is not None else 0
        limit = show_bytes(self.job.role(task.role).resources.memory)
        full = observation.message if observation.cause in STOPPED_FOR_DISK else ""
        reason = classify(code, oom=observation.oom, memory_limit=limit, scratch_full=full)
        if reason.kind is not ExitKind.USER_ERROR:
            return reason
        reason = with_cause(reason, str(observation.cause))
        return replace(reason, behaviour=spec_of(reason).behaviour) if self.job.dialect.openpai else reason

    def finish(self, i: int, task: TaskAttempt, reason: Exit, at: datetime | None = None) -> None:
        state = _END_STATES[reason.kind]
        started = task.started_at
        at = max(at or self.now, started) if started else at or self.now
        task = self.put(i, replace(task, state=state, exit=reason, finished_at=at))
        if task.node is not None:
            self.steps.append(Remove(self.after.attempt_id(task)))
        if len(self.tasks) > 1 or state is TaskState.FAILED:
            self.note(f"task-{state.lower()}", join_messages(": ", (task.task, reason.message)), task)

    def place(self, i: int, task: TaskAttempt, place: Assignment) -> None:
        task = self.put(
            i,
            replace(
                task,
                state=TaskState.PREPARING,
                node=place.node,
                gpus=place.gpus,
                ports=dict(place.ports),
                placed_at=self.now,
                retry_at=None,
            ),
        )
        self.start(place.attempt_id, task)

    def refuse(self, decision: Refused) -> None:
        text = msg("System Error: {reasons}", reasons=join_messages("; ", decision.reasons))
        reason = refused_exit(text, Cause.TOO_LARGE)
        self.after = replace(self.after, outcome=Outcome(result=Result.FAILED, message=text, exit=reason))
        self.stop_tasks(Exit(kind=ExitKind.ATTEMPT_OVER, message=msg("The job was refused")))

    def stop_tasks(self, reason: Exit) -> None:
        """Everything that has not ended is to end for `reason`."""
        for i, task in enumerate(self.tasks):
            unstarted = self.starts.pop(self.after.attempt_id(task), None)
            if task.state is TaskState.WAITING or unstarted:
                self.finish(i, task, replace(reason, message=join_messages("", (NEVER_STARTED, reason.message))))
            elif task.state.live and task.state is not TaskState.HELD and task.stop is None:
                self.put(i, replace(task, stop=reason))
                self.steps.append(Stop(self.after.attempt_id(task), self.policy.grace))

    def retry_task(self, i: int, task: TaskAttempt, reason: Exit) -> None:
        verdict = decide_retry(
            limit=self.job.role(task.role).max_task_retries,
            user_retries=task.user_retries,
            platform_retries=task.platform_retries,
            exit=reason,
            chance=self.chance,
        )
        if isinstance(verdict, GiveUp):
            return
        self.put(
            i,
            TaskAttempt(
                role=task.role,
                index=task.index,
                number=task.number + 1,
                user_retries=task.user_retries + verdict.counted,
                platform_retries=task.platform_retries + (not verdict.counted),
                retry_at=self.now + verdict.delay if verdict.delay else None,
            ),
        )
        self.note(
            "task-retry",
            msg("{task} is tried again{delay}: {why}", task=task.task, delay=_in(verdict.delay), why=verdict.why),
            task,
        )

    def end_attempt(self, outcome: Outcome) -> None:
        verdict = decide_retry(
            limit=self.job.max_retries,
            user_retries=self.after.user_retries,
            platform_retries=self.after.platform_retries,
            exit=outcome.exit,
            chance=self.chance,
        )
        if isinstance(verdict, GiveUp) or any(task.held for task in self.tasks):
            change = Change.SUCCEED if outcome.result is Result.SUCCEEDED else Change.FAIL
            self.end(change, outcome.result.value, outcome.message, outcome.exit)
            return
        self.ended = JobAttempt(
            number=self.after.attempt,
            started_at=self.after.attempt_started_at,
            finished_at=self.now,
            outcome=outcome,
            counted=verdict.counted,
        )
        text = msg(
            "{x1}; tried again{delay}: {why}",
            x1=outcome.message.removesuffix("."),
            delay=_in(verdict.delay),
            why=verdict.why,
        )
        self.after = replace(
            self.after,
            retry_at=self.now + verdict.delay,
            outcome=None,
            user_retries=self.after.user_retries + verdict.counted,
            platform_retries=self.after.platform_retries + (not verdict.counted),
        )
        self.move(Change.RETRY, "retry", text)

    def end(self, change: Change, kind: str, text: str, reason: Exit, actor: str = "holdfast") -> None:
        self.after = replace(self.after, exit=reason, finished_at=self.now, retry_at=None)
        self.move(change, kind, text, actor)

    def works(self) -> bool:
        """Something of it is there that does more than being held."""
        return any(task.state.live and task.state is not TaskState.HELD for task in self.tasks)

    def first_code(self) -> int | None:
        return next((task.exit.code for task in self.tasks if task.exit and task.exit.code is not None), None)

    # -- bookkeeping

    def put(self, i: int, task: TaskAttempt) -> TaskAttempt:
        self.tasks[i] = task
        self.changed[task.role, task.index, task.number] = task
        return task

    def start(self, attempt_id: str, task: TaskAttempt) -> None:
        self.starts[attempt_id] = Start(attempt_id, task)

    def move(self, change: Change, kind: str, text: str, actor: str = "holdfast") -> None:
        self.after = replace(self.after, state=transition(self.after.state, change), message=text)
        event = NewEvent(
            kind=kind,
            message=text,
            at=self.now,
            actor=actor,
            attempt=self.after.attempt,
            state=self.after.state,
        )
        self.events.append(event)

    def note(self, kind: str, text: str, task: TaskAttempt | None = None, actor: str = "holdfast") -> None:
        name, attempt = task.task if task else None, self.after.attempt
        self.events.append(NewEvent(kind=kind, message=text, at=self.now, actor=actor, task=name, attempt=attempt))

    def finished_plan(self, elapsed: timedelta | None) -> Plan:
        self.after = replace(self.after, tasks=tuple(self.tasks))
        return Plan(
            after=self.after,
            tasks=tuple(self.changed.values()),
            steps=(*self.starts.values(), *self.steps),
            events=tuple(self.events),
            ended=self.ended,
            wake_in=None if self.after.state.final else self.next_look(elapsed),
        )

    def next_look(self, elapsed: timedelta | None) -> timedelta | None:
        waits = [task.retry_at - self.now for task in self.tasks if task.retry_at]
        held = [task.held for task in self.tasks if task.state is TaskState.HELD and task.stop is None]
        waits += [hold.until - self.now for hold in held if hold]
        warned = [warned_from(hold.since, hold.until) for hold in held if hold and not hold.warned]
        waits += [at - self.now for at in warned if at is not None]
        if self.after.retry_at:
            waits.append(self.after.retry_at - self.now)
        limited = self.after.attempt_started_at and not self.after.outcome and self.works()
        if self.policy.time_limit is not None and limited:
            waits.append(self.policy.time_limit - (elapsed or timedelta()))
        return max(min(waits), timedelta()) if waits else None


_END_STATES = {
    ExitKind.SUCCEEDED: TaskState.SUCCEEDED,
    ExitKind.USER_ERROR: TaskState.FAILED,
    ExitKind.OUT_OF_MEMORY: TaskState.FAILED,
    ExitKind.TIME_LIMIT: TaskState.FAILED,
    ExitKind.REFUSED: TaskState.FAILED,
    ExitKind.PLATFORM: TaskState.FAILED,
    ExitKind.CANCELLED: TaskState.STOPPED,
    ExitKind.ATTEMPT_OVER: TaskState.STOPPED,
}


def _in(delay: timedelta) -> str:
    return msg(" in {delay}", delay=_show_duration(delay)) if delay else ""


def _show_duration(span: timedelta) -> str:
    """3600 s -> 1h; 90 s -> 1m30s."""
    seconds = int(span.total_seconds())
    parts = (
        (seconds // 86400, "d"),
        (seconds // 3600 % 24, "h"),
        (seconds // 60 % 60, "m"),
        (seconds % 60, "s"),
    )
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0s"

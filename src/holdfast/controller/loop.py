"""The controller: read, decide, save, act, for many jobs at a time.

It owns the live state of every job that is not final. Whatever happens (a submission, a stop, a task that ends, a
timer) marks a job; one round plans all marked jobs, places what waits, saves every change in one write, and only then
acts. Rounds never overlap, so while one is being saved the next one gathers.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from holdfast.core.attempt import Debugger, JobSnapshot, Observation, Seen, StopRequest, TaskAttempt
from holdfast.core.backfill import Reckoning
from holdfast.core.blockers import Known, Wait
from holdfast.core.conditions import Condition, ConditionKind, find_blocking
from holdfast.core.errors import HoldfastError, NotFound
from holdfast.core.exits import STOPPED_FOR_DISK, Cause
from holdfast.core.holding import HoldRequest
from holdfast.core.job import Job
from holdfast.core.ledger import Ledger
from holdfast.core.masking import SecretMasker, secret_values
from holdfast.core.placement import (
    GroupUse,
    JobUse,
    NodeUse,
    Placed,
    Quota,
    Refused,
    Verdict,
)
from holdfast.core.placing import place
from holdfast.core.plan import Announce, Policy, Remove, Start, Step, Stop, assignment_of, plan, waiting_of
from holdfast.core.queue import Queue
from holdfast.core.records import Group, NewEvent
from holdfast.core.states import JobState, TaskState
from holdfast.engines.base import Engine, Launch, LetsIn
from holdfast.launching import Gateway, Launcher, Platform, Surroundings
from holdfast.services.changes import Changes
from holdfast.services.control import Usual
from holdfast.shared_folders import SharedFolders
from holdfast.store import jobs as job_rows
from holdfast.store.database import Store
from holdfast.store.errors import StaleVersion

from .artifacts import Collecting
from .diagnosing import Diagnosing, wants_diagnosis
from .explanations import Explanations
from .holds import held_tasks, with_room
from .live import Limits, Live, Round
from .surroundings import SurroundingsOf
from .times import policy_of, reckoning_of, time_limit_of
from .use import use_by_jobs, use_of
from .waits import Standing

log = logging.getLogger(__name__)

STORE_RETRY = 1.0  # seconds between tries while the store refuses to save
PLAN_RETRY = 30.0  # seconds until a job whose planning failed is looked at again
STARTS_AT_ONCE = 16
REMOVALS_AT_ONCE = 4
COLLECTING_LOOK = 1.0  # seconds at least between looks at a job whose time stands still
SLOWEST_LOOK = 3600.0  # seconds; a timer is never set further off
NOT_SAVED = Condition(
    kind=ConditionKind.DATABASE,
    message="Changes to jobs cannot be saved.",
    hint="See the server's log for the database's error. Changes are kept and saved once it works again.",
)


class Controller:
    """One per server. Everything runs on the event loop; nothing here blocks."""

    def __init__(
        self,
        store: Store,
        engine: Engine,
        limits: Limits,
        *,
        groups: Iterable[Group] = (),
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        derive: Callable[[bytes], bytes] | None = None,
        backfill: bool = False,
        folders: SharedFolders | None = None,
        platform: Platform | None = None,
        gateway: Callable[[], Awaitable[Gateway]] | None = None,
        collecting: Collecting | None = None,
    ) -> None:
        """`derive` gives the secret bytes of a purpose (Vault.derive); without it no job has SSH keys of its own.
        Without `folders` no group has a volume, without `collecting` no artifacts are kept."""
        self.store = store
        self.engine = engine
        self.limits = limits
        self.clock = clock
        self.groups = {group.name: group for group in groups}
        self.backfill = backfill
        self.changes = Changes()
        self.queue = Queue()
        self.ledger = Ledger(())
        self._live: dict[str, Live] = {}
        self._marked: set[str] = set()
        self._wake = asyncio.Event()
        self._work: set[asyncio.Task[None]] = set()
        self._conditions: dict[ConditionKind, Condition] = {}
        self._recovered = False
        self._surroundings = SurroundingsOf(
            store, engine, derive, groups=lambda: self.groups, folders=folders, platform=platform, gateway=gateway
        )
        self._starts = asyncio.Semaphore(STARTS_AT_ONCE)
        self._removals = asyncio.Semaphore(REMOVALS_AT_ONCE)
        self._builders = ThreadPoolExecutor(1, thread_name_prefix="launch")  # of its own: others may be held up
        self._explanations = Explanations(self._standing)
        self._diagnosing = Diagnosing(engine)
        self._collecting = collecting
        self._on_end: list[Callable[[str], None]] = []
        self._on_change: list[Callable[[JobSnapshot], None]] = []
        self._on_seen: list[Callable[[Observation], None]] = []
        self._totals: Counter[str] = Counter()

    # -- life

    async def recover(self) -> None:
        """Find everything again: from the store what should be, from the engine what is."""
        await self.engine.open(self.observed, self._engine_changed)
        self._log_engine_conditions()
        self.ledger = Ledger(self.engine.nodes(), self._quotas())
        for snapshot in await self.store.read(job_rows.load_active):
            self._live[snapshot.id] = Live(snapshot)
        alive = [
            (live, task)
            for live in self._live.values()
            for task in live.snapshot.tasks
            if task.state.live and task.node
        ]
        for live, task in alive:
            if task.occupies:
                self.ledger.claim(assignment_of(live.snapshot, task))
            if task.held and task.held.ended:
                live.collected.add(live.snapshot.attempt_id(task))
        ids = [live.snapshot.attempt_id(task) for live, task in alive]
        for observation in (await self.engine.observe(ids)).values():
            self.observed(observation)
        strays = await self.engine.sweep(ids)
        if strays:
            log.warning("stopped tasks that no job owns", extra={"event": "sweep", "attempts": list(strays)})
        self._recovered = True
        self._mark(*self._live)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._round()
            except Exception as error:
                known = isinstance(error, HoldfastError)
                text = "could not save; trying again"
                log.error(text, extra={"event": "save", "error": str(error)}, exc_info=None if known else error)
                self.report_condition(NOT_SAVED)
                await self._make_room()
                await asyncio.sleep(STORE_RETRY)
                self._wake.set()
            else:
                self.resolve_condition(ConditionKind.DATABASE)

    async def _make_room(self) -> None:
        """A full disk may be why: free the files of tasks that have ended, though their end could not be saved yet."""
        for live in list(self._live.values()):
            for observation in list(live.seen.values()):
                is_wanted = live.snapshot.job.hold is not None and observation.cause not in STOPPED_FOR_DISK
                if observation.seen is Seen.EXITED and not is_wanted:
                    with suppress(OSError):
                        await self.engine.remove(observation.attempt_id)

    async def close(self) -> None:
        """Let go. Tasks run on; what was asked of the engine is finished first."""
        for live in self._live.values():
            if live.timer:
                live.timer.cancel()
        if self._work:
            await asyncio.wait(self._work, timeout=5)
        self._builders.shutdown(wait=False)
        self._explanations.close()
        await self.engine.close()

    # -- what services may ask (services.control.Control)

    def added(self, snapshot: JobSnapshot) -> None:
        self._totals[JobState.PENDING] += 1
        self._live.setdefault(snapshot.id, Live(snapshot))
        self._tell(snapshot)
        self._mark(snapshot.id)

    async def stop(self, job_id: str, actor: str, why: str = "") -> bool:
        live = self._live.get(job_id)
        if live is None:
            return False
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        live.stop = live.stop or StopRequest(actor=actor, at=self.clock(), why=why)
        live.acknowledge.append(done)
        self._mark(job_id)
        await done
        return True

    async def ask_hold(self, job_id: str, request: HoldRequest) -> bool:
        live = self._live.get(job_id)
        if live is None:
            return False
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        live.requests.append(request)
        live.acknowledge.append(done)
        self._mark(job_id)
        await done
        return True

    async def revive(self, job_id: str, task: str) -> None:
        live = self._live.get(job_id)
        found = next((each for each in live.snapshot.tasks if each.task == task), None) if live else None
        if live is None or found is None or found.state is not TaskState.HELD or not isinstance(self.engine, LetsIn):
            raise NotFound(f"{task} is not held any more")
        launcher = Launcher(live.snapshot)
        await self.engine.revive(await self._build(launcher, found, await self._surroundings.find(live.snapshot)))

    def debuggers(self, job_id: str) -> dict[str, tuple[Debugger, ...]]:
        live = self._live.get(job_id)
        return live.debuggers.present(self.clock()) if live else {}

    def held(self) -> list[tuple[JobSnapshot, TaskAttempt]]:
        return held_tasks(live.snapshot for live in self._live.values())

    def on_end(self, tell: Callable[[str], None]) -> None:
        """Call it with the id of each job that is final from then on, once that is saved."""
        self._on_end.append(tell)

    def on_seen(self, tell: Callable[[Observation], None]) -> None:
        """Call it with each observation of a task whose job goes on."""
        self._on_seen.append(tell)

    def on_change(self, tell: Callable[[JobSnapshot], None]) -> None:
        """Call it with each job of which something was saved. It must be quick."""
        self._on_change.append(tell)

    async def changed(self, job_id: str, timeout: float) -> None:
        live = self._live.get(job_id)
        if live is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await live.moved.wait()

    def active(self, job_id: str) -> JobSnapshot | None:
        live = self._live.get(job_id)
        return live.snapshot if live else None

    def waiting(self, job_id: str) -> tuple[str, ...]:
        return self._standing().reasons(job_id)

    async def wait_of(self, job_id: str, sees: Callable[[str], bool], usual: Usual, patience: float) -> Wait | None:
        return await self._explanations.of(job_id, sees, usual, patience)

    def known(self, job_id: str) -> Known | None:
        return self._standing().about(job_id)

    def verdict(self, job: Job, user: str) -> Verdict:
        return self._standing().verdict(job, user)

    def _standing(self) -> Standing:
        return Standing(
            queue=self.queue,
            ledger=self.ledger,
            live=self._live,
            policy=self._policy,
            now=self.clock(),
            ticks=asyncio.get_running_loop().time(),
            backfill=self.backfill,
            blocking=tuple(find_blocking(self.conditions())),
        )

    def use(self) -> tuple[list[NodeUse], list[GroupUse]]:
        return use_of(self.ledger, self.groups)

    def use_by_jobs(self) -> list[JobUse]:
        return use_by_jobs(self.ledger, self._live)

    def counts(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for live in self._live.values():
            found[live.snapshot.state] = found.get(live.snapshot.state, 0) + 1
        return found

    def snapshots(self) -> list[JobSnapshot]:
        return [live.snapshot for live in self._live.values()]

    def totals(self) -> dict[str, int]:
        return dict(self._totals)

    def conditions(self) -> tuple[Condition, ...]:
        return (*self._conditions.values(), *self.engine.health().conditions)

    def report_condition(self, condition: Condition) -> None:
        """From now on, until it is resolved. May be called again, also with another text."""
        if self._conditions.get(condition.kind) != condition:
            self._conditions[condition.kind] = condition
            log.warning(condition.message, extra={"event": "condition", "kind": condition.kind.value})
            self._conditions_changed()

    def resolve_condition(self, kind: ConditionKind) -> None:
        """Harmless where there is none."""
        if self._conditions.pop(kind, None) is not None:
            log.info("resolved", extra={"event": "condition", "kind": kind.value})
            self._conditions_changed()

    def _engine_changed(self) -> None:
        """The engine's health is new."""
        self._log_engine_conditions()
        self._conditions_changed()

    def _log_engine_conditions(self) -> None:
        for condition in self.engine.health().conditions:
            said = {"event": "condition", "kind": condition.kind.value, "error": condition.detail}
            log.warning(condition.message, extra=said)

    def _conditions_changed(self) -> None:
        """Jobs may start again, or not any more."""
        self.changes.tell_waiting()
        self._wake.set()

    def groups_changed(self, groups: list[Group]) -> None:
        self.groups = {group.name: group for group in groups}
        self.ledger.quotas = self._quotas()
        self.queue.check_again()
        self.changes.tell_waiting()
        self._wake.set()

    # -- what engines report

    def observed(self, observation: Observation) -> None:
        live = self._live.get(_job_of(observation))
        if live is None:
            return
        observation = _without_secrets(observation, live.snapshot)
        for tell in self._on_seen:
            tell(observation)
        self._hear(live, observation)
        if not wants_diagnosis(live.snapshot, observation):
            self._collect_or_notice(live, observation)
        elif self._diagnosing.begin(observation.attempt_id):
            self._spawn(self._diagnose(live, observation))

    def _hear(self, live: Live, observation: Observation) -> None:
        """Debuggers come and go; the first look after a start only finds again what was told before."""
        before = live.debuggers.by_task()
        event = live.debuggers.hear(live.snapshot, observation, self.clock())
        if event and self._recovered:
            live.told.append(event)
            self._mark(live.snapshot.id)
        if live.debuggers.by_task() != before:
            self._tell(live.snapshot)

    async def _diagnose(self, live: Live, observation: Observation) -> None:
        self._collect_or_notice(live, await self._diagnosing.diagnose(observation))

    def _collect_or_notice(self, live: Live, observation: Observation) -> None:
        collected = observation.attempt_id in live.collected  # its end is told again: its files may be going
        if self._collecting is None or collected or not self._collecting.wants(observation):
            self._notice(observation)
        elif self._collecting.begin(observation.attempt_id):
            self._spawn(self._collect(self._collecting, live, observation))

    async def _collect(self, collecting: Collecting, live: Live, observation: Observation) -> None:
        """Until this is done the plan does not know of its end; the time it takes is not the job's."""
        attempt_id = observation.attempt_id
        live.collecting[attempt_id] = asyncio.get_running_loop().time()
        try:
            event = await collecting.collect(live.snapshot, attempt_id)
            live.told += [event] if event else []
        except Exception:  # a bug of ours must not keep a job from its end
            log.exception("could not keep artifacts", extra={"event": "artifacts", "attempt": attempt_id})
        finally:
            live.collecting.pop(attempt_id, None)
        live.collected.add(attempt_id)
        self._notice(observation)

    def _notice(self, observation: Observation) -> None:
        job_id = _job_of(observation)
        live = self._live.get(job_id)
        if live is None:
            return
        live.seen[observation.attempt_id] = observation
        if observation.elapsed is not None:
            began = asyncio.get_running_loop().time() - observation.elapsed
            live.began = began if live.began is None else min(live.began, began)
        self._mark(job_id)

    # -- one round

    async def _round(self) -> None:
        rounds = self._gather()
        decisions: list[Placed | Refused] = []
        try:
            for job_id in list(rounds):
                self._plan_or_skip(job_id, rounds)
            decisions += self._place(rounds)
            saved = {job_id: work.saved() for job_id, work in rounds.items() if work.matters}
            if saved:
                await self.store.write(job_rows.save, list(saved.values()))
        except StaleVersion as stale:
            self._put_back(rounds, decisions)
            await self._reload(stale.job_id)
            return
        except BaseException:
            self._put_back(rounds, decisions)
            raise
        for job_id, work in rounds.items():
            self._commit(work, saved[job_id].after if job_id in saved else work.after)
        self._tell_saved(rounds, saved)

    def _tell_saved(self, rounds: dict[str, Round], saved: dict[str, job_rows.Saved]) -> None:
        """Who has a page open. Whatever is placed, ends or joins the queue may be why another job waits."""
        for job_id in saved:
            self._tell(rounds[job_id].live.snapshot)
        if saved and len(self.queue):
            self.changes.tell_waiting()

    def _tell(self, snapshot: JobSnapshot) -> None:
        self.changes.tell(snapshot.id, snapshot.job.group, snapshot.user)
        for tell in self._on_change:
            tell(snapshot)

    def _gather(self) -> dict[str, Round]:
        """Take what was noticed; from here on new notices go to the next round."""
        marked, self._marked = self._marked, set()
        rounds = {}
        for job_id in marked:
            live = self._live.get(job_id)
            if live is not None:
                rounds[job_id] = self._take(live)
        return rounds

    def _take(self, live: Live) -> Round:
        work = Round(
            live,
            live.snapshot,
            live.seen,
            live.stop,
            live.requests,
            live.acknowledge,
            live.told,
            events=list(live.told),
        )
        live.seen, live.stop, live.requests, live.acknowledge, live.told = {}, None, [], [], []
        return work

    def _plan_or_skip(self, job_id: str, rounds: dict[str, Round], decision: Placed | Refused | None = None) -> None:
        """One job that cannot be planned, a bug of ours, must not keep the others waiting."""
        try:
            self._plan(rounds[job_id], decision, rounds)
        except Exception:
            log.exception("could not plan a job", extra={"event": "plan", "job": job_id})
            work = rounds.pop(job_id)
            self._put_back({job_id: work}, [decision] if decision else [])
            self._marked.discard(job_id)
            asyncio.get_running_loop().call_later(PLAN_RETRY, self._mark, job_id)

    def _plan(self, work: Round, decision: Placed | Refused | None, rounds: dict[str, Round]) -> None:
        snapshot = work.after
        policy = self._policy(snapshot.job)
        if policy.hold and any(seen.seen is Seen.HELD for seen in work.seen.values()):
            held = held_tasks(self._newest(rounds))
            policy = replace(policy, hold=with_room(policy.hold, self.limits.hold, snapshot.user, held))
        if work.stop is not None and snapshot.stop is None:
            snapshot = replace(snapshot, stop=work.stop)
            told = NewEvent(kind="stop-requested", message=work.stop.asked, at=work.stop.at, actor=work.stop.actor)
            work.events.append(told)
        result = plan(
            snapshot,
            {} if decision else work.seen,
            self.clock(),
            policy,
            decision=decision,
            requests=() if decision else work.requests,
            elapsed=self._elapsed(work.live),
            chance=random.random(),  # noqa: S311 - spreads retries, guards nothing
        )
        work.plans.append(result)
        work.events.extend(result.events)
        self._requeue(work.live, result.after)

    def _newest(self, rounds: dict[str, Round]) -> Iterator[JobSnapshot]:
        """Every job, as this round leaves it."""
        for job_id, live in self._live.items():
            yield rounds[job_id].after if job_id in rounds else live.snapshot

    def _place(self, rounds: dict[str, Round]) -> list[Placed | Refused]:
        """Plan again each job that got a place, or never will."""
        for work in rounds.values():
            self._release_ended(work)
        if find_blocking(self.conditions()):
            return []
        try:
            decisions = place(self.queue, self.ledger, self._reckoning() if self.backfill else None)
        except Exception:  # a bug of ours: what it had claimed so far is not known, and all else has to go on
            log.exception("could not place jobs", extra={"event": "place"})
            self._count_anew(rounds)
            return []
        for decision in decisions:
            job_id = decision.waiting.job_id
            if job_id not in rounds:
                rounds[job_id] = self._take(self._live[job_id])
            self._plan_or_skip(job_id, rounds, decision)
            if isinstance(decision, Placed) and job_id in rounds:
                self._release_unused(decision, rounds[job_id].after)
        return decisions

    def _release_unused(self, decision: Placed, after: JobSnapshot) -> None:
        """A place that the plan did not take: by then the job was to stop, or decided."""
        if not (after.stop or after.outcome or after.state.final):
            return
        taken = {after.attempt_id(task) for task in after.tasks if task.state.live}
        for assignment in decision.assignments:
            if assignment.attempt_id not in taken:
                self.ledger.release(assignment.attempt_id)

    def _count_anew(self, rounds: dict[str, Round]) -> None:
        """Queue and ledger, from the jobs as they stand."""
        self.queue, self.ledger = Queue(), Ledger(self.engine.nodes(), self._quotas())
        for job_id, live in self._live.items():
            snapshot = rounds[job_id].after if job_id in rounds else live.snapshot
            for task in snapshot.tasks:
                if task.occupies:
                    self.ledger.claim(assignment_of(snapshot, task))
            live.queued = ()
            self._requeue(live, snapshot)

    def _release_ended(self, work: Round) -> None:
        for result in work.plans:
            for task in result.tasks:
                if task.state.ended or (task.held and not task.occupies):
                    self.ledger.release(result.after.attempt_id(task))

    def _requeue(self, live: Live, snapshot: JobSnapshot) -> None:
        entries = waiting_of(snapshot, self.clock())
        waiting = {entry.id for entry in entries}
        for id in live.queued:
            if id not in waiting:
                self.queue.remove(id)
        for entry in entries:
            if self.queue.get(entry.id) != entry:
                self.queue.add(entry)
        live.queued = tuple(entry.id for entry in entries)

    def _put_back(self, rounds: dict[str, Round], decisions: list[Placed | Refused]) -> None:
        """Nothing was saved: forget the plans, keep what was noticed, and look at the same jobs again."""
        for decision in decisions:
            if isinstance(decision, Placed):
                for assignment in decision.assignments:
                    self.ledger.release(assignment.attempt_id)
        for job_id, work in rounds.items():
            work.live.seen = {**work.seen, **work.live.seen}
            work.live.stop = work.stop or work.live.stop
            work.live.requests = work.requests + work.live.requests
            work.live.acknowledge = work.acknowledge + work.live.acknowledge
            work.live.told = work.told + work.live.told
            for task in work.before.tasks:
                if task.occupies:
                    self.ledger.claim(assignment_of(work.before, task))
            self._requeue(work.live, work.before)
            self._marked.add(job_id)

    async def _reload(self, job_id: str) -> None:
        """The store is ahead of us: a save that seemed to fail had gone through. Take up from what it says."""
        log.warning("a save had gone through after all", extra={"event": "reload", "job": job_id})
        live = self._live[job_id]
        snapshot = await self.store.read(job_rows.load_snapshot, job_id)
        for task in live.snapshot.tasks:
            self.ledger.release(live.snapshot.attempt_id(task))
        alive = [task for task in snapshot.tasks if task.state.live and task.node]
        for task in alive:
            if task.occupies:
                self.ledger.claim(assignment_of(snapshot, task))
        live.snapshot = snapshot
        self._tell(snapshot)
        self._requeue(live, snapshot)
        if snapshot.state.final:
            live.moved.set()
            self._forget(live)
            return
        for observation in (await self.engine.observe([snapshot.attempt_id(task) for task in alive])).values():
            if observation.attempt_id not in live.seen:
                self.observed(observation)
        self._mark(job_id)

    def _commit(self, work: Round, after: JobSnapshot) -> None:
        """The change is durable: make it the live state, tell who waits, and act."""
        live = work.live
        live.snapshot = after
        if after.attempt != work.before.attempt:
            live.began = None
            live.debuggers.clear()
            live.collected.clear()
        for done in work.acknowledge:
            if not done.done():
                done.set_result(None)
        if after.state is not work.before.state:
            live.moved.set()
            live.moved = asyncio.Event()
        self._set_timer(live, work.plans[-1].wake_in if work.plans else None)
        if after.state.final:
            self._forget(live)
        launcher = Launcher(after)
        by_attempt: dict[str, list[Step]] = {}
        for result in work.plans:
            for step in result.steps:
                by_attempt.setdefault(step.attempt_id, []).append(step)
        for steps in by_attempt.values():
            self._spawn(self._perform(launcher, steps))

    def _forget(self, live: Live) -> None:
        if live.timer:
            live.timer.cancel()
        for id in live.queued:
            self.queue.remove(id)
        self._live.pop(live.snapshot.id, None)
        self._totals[live.snapshot.state] += 1
        for tell in self._on_end:
            tell(live.snapshot.id)
        for done in live.acknowledge:
            if not done.done():
                done.set_result(None)

    def _set_timer(self, live: Live, wake_in: timedelta | None) -> None:
        if live.timer:
            live.timer.cancel()
            live.timer = None
        if wake_in is not None:
            soonest = COLLECTING_LOOK if live.collecting else 0.0
            seconds = min(max(wake_in.total_seconds(), soonest), SLOWEST_LOOK)
            live.timer = asyncio.get_running_loop().call_later(seconds, self._mark, live.snapshot.id)

    # -- acting

    async def _perform(self, launcher: Launcher, steps: list[Step]) -> None:
        """What is to be done about one try of a task, in its order."""
        for step in steps:
            match step:
                case Start():
                    await self._start(launcher, step)
                case Stop():
                    await self.engine.stop(step.attempt_id, step.grace.total_seconds())
                case Remove():
                    await self._remove(step)
                case Announce():
                    await self._announce(step)

    async def _start(self, launcher: Launcher, step: Start) -> None:
        try:
            async with self._starts:
                surroundings = await self._surroundings.find(launcher.snapshot)
                launch = await self._build(launcher, step.task, surroundings)
                hold = self._policy(launcher.snapshot.job).hold is not None
                observation = await self.engine.start(replace(launch, hold=hold) if hold else launch)
        except Exception as error:
            log.exception("could not start a task", extra={"event": "start", "attempt": step.attempt_id})
            text = f"could not be started: {error}"
            observation = Observation(
                attempt_id=step.attempt_id, seen=Seen.REFUSED, message=text, transient=True, cause=Cause.START_FAILED
            )
        self.observed(observation)

    async def _build(self, launcher: Launcher, task: TaskAttempt, surroundings: Surroundings) -> Launch:
        if not launcher.takes_time:
            return launcher.launch(task, surroundings)
        return await asyncio.get_running_loop().run_in_executor(self._builders, launcher.launch, task, surroundings)

    async def _announce(self, step: Announce) -> None:
        """A log that cannot be written must not keep a task from being stopped."""
        try:
            await self.engine.announce(step.attempt_id, step.key, step.text)
        except OSError as error:
            said = {"event": "announce", "attempt": step.attempt_id, "error": str(error)}
            log.warning("could not add to a log", extra=said)

    async def _remove(self, step: Remove) -> None:
        async with self._removals:
            await self.engine.remove(step.attempt_id)

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._work.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        if not task.cancelled() and task.exception():
            log.error("engine call failed", extra={"event": "engine"}, exc_info=task.exception())

    # -- small things

    def _mark(self, *job_ids: str) -> None:
        self._marked.update(job_ids)
        self._wake.set()

    def _elapsed(self, live: Live) -> timedelta | None:
        if live.began is None:
            return None
        return timedelta(seconds=self._ran_until(live) - live.began)

    def _ran_until(self, live: Live) -> float:
        """Now; or when the last of its tasks ended, while artifacts are being kept and nothing runs any more."""
        snapshot = live.snapshot
        if live.collecting and all(
            snapshot.attempt_id(task) in live.collecting for task in snapshot.tasks if task.state.live
        ):
            return max(live.collecting.values())
        return asyncio.get_running_loop().time()

    def _reckoning(self) -> Reckoning:
        return reckoning_of(self._live, self._policy, asyncio.get_running_loop().time())

    def _policy(self, job: Job) -> Policy:
        return policy_of(job, self.limits, self.groups)

    def time_limit(self, job: Job) -> timedelta | None:
        return time_limit_of(job, self.limits, self.groups)

    def _quotas(self) -> dict[str, tuple[Quota, Quota]]:
        return {name: (group.quota, group.user_quota) for name, group in self.groups.items()}


def _without_secrets(observation: Observation, snapshot: JobSnapshot) -> Observation:
    """What an engine says of a task may quote what the task wrote; it is kept with the job."""
    if not snapshot.job.secrets or not (observation.message or observation.warning):
        return observation
    masker = SecretMasker(secret_values(snapshot.job.secrets))
    message, warning = masker.mask_text(observation.message), masker.mask_text(observation.warning)
    return replace(observation, message=message, warning=warning)


def _job_of(observation: Observation) -> str:
    return _job_id(observation.attempt_id)


def _job_id(attempt_id: str) -> str:
    return attempt_id.split(".", 1)[0]

"""The controller: read, decide, save, act, for many jobs at a time.

It owns the live state of every job that is not final. Whatever happens (a submission, a stop, a task that ends, a
timer) marks a job; one round plans all marked jobs, places what waits, saves every change in one write, and only then
acts. Rounds never overlap, so while one is being saved the next one gathers.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from holdfast.core.attempt import Debugger, JobSnapshot, Observation, Seen, StopRequest, TaskAttempt
from holdfast.core.conditions import Condition, ConditionKind, find_blocking
from holdfast.core.errors import HoldfastError, NotFound
from holdfast.core.exits.exit import STOPPED_FOR_DISK
from holdfast.core.holds import HoldRequest
from holdfast.core.job import Job
from holdfast.core.messages import msg
from holdfast.core.records import Group
from holdfast.core.scheduling.blockers import Known, Wait
from holdfast.core.scheduling.ledger import Ledger
from holdfast.core.scheduling.placement import GroupUse, JobUse, NodeUse, Placed, Quota, Refused, Verdict
from holdfast.core.scheduling.queue import Queue
from holdfast.core.states import JobState, TaskState
from holdfast.engines.base import Engine, PreparesStarts, SupportsExec
from holdfast.launching import Gateway, Launcher, Platform
from holdfast.services.control import Usual
from holdfast.services.job_changes import Changes
from holdfast.shared_folders import SharedFolders
from holdfast.store.database import Store
from holdfast.store.errors import StaleVersion
from holdfast.store.jobs import records as job_rows

from .artifacts import Collecting
from .attempts import STRAY_TIMEOUT, AttemptTracker
from .conditions import Conditions
from .explanations import Explanations
from .holds import held_tasks
from .launch_context import SurroundingsOf
from .launches import LaunchBuilder
from .live import Limits, Live, Round, live_attempts
from .planner import Planner
from .scheduler import Decisions, Scheduler
from .task_reports import TaskReports
from .use import use_by_jobs, use_of
from .waits import Standing, explain_impossible

log = logging.getLogger(__name__)

STORE_RETRY = 1.0  # seconds between tries while the store refuses to save
PLAN_RETRY = 30.0  # seconds until a job whose planning failed is looked at again
COLLECTING_LOOK = 1.0  # seconds at least between looks at a job whose time stands still
SLOWEST_LOOK = 3600.0  # seconds; a timer is never set further off
NOT_SAVED = Condition(
    kind=ConditionKind.DATABASE,
    message=msg("Changes to jobs cannot be saved."),
    hint=msg("See the server's log for the database's error. Changes are kept and saved once it works again."),
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
        self.clock = clock
        self.groups = {group.name: group for group in groups}
        self.backfill = backfill
        self.changes = Changes()
        self._live: dict[str, Live] = {}
        self._marked: set[str] = set()
        self._wake = asyncio.Event()
        self._conditions = Conditions(engine, self._conditions_changed)
        self._scheduler = Scheduler(self._now)
        self._planner = Planner(self._live, limits, self._now)
        self._planner.groups = self.groups
        surroundings = SurroundingsOf(
            store, engine, derive, groups=lambda: self.groups, folders=folders, platform=platform, gateway=gateway
        )
        self._launches = LaunchBuilder(surroundings, self._planner.policy)
        self._reports = TaskReports(
            self._live, engine, self._launches, collecting, clock=self._now, mark=self._mark, tell=self._tell
        )
        self.attempts = AttemptTracker(engine, self._reports)
        self._explanations = Explanations(self._standing)
        self._on_end: list[Callable[[JobSnapshot], None]] = []
        self._on_change: list[Callable[[JobSnapshot], None]] = []
        self._totals: Counter[str] = Counter()

    def _now(self) -> datetime:
        return self.clock()

    @property
    def limits(self) -> Limits:
        return self._planner.limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._planner.limits = limits

    @property
    def queue(self) -> Queue:
        return self._scheduler.queue

    @property
    def ledger(self) -> Ledger:
        return self._scheduler.ledger

    # -- life

    async def recover(self) -> None:
        """Find everything again: from the store what should be, from the engine what is."""
        await self.engine.open(self.attempts.hear, self._conditions.engine_changed)
        self._conditions.log_engine()
        self._scheduler.open(self.engine.nodes(), self._quotas())
        for snapshot in await self.store.read(job_rows.load_active):
            self._live[snapshot.id] = Live(snapshot)
            self._scheduler.claim(snapshot)
        await self.attempts.resume(id for live in self._live.values() for id in live_attempts(live.snapshot))
        if strays := await self.attempts.remove_strays():
            await asyncio.wait(strays, timeout=STRAY_TIMEOUT)
        self._reports.tells_debuggers = True
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
                text = msg("could not save; trying again")
                log.error(text, extra={"event": "save", "error": str(error)}, exc_info=None if known else error)
                self.report_condition(NOT_SAVED)
                await self._make_room()
                await asyncio.sleep(STORE_RETRY)
                self._wake.set()
            else:
                self.resolve_condition(ConditionKind.DATABASE)

    async def _make_room(self) -> None:
        """A full disk may be why: free the files of tasks that have ended, though their end could not be saved yet."""
        ended = [
            observation.attempt_id
            for live in self._live.values()
            for observation in live.seen.values()
            if observation.seen is Seen.EXITED
            and (live.snapshot.job.hold is None or observation.cause in STOPPED_FOR_DISK)
        ]
        await self.attempts.free_disk(ended)

    async def close(self) -> None:
        """Let go. Tasks run on; what was asked of the engine is finished first."""
        for live in self._live.values():
            if live.timer:
                live.timer.cancel()
        await self.attempts.close()
        self._launches.close()
        self._explanations.close()
        await self.engine.close()

    # -- what services may ask (services.control.Control)

    def prepare_start(self) -> None:
        if isinstance(self.engine, PreparesStarts):
            self.engine.prepare_start()

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
        if (
            live is None
            or found is None
            or found.state is not TaskState.HELD
            or not isinstance(self.engine, SupportsExec)
        ):
            raise NotFound(msg("{task} is not held any more", task=task))
        await self.engine.revive(await self._launches.build(Launcher(live.snapshot), found))

    def debuggers(self, job_id: str) -> dict[str, tuple[Debugger, ...]]:
        live = self._live.get(job_id)
        return live.debuggers.present(self.clock()) if live else {}

    def held(self) -> list[tuple[JobSnapshot, TaskAttempt]]:
        return held_tasks(live.snapshot for live in self._live.values())

    def on_end(self, tell: Callable[[JobSnapshot], None]) -> None:
        """Call it with each job that is final from then on, once that is saved."""
        self._on_end.append(tell)

    def on_seen(self, tell: Callable[[Observation], None]) -> None:
        """Call it with each observation of a task whose job goes on."""
        self._reports.listeners.append(tell)

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

    def explain_impossible(self, job: Job, user: str) -> tuple[str, ...]:
        return explain_impossible(job, user, self.ledger, self.clock())

    def _standing(self) -> Standing:
        return Standing(
            queue=self.queue,
            ledger=self.ledger,
            live=self._live,
            policy=self._planner.policy,
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
        return self._conditions.current()

    def report_condition(self, condition: Condition) -> None:
        self._conditions.report(condition)

    def resolve_condition(self, kind: ConditionKind) -> None:
        self._conditions.resolve(kind)

    def _conditions_changed(self) -> None:
        """Jobs may start again, or not any more."""
        self.changes.tell_waiting()
        self._wake.set()

    def groups_changed(self, groups: list[Group]) -> None:
        self.groups = self._planner.groups = {group.name: group for group in groups}
        self.ledger.quotas = self._quotas()
        self.queue.check_again()
        self.changes.tell_waiting()
        self._wake.set()

    # -- one round

    async def _round(self) -> None:
        rounds = self._gather()
        decisions: Decisions = []
        try:
            for job_id in list(rounds):
                self._plan_or_skip(job_id, rounds)
            decisions += self._place(rounds)
            saved = {job_id: work.saved() for job_id, work in rounds.items() if work.matters}
            if saved:
                await self.store.write(job_rows.save, list(saved.values()))
        except StaleVersion as stale:
            self._put_back(rounds, decisions)
            self._wake.set()  # for the other jobs
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
        """Take what was noticed; from here on new notifications go to the next round."""
        marked, self._marked = self._marked, set()
        rounds = {}
        for job_id in marked:
            live = self._live.get(job_id)
            if live is not None:
                rounds[job_id] = live.begin_round()
        return rounds

    def _plan_or_skip(self, job_id: str, rounds: dict[str, Round], decision: Placed | Refused | None = None) -> None:
        """One job that cannot be planned, a bug of ours, must not keep the others waiting."""
        try:
            self._planner.plan(rounds[job_id], decision, lambda: self._newest(rounds))
            self._scheduler.enqueue(rounds[job_id].live, rounds[job_id].after)
        except Exception:
            log.exception("could not plan a job", extra={"event": "plan", "job": job_id})
            work = rounds.pop(job_id)
            self._put_back({job_id: work}, [decision] if decision else [])
            self._marked.discard(job_id)
            asyncio.get_running_loop().call_later(PLAN_RETRY, self._mark, job_id)

    def _newest(self, rounds: dict[str, Round]) -> Iterator[JobSnapshot]:
        """Every job, as this round leaves it."""
        for job_id, live in self._live.items():
            yield rounds[job_id].after if job_id in rounds else live.snapshot

    def _place(self, rounds: dict[str, Round]) -> Decisions:
        """Plan again each job that got a place, or never will."""
        for work in rounds.values():
            self._scheduler.release_ended(work.plans)
        if find_blocking(self.conditions()):
            return []
        try:
            decisions = self._scheduler.place(self._planner.reckoning() if self.backfill else None)
        except Exception:  # a bug of ours: what it had claimed so far is not known, and all else has to go on
            log.exception("could not place jobs", extra={"event": "place"})
            self._count_anew(rounds)
            return []
        for decision in decisions:
            job_id = decision.waiting.job_id
            if job_id not in rounds:
                rounds[job_id] = self._live[job_id].begin_round()
            self._plan_or_skip(job_id, rounds, decision)
            if isinstance(decision, Placed) and job_id in rounds:
                self._scheduler.release_unused(decision, rounds[job_id].after)
        return decisions

    def _count_anew(self, rounds: dict[str, Round]) -> None:
        """Queue and ledger, from the jobs as they stand."""
        self._scheduler.open(self.engine.nodes(), self._quotas())
        for job_id, live in self._live.items():
            snapshot = rounds[job_id].after if job_id in rounds else live.snapshot
            self._scheduler.claim(snapshot)
            live.queued = ()
            self._scheduler.enqueue(live, snapshot)

    def _put_back(self, rounds: dict[str, Round], decisions: Decisions) -> None:
        """Nothing was saved: forget the plans, keep what was noticed, and look at the same jobs again."""
        self._scheduler.undo(decisions)
        for job_id, work in rounds.items():
            work.give_back()
            self._scheduler.claim(work.before)
            self._scheduler.enqueue(work.live, work.before)
            self._marked.add(job_id)

    async def _reload(self, job_id: str) -> None:
        """The store is ahead of us: a save that seemed to fail had gone through. Take up from what it says."""
        log.warning("a save had gone through after all", extra={"event": "reload", "job": job_id})
        live = self._live[job_id]
        snapshot = await self.store.read(job_rows.load_snapshot, job_id)
        self._scheduler.release(live.snapshot)
        self._scheduler.claim(snapshot)
        live.snapshot = snapshot
        self._tell(snapshot)
        self._scheduler.enqueue(live, snapshot)
        if snapshot.state.final:
            live.moved.set()
            self._forget(live)
            return
        await self.attempts.resume(live_attempts(snapshot))
        self._mark(job_id)

    def _commit(self, work: Round, after: JobSnapshot) -> None:
        """The change is durable: make it the live state, tell who waits, and act."""
        live = work.live
        live.snapshot = after
        if after.attempt != work.before.attempt:
            live.began = None
            live.debuggers.clear()
            live.failed_starts.clear()
        for done in work.acknowledge:
            if not done.done():
                done.set_result(None)
        if after.state is not work.before.state:
            live.moved.set()
            live.moved = asyncio.Event()
        self._set_timer(live, work.plans[-1].wake_in if work.plans else None)
        if after.state.final:
            self._forget(live)
        self.attempts.apply(Launcher(after), (step for result in work.plans for step in result.steps))

    def _forget(self, live: Live) -> None:
        if live.timer:
            live.timer.cancel()
        self._scheduler.dequeue(live)
        self._live.pop(live.snapshot.id, None)
        self._totals[live.snapshot.state] += 1
        for tell in self._on_end:
            tell(live.snapshot)
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

    # -- small things

    def _mark(self, *job_ids: str) -> None:
        self._marked.update(job_ids)
        self._wake.set()

    def time_limit(self, job: Job) -> timedelta | None:
        return self._planner.time_limit(job)

    def _quotas(self) -> dict[str, tuple[Quota, Quota]]:
        return {name: (group.quota, group.user_quota) for name, group in self.groups.items()}

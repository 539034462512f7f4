"""The controller: reads, decides, saves and acts, for many jobs at a time.

It owns the live state of every active job. Each event (a submission, a stop, a task that ends, a timer) marks a job;
one round plans all marked jobs, places waiting ones, saves all changes in one write, and only then acts. Rounds never
overlap; during a save, events for the next round are collected.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime

from holdfast.core.attempt import Debugger, JobSnapshot, Observation, ObservedState, StopRequest, TaskAttempt
from holdfast.core.conditions import Condition, ConditionKind, list_blocking_conditions
from holdfast.core.errors import HoldfastError, NotFound
from holdfast.core.exits.exit import DISK_STOP_CAUSES
from holdfast.core.holds import HoldRequest
from holdfast.core.job import Job
from holdfast.core.messages import msg
from holdfast.core.records import Group
from holdfast.core.scheduling.blockers import ActiveJob, WaitExplanation
from holdfast.core.scheduling.ledger import Ledger
from holdfast.core.scheduling.placement import (
    GroupUsage,
    JobUsage,
    NodeUsage,
    Placement,
    PlacementRefusal,
    Quota,
    StartPrediction,
)
from holdfast.core.scheduling.queue import Queue
from holdfast.core.states import JobState, TaskState
from holdfast.engines.base import Engine
from holdfast.engines.engine_set import EngineSet
from holdfast.launching import AttemptLaunchBuilder, GatewayAddress, PrimeHubSettings
from holdfast.services.control import UsualDurationLoader
from holdfast.services.job_changes import JobChanges
from holdfast.shared_folders import SharedFolders
from holdfast.store.database import Store
from holdfast.store.errors import StaleVersion
from holdfast.store.jobs import records as job_rows

from .artifacts import ArtifactCollector
from .attempts import ORPHAN_STOP_TIMEOUT, AttemptTracker
from .conditions import DATABASE_CONDITION, Conditions
from .explanations import WaitExplainer
from .holds import list_held_tasks
from .images.credentials import RegistryCredentialsLoader
from .images.pulls import ImagePulls
from .launch_context import LaunchContextBuilder
from .launches import LaunchBuilder
from .live_jobs import JobLimits, JobRound, LiveJob, acknowledge_requests, get_engines_by_attempt, list_live_attempt_ids
from .planner import Planner
from .scheduler import Decisions, Scheduler
from .task_reports import TaskObservationHandler
from .usage import collect_job_usage, collect_usage
from .waits import SchedulingState

log = logging.getLogger(__name__)

STORE_RETRY_INTERVAL = 1.0  # seconds between tries while saving fails
PLAN_RETRY_INTERVAL = 30.0  # seconds until a job whose planning failed is planned again


class Controller:
    """One per server. Everything runs on the event loop; nothing here blocks."""

    def __init__(
        self,
        store: Store,
        engine: Engine | EngineSet,
        limits: JobLimits,
        *,
        groups: Iterable[Group] = (),
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        derive: Callable[[bytes], bytes] | None = None,
        backfill: bool = False,
        folders: SharedFolders | None = None,
        platform: PrimeHubSettings | None = None,
        gateway: Callable[[], Awaitable[GatewayAddress]] | None = None,
        collecting: ArtifactCollector | None = None,
        pulls_images: bool = False,
    ) -> None:
        """`derive` returns the secret bytes of a purpose (Vault.derive); without it no job has SSH keys. Without
        `folders` no group has a volume, without `collecting` no artifacts are saved."""
        self.store = store
        self.engine = engine = EngineSet.wrap(engine)
        self.clock = clock
        self.groups = {group.name: group for group in groups}
        self.backfill = backfill
        self.changes = JobChanges()
        self._live: dict[str, LiveJob] = {}
        self._marked: set[str] = set()
        self._wake = asyncio.Event()
        self._conditions = Conditions(engine, self._handle_condition_change)
        self.planner = Planner(self._live, limits, self._get_time, engine.name)
        self.planner.groups = self.groups
        self.choose_engine, self.get_time_limit = self.planner.choose_engine, self.planner.find_time_limit
        self.images = ImagePulls(
            lambda job: engine.get_engine(self.choose_engine(job)),
            RegistryCredentialsLoader(store).load_credentials,
            self._live,
            clock=self._get_time,
            mark=self._mark_jobs,
            tell=self.changes.publish_wait_reasons,
            may_pull=pulls_images,
        )
        self._scheduler = Scheduler(self._get_time, self.images.is_ready, self.choose_engine)
        surroundings = LaunchContextBuilder(
            store, engine, derive, groups=lambda: self.groups, folders=folders, platform=platform, gateway=gateway
        )
        self._launches = LaunchBuilder(surroundings, self.planner.build_policy)
        self._reports = TaskObservationHandler(
            self._live,
            engine,
            self._launches,
            collecting,
            clock=self._get_time,
            mark=self._mark_jobs,
            tell=self._notify_change,
        )
        self.attempts = AttemptTracker(engine, self._reports)
        self._explanations = WaitExplainer(self._build_scheduling_state, engine)
        self._end_listeners: list[Callable[[JobSnapshot], None]] = []
        self._change_listeners: list[Callable[[JobSnapshot], None]] = []
        self._totals: Counter[str] = Counter()

    def _get_time(self) -> datetime:
        return self.clock()

    @property
    def queue(self) -> Queue:
        return self._scheduler.queue

    @property
    def ledger(self) -> Ledger:
        return self._scheduler.ledger

    # -- lifecycle

    async def recover(self) -> None:
        """Restore the state: desired from the store, actual from the engine."""
        await self.engine.open(self.attempts.handle_observation, self._conditions.handle_engine_change)
        self._conditions.log_engine_conditions()
        self._scheduler.reset(self.engine.list_nodes(), self._get_quotas_by_group())
        for snapshot in await self.store.read(job_rows.load_active_jobs):
            self._live[snapshot.id] = LiveJob(snapshot)
            self._scheduler.claim_job(snapshot)
            self.engine.assign_attempts(get_engines_by_attempt(snapshot))
        await self.attempts.resume_attempts(
            id for live in self._live.values() for id in list_live_attempt_ids(live.snapshot)
        )
        if strays := await self.attempts.remove_orphaned_attempts():
            await asyncio.wait(strays, timeout=ORPHAN_STOP_TIMEOUT)
        self._reports.reports_debuggers = True
        self._mark_jobs(*self._live)

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._run_round()
            except Exception as error:
                known = isinstance(error, HoldfastError)
                text = msg("could not save changes; retrying")
                log.error(text, extra={"event": "save", "error": str(error)}, exc_info=None if known else error)
                self.report_condition(DATABASE_CONDITION)
                await self._free_disk()
                await asyncio.sleep(STORE_RETRY_INTERVAL)
                self._wake.set()
            else:
                self.resolve_condition(ConditionKind.DATABASE)

    async def _free_disk(self) -> None:
        """Free the files of ended tasks, even if their end is not saved: the disk may be full."""
        ended = [
            observation.attempt_id
            for live in self._live.values()
            for observation in live.seen.values()
            if observation.seen is ObservedState.EXITED
            and (live.snapshot.job.hold is None or observation.cause in DISK_STOP_CAUSES)
        ]
        await self.attempts.free_disk(ended)

    async def close(self) -> None:
        """Close everything. Tasks continue to run; engine calls in progress are finished first."""
        for live in self._live.values():
            if live.timer:
                live.timer.cancel()
        await self.images.close()
        await self.attempts.close()
        self._launches.close()
        self._explanations.close()
        await self.engine.close()

    # -- interface for services (services.control.Control)

    def prepare_start(self) -> None:
        self.engine.prepare_start()

    def add_job(self, snapshot: JobSnapshot) -> None:
        self._totals[JobState.PENDING] += 1
        self._live.setdefault(snapshot.id, LiveJob(snapshot))
        self._notify_change(snapshot)
        self._mark_jobs(snapshot.id)

    async def stop_job(self, job_id: str, actor: str, why: str = "") -> bool:
        live = self._live.get(job_id)
        if live is None:
            return False
        live.stop = live.stop or StopRequest(actor=actor, at=self.clock(), why=why)
        await self._plan_and_save(live)
        return True

    async def request_hold_change(self, job_id: str, request: HoldRequest) -> bool:
        live = self._live.get(job_id)
        if live is None:
            return False
        live.requests.append(request)
        await self._plan_and_save(live)
        return True

    async def _plan_and_save(self, live: LiveJob) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        live.acknowledgements.append(done)
        self._mark_jobs(live.snapshot.id)
        await done

    async def revive_task(self, job_id: str, task: str) -> None:
        live = self._live.get(job_id)
        tasks = live.snapshot.tasks if live else ()
        found = next((each for each in tasks if each.task == task and each.state is TaskState.HELD), None)
        if live is None or found is None:
            raise NotFound(msg("{task} is no longer on hold", task=task))
        await self.engine.revive_task(await self._launches.build_launch(AttemptLaunchBuilder(live.snapshot), found))

    def get_debuggers_by_task(self, job_id: str) -> dict[str, tuple[Debugger, ...]]:
        live = self._live.get(job_id)
        return live.debuggers.get_debuggers_by_task(self.clock()) if live else {}

    def list_held_tasks(self) -> list[tuple[JobSnapshot, TaskAttempt]]:
        return list_held_tasks(live.snapshot for live in self._live.values())

    def add_end_listener(self, tell: Callable[[JobSnapshot], None]) -> None:
        """Call `tell` for each job that becomes final, after the save."""
        self._end_listeners.append(tell)

    def add_observation_listener(self, tell: Callable[[Observation], None]) -> None:
        """Call `tell` for each observation of a task of an active job."""
        self._reports.listeners.append(tell)

    def add_change_listener(self, tell: Callable[[JobSnapshot], None]) -> None:
        """Call `tell` for each saved change of a job. It must be quick."""
        self._change_listeners.append(tell)

    async def wait_for_change(self, job_id: str, timeout: float) -> None:
        live = self._live.get(job_id)
        if live is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await live.state_changed.wait()

    def get_active_job(self, job_id: str) -> JobSnapshot | None:
        live = self._live.get(job_id)
        return live.snapshot if live else None

    def list_wait_reasons(self, job_id: str) -> tuple[str, ...]:
        return self._build_scheduling_state().list_wait_reasons(job_id)

    async def explain_wait(
        self, job_id: str, sees: Callable[[str], bool], usual: UsualDurationLoader, timeout: float
    ) -> WaitExplanation | None:
        return await self._explanations.explain_wait(job_id, sees, usual, timeout)

    def find_job_info(self, job_id: str) -> ActiveJob | None:
        return self._build_scheduling_state().find_job_info(job_id)

    def predict_start(self, job: Job, user: str) -> StartPrediction:
        return self._build_scheduling_state().predict_start(job, user)

    def list_impossible_reasons(self, job: Job, user: str) -> tuple[str, ...]:
        return self._build_scheduling_state().list_impossible_reasons(job, user)

    def _build_scheduling_state(self) -> SchedulingState:
        return SchedulingState(
            queue=self.queue,
            ledger=self.ledger,
            live=self._live,
            policy=self.planner.build_policy,
            now=self.clock(),
            loop_time=asyncio.get_running_loop().time(),
            backfill=self.backfill,
            blocking=tuple(list_blocking_conditions(self.list_conditions())),
            explain_images=self.images.explain_wait,
            choose_engine=self.choose_engine,
        )

    def get_usage(self) -> tuple[list[NodeUsage], list[GroupUsage]]:
        return collect_usage(self.ledger, self.groups)

    def list_usage_by_job(self) -> list[JobUsage]:
        return collect_job_usage(self.ledger, self._live)

    def count_jobs_by_state(self) -> dict[str, int]:
        return dict(Counter(live.snapshot.state for live in self._live.values()))

    def list_snapshots(self) -> list[JobSnapshot]:
        return [live.snapshot for live in self._live.values()]

    def get_job_totals(self) -> dict[str, int]:
        return dict(self._totals)

    def list_conditions(self) -> tuple[Condition, ...]:
        return self._conditions.list_conditions()

    def report_condition(self, condition: Condition) -> None:
        self._conditions.report_condition(condition)

    def resolve_condition(self, kind: ConditionKind) -> None:
        self._conditions.resolve_condition(kind)

    def _handle_condition_change(self) -> None:
        """Check again whether jobs can start: nodes may have come or gone."""
        self._scheduler.update_nodes(self.engine.list_nodes())
        self.changes.publish_wait_reasons()
        self._wake.set()

    def update_groups(self, groups: list[Group]) -> None:
        before = {name: group.engine for name, group in self.groups.items()}
        self.groups = self.planner.groups = {group.name: group for group in groups}
        if before != {group.name: group.engine for group in groups}:
            self._mark_jobs(*self._live)
        self.ledger.quotas = self._get_quotas_by_group()
        self.queue.mark_all_unchecked()
        self.changes.publish_wait_reasons()
        self._wake.set()

    # -- one round

    async def _run_round(self) -> None:
        rounds = self._begin_rounds()
        decisions: Decisions = []
        try:
            for job_id in list(rounds):
                self._try_plan_job(job_id, rounds)
                if job_id in rounds and (refusal := self.images.find_refusal(rounds[job_id].after)):
                    self._try_plan_job(job_id, rounds, refusal)
            decisions += self._place_waiting_jobs(rounds)
            saved = {job_id: work.build_job_change() for job_id, work in rounds.items() if work.has_changes}
            if saved:
                await self.store.write(job_rows.save_job_changes, list(saved.values()))
        except StaleVersion as stale:
            self._roll_back_rounds(rounds, decisions)
            self._wake.set()  # for the other jobs
            await self._reload_job(stale.job_id)
            return
        except BaseException:
            self._roll_back_rounds(rounds, decisions)
            raise
        for job_id, work in rounds.items():
            self._commit_round(work, saved[job_id].after if job_id in saved else work.after)
        self._notify_saved_jobs(rounds, saved)

    def _notify_saved_jobs(self, rounds: dict[str, JobRound], saved: dict[str, job_rows.JobChange]) -> None:
        """Notify open pages. Each change may be the reason why another job waits."""
        for job_id in saved:
            self._notify_change(rounds[job_id].live.snapshot)
        if saved and len(self.queue):
            self.changes.publish_wait_reasons()

    def _notify_change(self, snapshot: JobSnapshot) -> None:
        self.changes.publish_job_change(snapshot.id, snapshot.job.group, snapshot.user)
        for tell in self._change_listeners:
            tell(snapshot)

    def _begin_rounds(self) -> dict[str, JobRound]:
        """Take the collected changes; new ones go to the next round."""
        marked, self._marked = self._marked, set()
        return {job_id: live.begin_round() for job_id in marked if (live := self._live.get(job_id)) is not None}

    def _try_plan_job(
        self, job_id: str, rounds: dict[str, JobRound], decision: Placement | PlacementRefusal | None = None
    ) -> None:
        """Plan one job; if that fails, which is a bug, the others continue."""
        try:
            self.planner.plan_job(rounds[job_id], decision, lambda: self._iter_snapshots(rounds))
            self._scheduler.update_queue_entries(rounds[job_id].live, rounds[job_id].after)
        except Exception:
            log.exception("could not plan a job", extra={"event": "plan", "job": job_id})
            work = rounds.pop(job_id)
            self._roll_back_rounds({job_id: work}, [decision] if decision else [])
            self._marked.discard(job_id)
            asyncio.get_running_loop().call_later(PLAN_RETRY_INTERVAL, self._mark_jobs, job_id)

    def _iter_snapshots(self, rounds: dict[str, JobRound]) -> Iterator[JobSnapshot]:
        """Yield every job as of this round."""
        for job_id, live in self._live.items():
            yield rounds[job_id].after if job_id in rounds else live.snapshot

    def _place_waiting_jobs(self, rounds: dict[str, JobRound]) -> Decisions:
        """Plan each job again that was placed or refused."""
        for work in rounds.values():
            self._scheduler.apply_task_changes(work.plans)
        if list_blocking_conditions(self.list_conditions()):
            return []
        try:
            decisions = self._scheduler.place_jobs(self.planner.estimate_times() if self.backfill else None)
        except Exception:  # a bug: its claims are unknown, and other jobs must continue
            log.exception("could not place jobs", extra={"event": "place"})
            self._rebuild_scheduler(rounds)
            return []
        for decision in decisions:
            job_id = decision.waiting.job_id
            if job_id not in rounds:
                rounds[job_id] = self._live[job_id].begin_round()
            self._try_plan_job(job_id, rounds, decision)
            if isinstance(decision, Placement) and job_id in rounds:
                self._scheduler.release_unused_assignments(decision, rounds[job_id].after)
        return decisions

    def _rebuild_scheduler(self, rounds: dict[str, JobRound]) -> None:
        self._scheduler.reset(self.engine.list_nodes(), self._get_quotas_by_group())
        for live, snapshot in zip(self._live.values(), self._iter_snapshots(rounds), strict=True):
            self._scheduler.claim_job(snapshot)
            live.queue_entry_ids = ()
            self._scheduler.update_queue_entries(live, snapshot)

    def _roll_back_rounds(self, rounds: dict[str, JobRound], decisions: Decisions) -> None:
        """Undo the plans of a failed save, keep the collected changes, and mark the jobs again."""
        self._scheduler.undo_decisions(decisions)
        for job_id, work in rounds.items():
            work.restore_changes()
            self._scheduler.claim_job(work.before)
            self._scheduler.update_queue_entries(work.live, work.before)
            self._marked.add(job_id)

    async def _reload_job(self, job_id: str) -> None:
        """Reload a job after a save that seemed to fail but succeeded."""
        log.warning("a save had succeeded; reloaded the job", extra={"event": "reload", "job": job_id})
        live = self._live[job_id]
        snapshot = await self.store.read(job_rows.load_snapshot, job_id)
        self._scheduler.release_job(live.snapshot)
        self._scheduler.claim_job(snapshot)
        live.snapshot = snapshot
        self._notify_change(snapshot)
        self._scheduler.update_queue_entries(live, snapshot)
        if snapshot.state.final:
            live.state_changed.set()
            self._remove_job(live)
            return
        self.engine.assign_attempts(get_engines_by_attempt(snapshot))
        await self.attempts.resume_attempts(list_live_attempt_ids(snapshot))
        self._mark_jobs(job_id)

    def _commit_round(self, work: JobRound, after: JobSnapshot) -> None:
        """After the save: update the live state, notify listeners, and act."""
        live = work.live
        live.snapshot = after
        if after.attempt != work.before.attempt:
            live.began = None
            live.debuggers.clear()
            live.failed_starts.clear()
        live.start_reports.record_events(after, work.events)
        acknowledge_requests(work.acknowledgements)
        if after.state is not work.before.state:
            live.state_changed.set()
            live.state_changed = asyncio.Event()
        live.set_timer(work.plans[-1].wake_in if work.plans else None, self._mark_jobs)
        if after.state is not JobState.PENDING:
            self.images.forget_job(after.id)
        if after.state.final:
            self._remove_job(live)
        self.attempts.apply_steps(AttemptLaunchBuilder(after), (step for result in work.plans for step in result.steps))

    def _remove_job(self, live: LiveJob) -> None:
        if live.timer:
            live.timer.cancel()
        self._scheduler.dequeue_job(live)
        self._live.pop(live.snapshot.id, None)
        self._totals[live.snapshot.state] += 1
        for tell in self._end_listeners:
            tell(live.snapshot)
        acknowledge_requests(live.acknowledgements)

    # -- helpers

    def _mark_jobs(self, *job_ids: str) -> None:
        self._marked.update(job_ids)
        self._wake.set()

    def _get_quotas_by_group(self) -> dict[str, tuple[Quota, Quota]]:
        return {name: (group.quota, group.user_quota) for name, group in self.groups.items()}

"""Explains why jobs wait, from the current queue, ledger and jobs. Computed on request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache

from holdfast.core.attempt import JobSnapshot
from holdfast.core.attempt_id import parse_job_id
from holdfast.core.conditions import Condition
from holdfast.core.job import Job
from holdfast.core.messages import msg
from holdfast.core.planning.steps import JobPolicy
from holdfast.core.planning.task_requests import build_queue_entries
from holdfast.core.scheduling.backfill import TimeEstimates
from holdfast.core.scheduling.blockers import ActiveJob, Blocker, BlockerKind, Estimate, WaitExplanation
from holdfast.core.scheduling.explanations import explain_blockers, find_blockers, find_impossible_reasons
from holdfast.core.scheduling.ledger import Ledger
from holdfast.core.scheduling.placement import QueueEntry, StartPrediction
from holdfast.core.scheduling.queue import Queue
from holdfast.core.scheduling.waits import WaitContext, explain_retry_wait, explain_wait, list_blocking_jobs
from holdfast.core.states import JobState

from .holds import list_held_tasks
from .live_jobs import LiveJobs
from .time_limits import build_expected_estimates

MAX_BLOCKING_JOBS = 20  # jobs of each kind whose usual durations are loaded
BLOCKED_BASIS = msg("The job starts after this problem is resolved.")
ESTIMATE_PENDING_BASIS = msg("The estimate is not ready: the server is busy. Try again in a moment.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingState:
    """The scheduling state at one time."""

    queue: Queue
    ledger: Ledger
    live: LiveJobs
    policy: Callable[[Job], JobPolicy]
    now: datetime
    loop_time: float  # the same time on the loop's clock
    backfill: bool
    blocking: tuple[Condition, ...] = ()  # no job starts while there are any
    explain_images: Callable[[str], WaitExplanation | None] = lambda _: None  # the wait of a job for its images
    choose_engine: Callable[[Job], str] = lambda _: ""
    estimates: TimeEstimates = field(init=False)

    def __post_init__(self) -> None:
        expected = build_expected_estimates(self.live, self.policy, self.loop_time, self.now)
        remembering = replace(
            expected, find_end=cache(expected.find_end), find_max_duration=cache(expected.find_max_duration)
        )
        object.__setattr__(self, "estimates", remembering)

    def snapshot(self) -> SchedulingState:
        """Return a copy for another thread. Jobs may be newer; copying many would block the event loop."""
        return replace(self, queue=self.queue.snapshot(), ledger=self.ledger.snapshot(), live=dict(self.live))

    def get_active_groups(self) -> set[str]:
        """Return groups with running or waiting tasks."""
        return {*self.ledger.group_use, *self.queue.list_groups()}

    def is_queued(self, job_id: str) -> bool:
        """Whether it has entries in the queue and can start."""
        return self._find_active_job(job_id) is not None and bool(self._list_entries(job_id))

    def explain_unqueued(self, job_id: str) -> WaitExplanation | None:
        """Explain the wait for images or for a retry; None if it waits for neither."""
        snapshot = self._find_active_job(job_id)
        return (self.explain_images(job_id) or _explain_retry(snapshot)) if snapshot else None

    def _find_active_job(self, job_id: str) -> JobSnapshot | None:
        live = self.live.get(job_id)
        return live.snapshot if live is not None and live.snapshot.stop is None else None

    def summarize_wait(self, job_id: str) -> WaitExplanation | None:
        """Return its blockers only, without delay; None if it does not wait."""
        if not self.is_queued(job_id):
            return self.explain_unqueued(job_id)
        if self.blocking:
            return self._explain_blocked_job()
        found = (
            find_blockers(entry, self.queue, self.ledger, backfill=self.backfill)
            for entry in self._list_entries(job_id)
        )
        texts = {blocker.text: blocker for each in found for blocker in each}
        return WaitExplanation(blockers=tuple(texts.values()), estimate=Estimate(at=None, basis=ESTIMATE_PENDING_BASIS))

    def list_wait_reasons(self, job_id: str) -> tuple[str, ...]:
        """Return the reasons why it waits; none if it does not."""
        entries = self._list_entries(job_id)
        images = self.explain_images(job_id)
        waits_for_images = tuple(blocker.text for blocker in images.blockers) if images else ()
        return (*waits_for_images, *self._list_blocking_messages(entries), *self._explain_entries(entries))

    def _list_blocking_messages(self, entries: Sequence[QueueEntry]) -> tuple[str, ...]:
        return tuple(condition.message for condition in self.blocking) if entries else ()

    def _explain_blocked_job(self) -> WaitExplanation:
        """Return only the blocking conditions: other reasons would suggest a wrong start."""
        return WaitExplanation(
            blockers=tuple(Blocker(kind=BlockerKind.PLATFORM, text=condition.message) for condition in self.blocking),
            helps=tuple(condition.hint for condition in self.blocking if condition.hint),
            estimate=Estimate(at=None, basis=BLOCKED_BASIS),
        )

    def find_blocking_jobs(self, job_id: str) -> dict[str, ActiveJob]:
        """Return the first jobs that use what it lacks, or are ahead of it."""
        entries = self._list_entries(job_id)
        found = list_blocking_jobs(entries[0], self.queue, self.ledger, MAX_BLOCKING_JOBS) if entries else []
        return {id: known for id in found if (known := self.find_job_info(id))}

    def explain_wait(
        self, job_id: str, sees: Callable[[str], bool], usual: Mapping[str, float]
    ) -> WaitExplanation | None:
        """Explain the wait to a user who sees the jobs of some groups. `usual`: seconds that such jobs took before."""
        entries = self._list_entries(job_id)
        if not entries or self._find_active_job(job_id) is None:
            return self.explain_unqueued(job_id)
        if self.blocking:
            return self._explain_blocked_job()
        return explain_wait(
            entries,
            WaitContext(
                queue=self.queue,
                ledger=self.ledger,
                estimates=self.estimates,
                now=self.now,
                find_job=self.find_job_info,
                can_see_group=sees,
                backfill=self.backfill,
                usual_durations=usual,
            ),
        )

    def predict_start(self, job: Job, user: str) -> StartPrediction:
        """Predict whether this job would start if it were submitted now."""
        never = self.list_impossible_reasons(job, user)
        if never:
            return StartPrediction("never", never)
        entries = self._build_trial_entries(job, user)
        reasons = (*self._list_blocking_messages(entries), *self._explain_entries(entries))
        return StartPrediction("wait" if reasons else "now", reasons)

    def list_impossible_reasons(self, job: Job, user: str) -> tuple[str, ...]:
        """Return why it can never run; none if it can."""
        entries = self._build_trial_entries(job, user)
        reasons = (reason for entry in entries for reason in find_impossible_reasons(entry, self.ledger))
        return tuple(dict.fromkeys(reasons))

    def _build_trial_entries(self, job: Job, user: str) -> tuple[QueueEntry, ...]:
        """Return the queue entries of a job as if it were submitted now."""
        trial = JobSnapshot(id="trial", job=job, user=user, submitted_at=self.now)
        return build_queue_entries(trial, self.now, self.choose_engine(job))

    def _list_entries(self, job_id: str) -> list[QueueEntry]:
        live = self.live.get(job_id)
        found = [self.queue.get(id) for id in live.queue_entry_ids] if live else []
        return [entry for entry in found if entry]

    def _explain_entries(self, entries: Sequence[QueueEntry]) -> tuple[str, ...]:
        placed = dict.fromkeys(parse_job_id(id) for id in self.ledger.assignments) if entries else {}
        jobs = (self.live[id].snapshot for id in placed if id in self.live)
        held = [snapshot.build_attempt_id(task) for snapshot, task in list_held_tasks(jobs)]
        explanations = (
            explain_blockers(entry, self.queue, self.ledger, backfill=self.backfill, held=held) for entry in entries
        )
        return tuple(dict.fromkeys(reason for reasons in explanations for reason in reasons))

    def find_job_info(self, job_id: str) -> ActiveJob | None:
        live = self.live.get(job_id)
        if live is None:
            return None
        snapshot = live.snapshot
        placed = [task for task in snapshot.tasks if task.occupies_node]
        held = snapshot.state is JobState.HELD
        ends = [task.held.until for task in placed if task.held] if held else []
        return ActiveJob(
            name=snapshot.job.name,
            user=snapshot.user,
            group=snapshot.job.group,
            since=min((task.placed_at for task in placed if task.placed_at), default=None),
            until=max(ends) if ends else self._estimate_end(snapshot) if placed else None,
            held=held,
        )

    def _estimate_end(self, snapshot: JobSnapshot) -> datetime | None:
        """Return its latest end by its time limit."""
        task = next(task for task in snapshot.tasks if task.occupies_node)
        end = self.estimates.find_end(snapshot.build_attempt_id(task))
        return None if end is None else self.now + timedelta(seconds=max(0.0, end - self.estimates.now))


def _explain_retry(snapshot: JobSnapshot) -> WaitExplanation | None:
    tries = [task.retry_at for task in snapshot.tasks if task.retry_at is not None and not task.state.live]
    if snapshot.retry_at is not None:
        return explain_retry_wait(snapshot.retry_at, snapshot.message)
    return explain_retry_wait(min(tries)) if tries else None

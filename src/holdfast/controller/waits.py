"""Why jobs wait, as queue, ledger and live jobs stand now. Worked out when somebody asks, never kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache

from holdfast.core.attempt import JobSnapshot
from holdfast.core.attempt_id import job_id_of
from holdfast.core.conditions import Condition
from holdfast.core.job import Job
from holdfast.core.messages import msg
from holdfast.core.plan import Policy, waiting_of
from holdfast.core.scheduling.backfill import TimeEstimates
from holdfast.core.scheduling.blockers import Blocker, BlockerKind, Estimate, Known, Wait
from holdfast.core.scheduling.explanations import blockers, explain, impossible
from holdfast.core.scheduling.ledger import Ledger
from holdfast.core.scheduling.placement import Verdict, Waiting
from holdfast.core.scheduling.queue import Queue
from holdfast.core.scheduling.waits import Scene, in_the_way, wait_for_try, wait_of
from holdfast.core.states import JobState

from .holds import held_tasks
from .live import Lives
from .times import expected_of

MAX_IN_THE_WAY = 20  # jobs of each kind, of which it is asked how long such ones took
BLOCKED = msg("It starts once this is resolved.")
NOT_YET = msg("That is not worked out yet, for many ask at once: ask again in a moment.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How things stand."""

    queue: Queue
    ledger: Ledger
    live: Lives
    policy: Callable[[Job], Policy]
    now: datetime
    ticks: float  # the same instant on the loop's clock
    backfill: bool
    blocking: tuple[Condition, ...] = ()  # while there are any, no job starts
    reckoning: TimeEstimates = field(init=False)

    def __post_init__(self) -> None:
        expected = expected_of(self.live, self.policy, self.ticks, self.now)
        remembering = replace(expected, ends=cache(expected.ends), longest=cache(expected.longest))
        object.__setattr__(self, "reckoning", remembering)

    def still(self) -> Standing:
        """The same, for another thread: what waits and has places stays as it is now. What is known of each job may be
        newer; a copy of that would hold up the loop where there are many."""
        return replace(self, queue=self.queue.still(), ledger=self.ledger.still(), live=dict(self.live))

    def groups(self) -> set[str]:
        """Those that have something, or of which something waits."""
        return {*self.ledger.group_use, *self.queue.groups()}

    def queues(self, job_id: str) -> bool:
        """Something of it stands in the queue, and may start."""
        return self._goes_on(job_id) is not None and bool(self._entries(job_id))

    def next_try(self, job_id: str) -> Wait | None:
        """None where nothing of it waits for one."""
        snapshot = self._goes_on(job_id)
        return _next_try(snapshot) if snapshot else None

    def _goes_on(self, job_id: str) -> JobSnapshot | None:
        live = self.live.get(job_id)
        return live.snapshot if live is not None and live.snapshot.stop is None else None

    def in_short(self, job_id: str) -> Wait | None:
        """Its blockers alone, found at once; None when it does not wait."""
        if not self.queues(job_id):
            return self.next_try(job_id)
        if self.blocking:
            return self._blocked()
        found = (blockers(entry, self.queue, self.ledger, backfill=self.backfill) for entry in self._entries(job_id))
        texts = {blocker.text: blocker for each in found for blocker in each}
        return Wait(blockers=tuple(texts.values()), estimate=Estimate(at=None, basis=NOT_YET))

    def reasons(self, job_id: str) -> tuple[str, ...]:
        """In plain words; none when it does not wait."""
        entries = self._entries(job_id)
        return (*self._blocked_reasons(entries), *self._explain(entries))

    def _blocked_reasons(self, entries: Sequence[Waiting]) -> tuple[str, ...]:
        return tuple(condition.message for condition in self.blocking) if entries else ()

    def _blocked(self) -> Wait:
        """What it lacks besides is not worked out: it would say that the job starts when others end."""
        return Wait(
            blockers=tuple(Blocker(kind=BlockerKind.PLATFORM, text=condition.message) for condition in self.blocking),
            helps=tuple(condition.hint for condition in self.blocking if condition.hint),
            estimate=Estimate(at=None, basis=BLOCKED),
        )

    def in_the_way(self, job_id: str) -> dict[str, Known]:
        """Jobs that have what it lacks, or go before it; the first of them."""
        entries = self._entries(job_id)
        found = in_the_way(entries[0], self.queue, self.ledger, MAX_IN_THE_WAY) if entries else []
        return {id: known for id in found if (known := self.about(id))}

    def wait(self, job_id: str, sees: Callable[[str], bool], usual: Mapping[str, float]) -> Wait | None:
        """Everything about it, for somebody who sees the jobs of some groups. `usual`: how many seconds jobs like some
        that are in its way took before."""
        entries = self._entries(job_id)
        if not entries or self._goes_on(job_id) is None:
            return self.next_try(job_id)
        if self.blocking:
            return self._blocked()
        return wait_of(
            entries,
            Scene(
                queue=self.queue,
                ledger=self.ledger,
                reckoning=self.reckoning,
                now=self.now,
                about=self.about,
                sees=sees,
                backfill=self.backfill,
                usual=usual,
            ),
        )

    def verdict(self, job: Job, user: str) -> Verdict:
        """What would happen if this job were submitted now."""
        never = explain_impossible(job, user, self.ledger, self.now)
        if never:
            return Verdict("never", never)
        entries = _trial_entries(job, user, self.now)
        reasons = (*self._blocked_reasons(entries), *self._explain(entries))
        return Verdict("wait" if reasons else "now", reasons)

    def _entries(self, job_id: str) -> list[Waiting]:
        live = self.live.get(job_id)
        found = [self.queue.get(id) for id in live.queued] if live else []
        return [entry for entry in found if entry]

    def _explain(self, entries: Sequence[Waiting]) -> tuple[str, ...]:
        placed = dict.fromkeys(job_id_of(id) for id in self.ledger.held) if entries else {}
        jobs = (self.live[id].snapshot for id in placed if id in self.live)
        held = [snapshot.attempt_id(task) for snapshot, task in held_tasks(jobs)]
        told = (explain(entry, self.queue, self.ledger, backfill=self.backfill, held=held) for entry in entries)
        return tuple(dict.fromkeys(reason for reasons in told for reason in reasons))

    def about(self, job_id: str) -> Known | None:
        live = self.live.get(job_id)
        if live is None:
            return None
        snapshot = live.snapshot
        placed = [task for task in snapshot.tasks if task.occupies]
        held = snapshot.state is JobState.HELD
        ends = [task.held.until for task in placed if task.held] if held else []
        return Known(
            name=snapshot.job.name,
            user=snapshot.user,
            group=snapshot.job.group,
            since=min((task.placed_at for task in placed if task.placed_at), default=None),
            until=max(ends) if ends else self._end_of(snapshot) if placed else None,
            held=held,
        )

    def _end_of(self, snapshot: JobSnapshot) -> datetime | None:
        """By its time limit, at the latest."""
        task = next(task for task in snapshot.tasks if task.occupies)
        end = self.reckoning.ends(snapshot.attempt_id(task))
        return None if end is None else self.now + timedelta(seconds=max(0.0, end - self.reckoning.now))


def explain_impossible(job: Job, user: str, ledger: Ledger, now: datetime) -> tuple[str, ...]:
    """Why it could never run here; none when it could."""
    entries = _trial_entries(job, user, now)
    return tuple(dict.fromkeys(reason for entry in entries for reason in impossible(entry, ledger)))


def _trial_entries(job: Job, user: str, now: datetime) -> tuple[Waiting, ...]:
    """What of a job would stand in the queue if it were submitted now."""
    return waiting_of(JobSnapshot(id="trial", job=job, user=user, submitted_at=now), now)


def _next_try(snapshot: JobSnapshot) -> Wait | None:
    tries = [task.retry_at for task in snapshot.tasks if task.retry_at is not None and not task.state.live]
    if snapshot.retry_at is not None:
        return wait_for_try(snapshot.retry_at, snapshot.message)
    return wait_for_try(min(tries)) if tries else None

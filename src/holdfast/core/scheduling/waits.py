"""Combines all reasons why a job waits: its request, the queue, usage and time limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from ..attempt_id import parse_job_id
from ..messages import msg
from .backfill import TimeEstimates
from .blockers import (
    ActiveJobLookup,
    Blocker,
    BlockerKind,
    Estimate,
    JobAhead,
    ResourceHolder,
    WaitExplanation,
    format_utc_time,
)
from .estimates import RESOURCES_FREE_BASIS, estimate_start
from .explanations import (
    build_quota_excess_mask,
    describe_queue_position,
    find_impossible_reasons,
    find_own_blockers,
    find_queue_blockers,
)
from .ledger import Ledger
from .placement import Assignment, QueueEntry, Quota, ResourceAmount
from .queue import Queue
from .suggestions import list_suggestions
from .what_if import CheckBudget, list_blocked_entries_ahead, would_start_with_change

MAX_LISTED_HOLDERS = 5  # listed by name
MAX_LISTED_AHEAD = 5
MAX_EXPLAINED_ENTRIES = 5  # of a job without gang scheduling: the first of each size
MAX_BLOCKED_AHEAD = 5  # jobs ahead whose missing resources are checked
_MAX_AHEAD_SCANNED = 200
_ZERO_AMOUNT = ResourceAmount()
HIDDEN_JOB_NAME = msg("a job of another group")


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitContext:
    """The scheduling state, and what the user is allowed to see."""

    queue: Queue
    ledger: Ledger
    estimates: TimeEstimates
    now: datetime
    find_job: ActiveJobLookup
    can_see_group: Callable[[str], bool]  # whether the user can see the jobs of a group
    backfill: bool = False
    usual_durations: Mapping[str, float] = field(default_factory=dict)  # job -> seconds that such jobs took before

    def describe_job(self, job_id: str) -> str:
        known = self.find_job(job_id)
        if known is None:
            return job_id
        return (
            msg("job {name} ({job_id}) of user {user}", name=known.name, job_id=job_id, user=known.user)
            if self.can_see_group(known.group)
            else HIDDEN_JOB_NAME
        )

    def can_show_job(self, job_id: str) -> bool:
        known = self.find_job(job_id)
        return known is None or self.can_see_group(known.group)


def explain_wait(entries: Sequence[QueueEntry], scene: WaitContext) -> WaitExplanation:
    """Explain why these entries of one job wait; details are of the first one."""
    different = {entry.requests[0].amount: entry for entry in reversed(entries)}
    chosen = sorted(different.values(), key=lambda entry: (entry.key, entry.id))[:MAX_EXPLAINED_ENTRIES]
    blockers = {blocker.text: blocker for entry in chosen for blocker in _find_blockers(entry, scene)}
    first = chosen[0]
    ahead, count = _find_jobs_ahead(first, scene)
    wait = WaitExplanation(blockers=tuple(blockers.values()), ahead=ahead, ahead_count=count)
    if any(blocker.kind is BlockerKind.IMPOSSIBLE for blocker in wait.blockers):
        return wait
    if not wait.blockers:
        return replace(wait, estimate=Estimate(at=scene.now, basis=RESOURCES_FREE_BASIS))
    return replace(wait, helps=_list_suggestions(first, scene), estimate=_estimate_start(first, scene))


def _list_suggestions(waiting: QueueEntry, scene: WaitContext) -> tuple[str, ...]:
    stuck = list_blocked_entries_ahead(waiting, scene.queue, scene.ledger)
    lacking = (waiting, *stuck[:MAX_BLOCKED_AHEAD])
    holders = dict.fromkeys(job_id for each in lacking for job_id in _find_holders(each, scene.ledger))
    before = list(dict.fromkeys(other.job_id for other in stuck))
    return list_suggestions(waiting, list(holders), before, scene.queue, scene.ledger, scene)


def list_blocking_jobs(waiting: QueueEntry, queue: Queue, ledger: Ledger, most: int) -> list[str]:
    """Return jobs that use what it lacks, and jobs ahead of it: up to `most` of each."""
    ahead = dict.fromkeys(other.job_id for other in queue.list_entries_ahead(waiting, most))
    return [*_find_holders(waiting, ledger)[:most], *ahead]


def _estimate_start(waiting: QueueEntry, scene: WaitContext) -> Estimate:
    return estimate_start(
        waiting,
        scene.queue,
        scene.ledger,
        scene.estimates,
        now=scene.now,
        name=scene.describe_job,
        find_job=scene.find_job,
        usual=scene.usual_durations,
    )


def explain_retry_wait(at: datetime, last: str = "") -> WaitExplanation:
    """Explain the wait of a failed job for its retry. `last`: result of the previous attempt."""
    after = msg(" Previous attempt: {last}", last=last) if last else ""
    blocker = Blocker(
        kind=BlockerKind.RETRY, text=msg("The next attempt starts at {at}.{after}", at=format_utc_time(at), after=after)
    )
    return WaitExplanation(
        blockers=(blocker,),
        estimate=Estimate(at=at, basis=msg("The next attempt starts then, if enough resources are free.")),
    )


def _find_blockers(waiting: QueueEntry, scene: WaitContext) -> list[Blocker]:
    """Return its blockers; none if the next scheduling pass starts it."""
    queue, ledger = scene.queue, scene.ledger
    never = find_impossible_reasons(waiting, ledger)
    if never:
        return [
            Blocker(kind=BlockerKind.IMPOSSIBLE, text=msg("It can never run on this server: {reason}.", reason=reason))
            for reason in never
        ]
    if would_start_with_change(waiting, queue, ledger, lambda _: None, CheckBudget()):
        return []
    own = [_add_holders(blocker, waiting, scene) for blocker in find_own_blockers(waiting, ledger)]
    behind = find_queue_blockers(waiting, queue, ledger, backfill=scene.backfill and not own)
    ahead = queue.count_entries_ahead_in_group(waiting)
    if ahead:
        behind.append(Blocker(kind=BlockerKind.QUEUE, text=describe_queue_position(ahead, waiting.group)))
    return own + behind or [Blocker(kind=BlockerKind.QUEUE, text=msg("Jobs of other groups are ahead of it."))]


# -- resource holders


def _find_holders(waiting: QueueEntry, ledger: Ledger) -> list[str]:
    """Return every job that uses resources it lacks."""
    lacking = find_own_blockers(waiting, ledger)
    return list(dict.fromkeys(job_id for blocker in lacking for job_id in _find_usage_by_job(blocker, waiting, ledger)))


def _add_holders(blocker: Blocker, waiting: QueueEntry, scene: WaitContext) -> Blocker:
    has = _find_usage_by_job(blocker, waiting, scene.ledger)
    most_first = sorted(has, key=lambda job_id: _compute_freed_share(has[job_id], blocker.lacks), reverse=True)
    holders = tuple(_build_holder(job_id, has[job_id], scene) for job_id in most_first[:MAX_LISTED_HOLDERS])
    return replace(blocker, holders=holders, more_holders=len(has) - len(holders))


def _find_usage_by_job(blocker: Blocker, waiting: QueueEntry, ledger: Ledger) -> dict[str, ResourceAmount]:
    """Return job -> its share of the missing resources."""
    has: dict[str, ResourceAmount] = {}
    missing = build_quota_excess_mask(
        Quota(cpu=0, memory=0, gpu=0), ResourceAmount(), blocker.lacks or ResourceAmount()
    )
    for id, spot in ledger.assignments.items():
        part = _select_usage(blocker.kind, spot, waiting, ledger).elementwise_min(missing)
        if part != _ZERO_AMOUNT or (blocker.kind is BlockerKind.PORTS and spot.ports and spot.node in ledger.free):
            job_id = parse_job_id(id)
            has[job_id] = has[job_id].plus(part) if job_id in has else part
    return has


def _select_usage(kind: BlockerKind, spot: Assignment, waiting: QueueEntry, ledger: Ledger) -> ResourceAmount:
    """Return its usage that counts for this kind of blocker."""
    if kind is BlockerKind.GROUP_QUOTA:
        return spot.amount if spot.group == waiting.group else _ZERO_AMOUNT
    if kind is BlockerKind.USER_QUOTA:
        return spot.amount if spot.group == waiting.group and spot.user == waiting.user else _ZERO_AMOUNT
    return spot.needs if spot.node in ledger.free else _ZERO_AMOUNT


def _compute_freed_share(has: ResourceAmount, lacks: ResourceAmount | None) -> float:
    """Return how much of the missing resources it would free."""
    wanted = lacks or ResourceAmount()
    parts = ((has.cpu, wanted.cpu), (has.memory, wanted.memory), (has.gpu, wanted.gpu))
    return sum(part / whole for part, whole in parts if whole)


def _build_holder(job_id: str, has: ResourceAmount, scene: WaitContext) -> ResourceHolder:
    known = scene.find_job(job_id)
    if known is None:
        return ResourceHolder(job_id=job_id, name="", user="", group="", has=has)
    seen = scene.can_see_group(known.group)
    return ResourceHolder(
        job_id=job_id if seen else "",
        name=known.name if seen else "",
        user=known.user if seen else "",
        group=known.group if seen else "",
        has=has,
        since=known.since,
        until=known.until,
        held=known.held,
    )


# -- jobs ahead


def _find_jobs_ahead(waiting: QueueEntry, scene: WaitContext) -> tuple[tuple[JobAhead, ...], int]:
    """Return the first jobs ahead of it in all groups, and their number."""
    asks: dict[str, ResourceAmount] = {}
    looked_at = scene.queue.list_entries_ahead(waiting, _MAX_AHEAD_SCANNED)
    for other in looked_at:
        if other.job_id != waiting.job_id:
            asks[other.job_id] = asks.get(other.job_id, ResourceAmount()).plus(other.needs)
    count = len(asks) + scene.queue.count_entries_ahead(waiting) - len(looked_at)
    return tuple(_build_job_ahead(job_id, asks[job_id], scene) for job_id in list(asks)[:MAX_LISTED_AHEAD]), count


def _build_job_ahead(job_id: str, asks: ResourceAmount, scene: WaitContext) -> JobAhead:
    known = scene.find_job(job_id)
    if known is None or not scene.can_see_group(known.group):
        return JobAhead(job_id="", name="", user="", group="", asks=asks)
    return JobAhead(job_id=job_id, name=known.name, user=known.user, group=known.group, asks=asks)

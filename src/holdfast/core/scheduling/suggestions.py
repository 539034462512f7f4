"""Suggestions that would let a waiting job start; each was checked."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Protocol

from ..attempt_id import parse_job_id
from ..messages import join_messages, msg
from .blockers import ActiveJobLookup, format_utc_time
from .ledger import Ledger
from .placement import EPSILON, QueueEntry, Quota, ResourceAmount, format_nonzero_amount
from .queue import Queue
from .what_if import CheckBudget, build_job_removal, build_quota_change, find_smaller_requests, would_start_with_change

MAX_TRIED_JOBS = 8  # jobs whose end is checked
MIB = 1 << 20


class JobDescriber(Protocol):
    @property
    def find_job(self) -> ActiveJobLookup: ...

    def describe_job(self, job_id: str) -> str:
        """Return the job's name as the user is allowed to see it."""
        ...

    def can_show_job(self, job_id: str) -> bool: ...


def list_suggestions(
    waiting: QueueEntry, holders: Sequence[str], stuck: Sequence[str], queue: Queue, ledger: Ledger, names: JobDescriber
) -> tuple[str, ...]:
    """Return suggestions, first those that the user can do. `holders`: jobs that use the missing resources of it or of
    jobs ahead. `stuck`: waiting jobs ahead of it."""
    if not holders and ledger.find_queue_node(waiting.engine) is None:
        holders = _list_all_jobs(ledger)
    trial = _SuggestionFinder(waiting, holders, queue, ledger, names, CheckBudget())
    less = [less.text for less in find_smaller_requests(waiting, queue, ledger, CheckBudget())]
    others = [*trial.suggest_releases(), *trial.suggest_waiting()]
    return (*less, *others, *(trial.suggest_queue_changes(stuck) if stuck else ()), *trial.suggest_quotas())


def _list_all_jobs(ledger: Ledger) -> list[str]:
    return list(dict.fromkeys(parse_job_id(id) for id in ledger.assignments))


class _SuggestionFinder:
    def __init__(
        self,
        waiting: QueueEntry,
        holders: Sequence[str],
        queue: Queue,
        ledger: Ledger,
        names: JobDescriber,
        effort: CheckBudget,
    ) -> None:
        self._waiting = waiting
        self._queue = queue
        self._ledger = ledger
        self._names = names
        self._effort = effort
        self._jobs = [job_id for job_id in holders if job_id != waiting.job_id]
        self._known = {job_id: names.find_job(job_id) for job_id in self._jobs}

    def _would_start_without(self, jobs: Iterable[str], turns: Collection[str] = ()) -> bool:
        """`turns`: jobs that have had their turn."""
        change = build_job_removal(self._ledger, jobs)
        return would_start_with_change(self._waiting, self._queue, self._ledger, change, self._effort, without=turns)

    # -- tasks on hold

    def suggest_releases(self) -> Iterator[str]:
        held = [job_id for job_id in self._jobs if self._is_held(job_id)][:MAX_TRIED_JOBS]
        alone = [job_id for job_id in held if self._would_start_without([job_id])]
        for job_id in alone:
            yield self._describe_release(job_id)
        if not alone and len(held) > 1 and self._would_start_without(held):
            yield msg(
                "It would start now if these {count} jobs on hold were released: {jobs}.",
                count=len(held),
                jobs=self._format_job_list(held),
            )

    def _is_held(self, job_id: str) -> bool:
        known = self._known[job_id]
        return known is not None and known.held

    def _describe_release(self, job_id: str) -> str:
        called, until = self._names.describe_job(job_id), self._find_end(job_id)
        kept = msg("is on hold until {until}", until=format_utc_time(until)) if until else msg("is on hold")
        if not self._names.can_show_job(job_id):
            return msg("It would start now if {job}, which failed and {kept}, were released.", job=called, kept=kept)
        return msg(
            "It would start now if {job}, which failed and {kept}, were released: `holdfast release {job_id}`.",
            job=called,
            kept=kept,
            job_id=job_id,
        )

    # -- running jobs

    def suggest_waiting(self) -> Iterator[str]:
        found = self._find_fewest_ending_jobs()
        if found:
            yield self._describe_ends(found)

    def _find_fewest_ending_jobs(self, turns: Collection[str] = ()) -> Sequence[str]:
        """Return jobs whose end would be enough: one, else the first few that end."""
        running = sorted((job_id for job_id in self._jobs if not self._is_held(job_id)), key=self._get_end_sort_key)
        tried = running[:MAX_TRIED_JOBS]
        one = next((job_id for job_id in tried if self._would_start_without([job_id], turns)), None)
        if one is not None:
            return [one]
        counts = range(2, len(tried) + 1)
        return next((tried[:count] for count in counts if self._would_start_without(tried[:count], turns)), [])

    # -- waiting jobs ahead of it

    def suggest_queue_changes(self, stuck: Sequence[str]) -> Iterator[str]:
        if len(stuck) > MAX_TRIED_JOBS:
            yield from self._suggest_many_changes(stuck)
            return
        alone = [job_id for job_id in stuck if self._would_start_without([], [job_id])]
        for job_id in alone:
            yield self._describe_queue_change(job_id)
        if alone:
            return
        if self._would_start_without([], stuck):
            yield msg(
                "It would start now if these {count} jobs were not ahead of it: {jobs}.",
                count=len(stuck),
                jobs=self._format_job_list(stuck),
            )
            return
        ended = self._find_fewest_ending_jobs(stuck)
        if ended and not self._would_start_without(ended):
            before, running = self._format_job_list(stuck), self._format_job_list(ended)
            yield msg(
                "It would start when these jobs ahead of it have run: {before}; and these have ended: {running}.",
                before=before,
                running=running,
            )

    def _suggest_many_changes(self, stuck: Sequence[str]) -> Iterator[str]:
        """The same for too many jobs to name."""
        count = len(stuck)
        if self._would_start_without([], stuck):
            yield msg("It would start now if the {count} jobs ahead of it were not in the queue.", count=count)
            return
        ended = self._find_fewest_ending_jobs(stuck)
        if ended and not self._would_start_without(ended):
            running = self._format_job_list(ended)
            yield msg(
                "It would start when the {count} jobs ahead of it have run and these have ended: {running}.",
                count=count,
                running=running,
            )

    def _describe_queue_change(self, job_id: str) -> str:
        called = self._names.describe_job(job_id)
        if not self._names.can_show_job(job_id):
            return msg("It would start now if {job} were not ahead of it.", job=called)
        return msg(
            "It would start now if {job} were not ahead of it: run `holdfast stop {job_id}` and submit that job again.",
            job=called,
            job_id=job_id,
        )

    def _find_end(self, job_id: str) -> datetime | None:
        known = self._known[job_id]
        return known.until if known else None

    def _get_end_sort_key(self, job_id: str) -> tuple[bool, float]:
        until = self._find_end(job_id)
        return until is None, until.timestamp() if until else 0.0

    def _describe_ends(self, jobs: Sequence[str]) -> str:
        ends = [self._find_end(job_id) for job_id in jobs]
        latest = None if None in ends else max(end for end in ends if end is not None)
        if len(jobs) == 1:
            called = self._names.describe_job(jobs[0])
            if latest is None:
                return msg("It would start when {job} has ended; that job has no time limit.", job=called)
            return msg(
                "It would start when {job} has ended, at {latest} at the latest.",
                job=called,
                latest=format_utc_time(latest),
            )
        listed = self._format_job_list(jobs)
        if latest is None:
            return msg("It would start when these jobs have ended; some have no time limit: {listed}.", listed=listed)
        return msg(
            "It would start when these jobs have ended, at {latest} at the latest: {listed}.",
            latest=format_utc_time(latest),
            listed=listed,
        )

    def _format_job_list(self, jobs: Sequence[str]) -> str:
        return join_messages(", ", (self._names.describe_job(job_id) for job_id in jobs))

    # -- quotas

    def suggest_quotas(self) -> Iterator[str]:
        """Suggest higher quotas, if they would be enough."""
        group, user, total = self._waiting.group, self._waiting.user, self._waiting.total
        of_group, of_user = self._ledger.get_quotas(group)
        more = _raise_quota(of_group, self._ledger.get_group_usage(group).plus(total))
        each = _raise_quota(of_user, self._ledger.get_user_usage(group, user).plus(total))
        for new_group, new_user in ((more, of_user), (of_group, each), (more, each)):
            if (new_group, new_user) != (of_group, of_user) and self._would_start_with_quotas(new_group, new_user):
                yield _describe_quota_raise(
                    group, _select_raised_limits(of_group, new_group), _select_raised_limits(of_user, new_user)
                )
                return

    def _would_start_with_quotas(self, of_group: Quota, of_user: Quota) -> bool:
        change = build_quota_change(self._waiting.group, of_group, of_user)
        return would_start_with_change(self._waiting, self._queue, self._ledger, change, self._effort)


def _raise_quota(quota: Quota, needed: ResourceAmount) -> Quota:
    return Quota(
        cpu=None if quota.cpu is None else max(quota.cpu, round(needed.cpu, 3)),
        memory=None if quota.memory is None else max(quota.memory, _round_up_to_mib(needed.memory)),
        gpu=None if quota.gpu is None else max(quota.gpu, needed.gpu),
    )


def _round_up_to_mib(memory: int) -> int:
    return -(-memory // MIB) * MIB


def _select_raised_limits(before: Quota, after: Quota) -> ResourceAmount:
    """Return the new limits of those that were raised."""
    grown = after.cpu is not None and before.cpu is not None and after.cpu > before.cpu + EPSILON
    return ResourceAmount(
        cpu=after.cpu if grown and after.cpu is not None else 0.0,
        memory=after.memory if after.memory is not None and after.memory != before.memory else 0,
        gpu=after.gpu if after.gpu is not None and after.gpu != before.gpu else 0,
    )


def _describe_quota_raise(group: str, of_group: ResourceAmount, of_user: ResourceAmount) -> str:
    command = " ".join(
        ("holdfast group set", group, *_iter_cli_options("--", of_group), *_iter_cli_options("--user-", of_user))
    )
    if of_user == ResourceAmount():
        return msg(
            "It would start now if an admin raised the quota of group {group} to {of_group}: `{command}`.",
            group=group,
            of_group=format_nonzero_amount(of_group),
            command=command,
        )
    if of_group == ResourceAmount():
        return msg(
            "It would start now if an admin raised each user's quota in {group} to {of_user}: `{command}`.",
            group=group,
            of_user=format_nonzero_amount(of_user),
            command=command,
        )
    return msg(
        "It would start now if an admin raised the quota of {group} to {of_group} and per user to {of_user}: "
        "`{command}`.",
        group=group,
        of_group=format_nonzero_amount(of_group),
        of_user=format_nonzero_amount(of_user),
        command=command,
    )


def _iter_cli_options(prefix: str, amount: ResourceAmount) -> Iterator[str]:
    """Yield each option, then its value."""
    if amount.cpu > EPSILON:
        yield from (f"{prefix}cpu", f"{amount.cpu:g}")
    if amount.memory:
        whole = amount.memory % (1024 * MIB) == 0
        yield from (f"{prefix}memory", f"{amount.memory // (1024 * MIB)}Gi" if whole else f"{amount.memory // MIB}Mi")
    if amount.gpu:
        yield from (f"{prefix}gpu", f"{amount.gpu}")

"""Limits of holds: number of tasks and duration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from holdfast.core.attempt import JobSnapshot, TaskAttempt
from holdfast.core.holds import DEFAULT_HOLD_DURATION, HoldPolicy, resolve_hold_policy
from holdfast.core.job import Job
from holdfast.core.messages import msg
from holdfast.core.states import JobState, TaskState


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldLimits:
    """Limits set by the admin."""

    enabled: bool = True
    duration: timedelta = DEFAULT_HOLD_DURATION
    longest: timedelta = DEFAULT_HOLD_DURATION * 4
    per_user: int = 10
    total: int = 100

    def build_hold_policy(self, job: Job) -> HoldPolicy | None:
        return resolve_hold_policy(job.hold, self.duration, self.longest) if self.enabled else None


def list_held_tasks(snapshots: Iterable[JobSnapshot]) -> list[tuple[JobSnapshot, TaskAttempt]]:
    return [
        (snapshot, task)
        for snapshot in snapshots
        if snapshot.state is JobState.HELD
        for task in snapshot.tasks
        if task.state is TaskState.HELD
    ]


def limit_hold_policy(
    policy: HoldPolicy, limits: HoldLimits, user: str, held: Sequence[tuple[JobSnapshot, TaskAttempt]]
) -> HoldPolicy:
    own = sum(snapshot.user == user for snapshot, _ in held)
    room, room_of_all = limits.per_user - own, limits.total - len(held)
    if room <= room_of_all:
        own = max(own, limits.per_user)  # others may use the remaining holds before the refusal
        refusal = msg(
            "Tasks of {user} on hold: {own}; the limit is {per_user}. Release one with `holdfast release`.",
            user=user,
            own=own,
            per_user=limits.per_user,
        )
        return replace(policy, remaining_holds=room, refusal=refusal)
    refusal = msg(
        "Tasks on hold on this server: {held}; the limit is {total}",
        held=max(len(held), limits.total),
        total=limits.total,
    )
    return replace(policy, remaining_holds=room_of_all, refusal=refusal)

"""What services need of the controller. It is handed in by bootstrap, so that services import nothing above them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Protocol

from holdfast.core.attempt import Debugger, JobSnapshot, TaskAttempt
from holdfast.core.conditions import Condition
from holdfast.core.holds import HoldRequest
from holdfast.core.job import Job
from holdfast.core.records import Group
from holdfast.core.scheduling.blockers import Known, Wait
from holdfast.core.scheduling.placement import GroupUse, JobUse, NodeUse, Verdict

from .job_changes import Changes

Usual = Callable[[Mapping[str, Known]], Awaitable[Mapping[str, float]]]  # jobs -> seconds that such ones took before


class Control(Protocol):
    @property
    def changes(self) -> Changes:
        """Told of each job whose change was saved."""
        ...

    def prepare_start(self) -> None:
        """A job that can start at once is about to be stored."""
        ...

    def added(self, snapshot: JobSnapshot) -> None:
        """A job was durably stored; look at it soon."""
        ...

    async def stop(self, job_id: str, actor: str, why: str = "") -> bool:
        """Ask for a job to stop. Returns once the wish is durable; False when the job is final already. `why` is told
        of a stop that nobody asked for by hand."""
        ...

    async def ask_hold(self, job_id: str, request: HoldRequest) -> bool:
        """Ask something of the job's held tasks. Returns once it is durable; False when the job is final already."""
        ...

    async def changed(self, job_id: str, timeout: float) -> None:
        """Wait until the job's state changes or it is final; returns at once when it is not active."""
        ...

    def active(self, job_id: str) -> JobSnapshot | None:
        """The live state of a job that is not final."""
        ...

    def debuggers(self, job_id: str) -> dict[str, tuple[Debugger, ...]]:
        """Debuggers in its tasks, by task; those that wait, and those that somebody is at."""
        ...

    def held(self) -> list[tuple[JobSnapshot, TaskAttempt]]:
        """Every task that is held."""
        ...

    def waiting(self, job_id: str) -> tuple[str, ...]:
        """Why it waits, in plain words; empty when it does not."""
        ...

    async def wait_of(self, job_id: str, sees: Callable[[str], bool], usual: Usual, patience: float) -> Wait | None:
        """All that keeps it waiting, for somebody who sees the jobs of some groups; None when it does not wait.
        `usual` is asked, for jobs in its way, how many seconds such jobs took before, as far as it is known. What is
        not worked out within `patience` seconds, because others ask too, is left out."""
        ...

    def known(self, job_id: str) -> Known | None:
        """What is known of a job that is not final."""
        ...

    def verdict(self, job: Job, user: str) -> Verdict:
        """What would happen if this job were submitted now."""
        ...

    def explain_impossible(self, job: Job, user: str) -> tuple[str, ...]:
        """Why this job could never run here, whatever else runs; none when it could. Quick, unlike `verdict`."""
        ...

    def time_limit(self, job: Job) -> timedelta | None:
        """The limit in force for an attempt of this job: its own, its group's, or the admin's; None: no limit."""
        ...

    def use(self) -> tuple[list[NodeUse], list[GroupUse]]:
        """What is in use, per machine and per group."""
        ...

    def use_by_jobs(self) -> list[JobUse]:
        """Every job that has places on machines, and what it has in use; those that have had theirs longest first."""
        ...

    def counts(self) -> dict[str, int]:
        """How many jobs are in each state that is not final."""
        ...

    def snapshots(self) -> list[JobSnapshot]:
        """Every job that is not final, as it stands."""
        ...

    def totals(self) -> dict[str, int]:
        """Since this server started: how many jobs were submitted (under Pending), and ended in each final state."""
        ...

    def conditions(self) -> tuple[Condition, ...]:
        """Current problems of the installation, for anyone to read."""
        ...

    def groups_changed(self, groups: list[Group]) -> None:
        """Quotas changed."""
        ...

    async def revive(self, job_id: str, task: str) -> None:
        """Let a task that is held with its files only be entered. Harmless when it can be; NotFound when it is not held
        any more, ExecRefused when its files cannot be entered."""
        ...

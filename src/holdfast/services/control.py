"""The interface of the controller for services. Bootstrap passes it in, so that services do not import it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Protocol

from holdfast.core.attempt import Debugger, JobSnapshot, TaskAttempt
from holdfast.core.conditions import Condition
from holdfast.core.holds import HoldRequest
from holdfast.core.job import Job
from holdfast.core.records import Group
from holdfast.core.scheduling.blockers import ActiveJob, WaitExplanation
from holdfast.core.scheduling.placement import GroupUsage, JobUsage, NodeUsage, StartPrediction

from .job_changes import JobChanges

UsualDurationLoader = Callable[
    [Mapping[str, ActiveJob]], Awaitable[Mapping[str, float]]
]  # jobs -> usual duration in seconds


class Control(Protocol):
    @property
    def changes(self) -> JobChanges:
        """Publishes each saved change of a job."""
        ...

    def prepare_start(self) -> None:
        """Prepare for a job that is about to be stored and may start at once."""
        ...

    def add_job(self, snapshot: JobSnapshot) -> None:
        """Schedule a job that was durably stored."""
        ...

    async def stop_job(self, job_id: str, actor: str, why: str = "") -> bool:
        """Request a stop and wait until it is durable. False if the job is already final. `why`: the reason of an
        automatic stop."""
        ...

    async def request_hold_change(self, job_id: str, request: HoldRequest) -> bool:
        """Request a change of the job's holds and wait until it is durable. False if the job is already final."""
        ...

    async def wait_for_change(self, job_id: str, timeout: float) -> None:
        """Wait until the job's state changes; return at once if it is not active."""
        ...

    def get_active_job(self, job_id: str) -> JobSnapshot | None:
        """Return the live state of a job; None if it is final."""
        ...

    def get_debuggers_by_task(self, job_id: str) -> dict[str, tuple[Debugger, ...]]:
        """Return the debuggers of a job by task, waiting and attached ones."""
        ...

    def list_held_tasks(self) -> list[tuple[JobSnapshot, TaskAttempt]]: ...

    def list_wait_reasons(self, job_id: str) -> tuple[str, ...]:
        """Return why the job is pending; empty if it is not."""
        ...

    async def explain_wait(
        self, job_id: str, sees: Callable[[str], bool], usual: UsualDurationLoader, timeout: float
    ) -> WaitExplanation | None:
        """Explain why the job is pending; None if it is not. `sees`: whether the reader can see jobs of a group.
        `usual`: loads usual durations of the jobs ahead. Parts not computed within `timeout` seconds are left out."""
        ...

    def find_job_info(self, job_id: str) -> ActiveJob | None:
        """Return the scheduler's data on a job; None if it is final."""
        ...

    def predict_start(self, job: Job, user: str) -> StartPrediction:
        """Predict what happens if this job is submitted now."""
        ...

    def list_impossible_reasons(self, job: Job, user: str) -> tuple[str, ...]:
        """Return why this job can never run, whatever else runs; empty if it can. Fast, unlike a full prediction."""
        ...

    def choose_engine(self, job: Job) -> str:
        """Return the name of the engine that would run this job now."""
        ...

    def get_time_limit(self, job: Job) -> timedelta | None:
        """Return the time limit in force for an attempt: the job's, its group's or the server's. None: no limit."""
        ...

    def get_usage(self) -> tuple[list[NodeUsage], list[GroupUsage]]:
        """Return the resources in use, per node and per group."""
        ...

    def list_usage_by_job(self) -> list[JobUsage]:
        """Return the resources in use by each placed job, oldest placement first."""
        ...

    def count_jobs_by_state(self) -> dict[str, int]:
        """Count jobs in each state that is not final."""
        ...

    def list_snapshots(self) -> list[JobSnapshot]: ...

    def get_job_totals(self) -> dict[str, int]:
        """Count jobs since the server started: submitted (as Pending), and ended in each final state."""
        ...

    def list_conditions(self) -> tuple[Condition, ...]:
        """Return current problems of the installation; public."""
        ...

    def update_groups(self, groups: list[Group]) -> None: ...

    async def revive_task(self, job_id: str, task: str) -> None:
        """Make sessions possible in a task of which only the files are on hold. Idempotent. NotFound if it is no longer
        on hold, ExecRefused if it is not possible."""
        ...

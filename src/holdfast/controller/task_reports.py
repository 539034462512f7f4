"""Passes observations of tasks from the engine to the plan.

A task that failed or ended is finalized first: its cause is searched in its log, and its artifacts are saved. This is
one step, saved only with the plan's own change: a server that crashes repeats it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from holdfast.core.attempt import JobSnapshot, Observation
from holdfast.core.attempt_id import AttemptId, parse_job_id
from holdfast.core.masking import SecretMasker, iter_maskable_secret_values
from holdfast.core.messages import msg
from holdfast.core.planning.steps import StartStep
from holdfast.core.records import NewEvent
from holdfast.engines.base import Engine, LaunchSpec
from holdfast.launching import AttemptLaunchBuilder

from .artifacts import ArtifactCollector
from .cause_finder import CauseFinder, should_diagnose
from .launches import LaunchBuilder
from .live_jobs import LiveJob, LiveJobs, list_live_attempt_ids

log = logging.getLogger(__name__)


class TaskObservationHandler:
    """The handler of the AttemptTracker."""

    def __init__(
        self,
        lives: LiveJobs,
        engine: Engine,
        launches: LaunchBuilder,
        collecting: ArtifactCollector | None,
        *,
        clock: Callable[[], datetime],
        mark: Callable[[str], None],
        tell: Callable[[JobSnapshot], None],
    ) -> None:
        """`mark` schedules planning of a job; `tell` reports an unsaved change of it."""
        self._lives = lives
        self._launches = launches
        self._cause_finder = CauseFinder(engine)
        self._collector = collecting
        self._clock = clock
        self._schedule_planning = mark
        self._notify_change = tell
        self.listeners: list[Callable[[Observation], None]] = []
        self.reports_debuggers = False  # observations right after a start were reported before

    async def build_launch(self, launcher: AttemptLaunchBuilder, start: StartStep) -> LaunchSpec | Observation:
        return await self._launches.build_start_launch(launcher, start)

    def get_live_attempt_ids(self) -> set[str]:
        return {id for live in self._lives.values() for id in list_live_attempt_ids(live.snapshot)}

    def mask_secrets(self, observation: Observation) -> Observation:
        """Mask secrets: an engine's message may quote the task's output, and is stored."""
        live = self._find_job(observation.attempt_id)
        if live is None or not live.snapshot.job.secrets or not (observation.message or observation.warning):
            return observation
        masker = SecretMasker(iter_maskable_secret_values(live.snapshot.job.secrets))
        message, warning = masker.mask_text(observation.message), masker.mask_text(observation.warning)
        return replace(observation, message=message, warning=warning)

    def record_observation(self, observation: Observation) -> None:
        live = self._find_job(observation.attempt_id)
        if live is not None:
            for listener in self.listeners:
                listener(observation)
            self._record_debuggers(live, observation)

    def _record_debuggers(self, live: LiveJob, observation: Observation) -> None:
        before = live.debuggers.group_by_task()
        event = live.debuggers.record_observation(live.snapshot, observation, self._clock())
        if event and self.reports_debuggers:
            live.unsaved_events.append(event)
            self._schedule_planning(live.snapshot.id)
        if live.debuggers.group_by_task() != before:
            self._notify_change(live.snapshot)

    def should_finalize(self, observation: Observation) -> bool:
        live = self._find_job(observation.attempt_id)
        if live is None:
            return False
        return should_diagnose(live.snapshot, observation) or self._should_collect(live, observation)

    async def finalize_observation(self, observation: Observation) -> Observation:
        """Add its cause, if one is found, and collect artifacts."""
        live = self._find_job(observation.attempt_id)
        if live is not None and should_diagnose(live.snapshot, observation):
            observation = await self._cause_finder.add_cause(observation)
        if live is not None and self._should_collect(live, observation):
            await self._collect_artifacts(live, observation.attempt_id)
        return observation

    def report_observation(self, observation: Observation) -> None:
        live = self._find_job(observation.attempt_id)
        if live is None:
            return
        live.seen[observation.attempt_id] = observation
        live.start_reports.record_observation(observation)
        if observation.elapsed is not None:
            began = asyncio.get_running_loop().time() - observation.elapsed
            live.began = began if live.began is None else min(live.began, began)
        self._schedule_planning(live.snapshot.id)

    def record_failed_start(self, attempt_id: str, error: Exception) -> None:
        """Report a failed start once."""
        live = self._find_job(attempt_id)
        if live is not None and attempt_id not in live.failed_starts:
            live.failed_starts.add(attempt_id)
            id = AttemptId.parse(attempt_id)
            text = msg(
                "{task} has not started yet: {error}. Retrying.", task=id.task, error=str(error) or type(error).__name__
            )
            live.unsaved_events.append(
                NewEvent(kind="warning", message=text, at=self._clock(), task=id.task, attempt=id.attempt)
            )
            self._schedule_planning(live.snapshot.id)

    def _should_collect(self, live: LiveJob, observation: Observation) -> bool:
        """Whether to collect artifacts; those of a held task were collected before."""
        if self._collector is None or not self._collector.should_collect(observation):
            return False
        held = [live.snapshot.build_attempt_id(task) for task in live.snapshot.tasks if task.held and task.held.ended]
        return observation.attempt_id not in held

    async def _collect_artifacts(self, live: LiveJob, attempt_id: str) -> None:
        """Collect artifacts; the time does not count for the job."""
        assert self._collector is not None
        live.collecting[attempt_id] = asyncio.get_running_loop().time()
        try:
            event = await self._collector.collect_artifacts(live.snapshot, attempt_id)
            live.unsaved_events += [event] if event else []
        except Exception:  # a bug must not prevent the end of a job
            log.exception("could not save artifacts", extra={"event": "artifacts", "attempt": attempt_id})
        finally:
            live.collecting.pop(attempt_id, None)

    def _find_job(self, attempt_id: str) -> LiveJob | None:
        return self._lives.get(parse_job_id(attempt_id))

"""What is seen of tasks, on its way from the engine to the plan.

A task that failed or ended is settled first: its cause is looked for in its log, and its artifacts are kept. That is
one step, and nothing of it is saved before the plan's own change: a server that dies meanwhile begins it again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from holdfast.core.attempt import JobSnapshot, Observation
from holdfast.core.attempt_id import AttemptId, job_id_of
from holdfast.core.masking import SecretMasker, secret_values
from holdfast.core.messages import msg
from holdfast.core.plan import Start
from holdfast.core.records import NewEvent
from holdfast.engines.base import Engine, Launch
from holdfast.launching import Launcher

from .artifacts import Collecting
from .diagnosing import Diagnosing, wants_diagnosis
from .launches import LaunchBuilder
from .live import Live, Lives, live_attempts

log = logging.getLogger(__name__)


class TaskReports:
    """The handler of the AttemptTracker."""

    def __init__(
        self,
        lives: Lives,
        engine: Engine,
        launches: LaunchBuilder,
        collecting: Collecting | None,
        *,
        clock: Callable[[], datetime],
        mark: Callable[[str], None],
        tell: Callable[[JobSnapshot], None],
    ) -> None:
        """`mark` has a job planned soon; `tell` says that something about it changed which is not saved."""
        self._lives = lives
        self._launches = launches
        self._diagnosing = Diagnosing(engine)
        self._collecting = collecting
        self._clock = clock
        self._mark = mark
        self._tell = tell
        self.listeners: list[Callable[[Observation], None]] = []
        self.tells_debuggers = False  # the first look after a start only finds again what was told before

    async def build_launch(self, launcher: Launcher, start: Start) -> Launch | Observation:
        return await self._launches.build_to_start(launcher, start)

    def live_attempts(self) -> set[str]:
        return {id for live in self._lives.values() for id in live_attempts(live.snapshot)}

    def mask(self, observation: Observation) -> Observation:
        """What an engine says of a task may quote what the task wrote; it is kept with the job."""
        live = self._find(observation.attempt_id)
        if live is None or not live.snapshot.job.secrets or not (observation.message or observation.warning):
            return observation
        masker = SecretMasker(secret_values(live.snapshot.job.secrets))
        message, warning = masker.mask_text(observation.message), masker.mask_text(observation.warning)
        return replace(observation, message=message, warning=warning)

    def note_observation(self, observation: Observation) -> None:
        live = self._find(observation.attempt_id)
        if live is not None:
            for listener in self.listeners:
                listener(observation)
            self._note_debuggers(live, observation)

    def _note_debuggers(self, live: Live, observation: Observation) -> None:
        before = live.debuggers.by_task()
        event = live.debuggers.hear(live.snapshot, observation, self._clock())
        if event and self.tells_debuggers:
            live.told.append(event)
            self._mark(live.snapshot.id)
        if live.debuggers.by_task() != before:
            self._tell(live.snapshot)

    def needs_settling(self, observation: Observation) -> bool:
        live = self._find(observation.attempt_id)
        if live is None:
            return False
        return wants_diagnosis(live.snapshot, observation) or self._wants_artifacts(live, observation)

    async def settle(self, observation: Observation) -> Observation:
        """With its cause, where one is found."""
        live = self._find(observation.attempt_id)
        if live is not None and wants_diagnosis(live.snapshot, observation):
            observation = await self._diagnosing.diagnose(observation)
        if live is not None and self._wants_artifacts(live, observation):
            await self._collect(live, observation.attempt_id)
        return observation

    def report(self, observation: Observation) -> None:
        live = self._find(observation.attempt_id)
        if live is None:
            return
        live.seen[observation.attempt_id] = observation
        if observation.elapsed is not None:
            began = asyncio.get_running_loop().time() - observation.elapsed
            live.began = began if live.began is None else min(live.began, began)
        self._mark(live.snapshot.id)

    def note_failed_start(self, attempt_id: str, error: Exception) -> None:
        """Told once: it may go on for a while."""
        live = self._find(attempt_id)
        if live is not None and attempt_id not in live.failed_starts:
            live.failed_starts.add(attempt_id)
            id = AttemptId.parse(attempt_id)
            text = msg(
                "{task} has not started yet: {error}. Retrying.", task=id.task, error=str(error) or type(error).__name__
            )
            live.told.append(NewEvent(kind="warning", message=text, at=self._clock(), task=id.task, attempt=id.attempt))
            self._mark(live.snapshot.id)

    def _wants_artifacts(self, live: Live, observation: Observation) -> bool:
        """Those of one that was held until it ended were kept then."""
        if self._collecting is None or not self._collecting.wants(observation):
            return False
        held = [live.snapshot.attempt_id(task) for task in live.snapshot.tasks if task.held and task.held.ended]
        return observation.attempt_id not in held

    async def _collect(self, live: Live, attempt_id: str) -> None:
        """The time it takes is not the job's."""
        assert self._collecting is not None
        live.collecting[attempt_id] = asyncio.get_running_loop().time()
        try:
            event = await self._collecting.collect(live.snapshot, attempt_id)
            live.told += [event] if event else []
        except Exception:  # a bug of ours must not keep a job from its end
            log.exception("could not keep artifacts", extra={"event": "artifacts", "attempt": attempt_id})
        finally:
            live.collecting.pop(attempt_id, None)

    def _find(self, attempt_id: str) -> Live | None:
        return self._lives.get(job_id_of(attempt_id))

"""Builds launches: collects their context, and does slow work outside the event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from holdfast.core.attempt import Observation, ObservedState, TaskAttempt
from holdfast.core.exits.exit import Cause
from holdfast.core.job import Job
from holdfast.core.messages import msg
from holdfast.core.planning.steps import JobPolicy, StartStep
from holdfast.engines.base import LaunchSpec
from holdfast.launching import AttemptLaunchBuilder

from .launch_context import LaunchContextBuilder

log = logging.getLogger(__name__)


class LaunchBuilder:
    def __init__(self, surroundings: LaunchContextBuilder, policy: Callable[[Job], JobPolicy]) -> None:
        self._contexts = surroundings
        self._policy = policy
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="launch")  # separate: other threads may be blocked

    def close(self) -> None:
        self._thread.shutdown(wait=False)

    async def build_launch(self, launcher: AttemptLaunchBuilder, task: TaskAttempt) -> LaunchSpec:
        surroundings = await self._contexts.build_context(launcher.snapshot)
        if not launcher.needs_thread:
            return launcher.build_launch(task, surroundings)
        return await asyncio.get_running_loop().run_in_executor(self._thread, launcher.build_launch, task, surroundings)

    async def build_start_launch(self, launcher: AttemptLaunchBuilder, start: StartStep) -> LaunchSpec | Observation:
        """Build a launch; a refusal if that fails: nothing was started, so it can be retried."""
        try:
            launch = await self.build_launch(launcher, start.task)
        except Exception as error:
            log.exception("could not start a task", extra={"event": "start", "attempt": start.attempt_id})
            text = msg("could not start: {error}", error=error)
            return Observation(
                attempt_id=start.attempt_id,
                seen=ObservedState.REFUSED,
                message=text,
                transient=True,
                cause=Cause.START_FAILED,
            )
        policy = self._policy(launcher.snapshot.job)
        limit = launch.time_limit if policy.time_limit is None else policy.time_limit.total_seconds()
        return replace(launch, hold=policy.hold is not None, time_limit=limit)

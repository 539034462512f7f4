"""Builds launches: looks up what a job needs to know, and takes what needs time out of the event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from holdfast.core.attempt import Observation, Seen, TaskAttempt
from holdfast.core.exits.exit import Cause
from holdfast.core.job import Job
from holdfast.core.messages import msg
from holdfast.core.plan import Policy, Start
from holdfast.engines.base import Launch
from holdfast.launching import Launcher

from .launch_context import SurroundingsOf

log = logging.getLogger(__name__)


class LaunchBuilder:
    def __init__(self, surroundings: SurroundingsOf, policy: Callable[[Job], Policy]) -> None:
        self._surroundings = surroundings
        self._policy = policy
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="launch")  # of its own: others may be held up

    def close(self) -> None:
        self._thread.shutdown(wait=False)

    async def build(self, launcher: Launcher, task: TaskAttempt) -> Launch:
        surroundings = await self._surroundings.find(launcher.snapshot)
        if not launcher.takes_time:
            return launcher.launch(task, surroundings)
        return await asyncio.get_running_loop().run_in_executor(self._thread, launcher.launch, task, surroundings)

    async def build_to_start(self, launcher: Launcher, start: Start) -> Launch | Observation:
        """A refusal where it fails: nothing was started, so another attempt may be."""
        try:
            launch = await self.build(launcher, start.task)
        except Exception as error:
            log.exception("could not start a task", extra={"event": "start", "attempt": start.attempt_id})
            text = msg("could not be started: {error}", error=error)
            return Observation(
                attempt_id=start.attempt_id, seen=Seen.REFUSED, message=text, transient=True, cause=Cause.START_FAILED
            )
        return replace(launch, hold=True) if self._policy(launcher.snapshot.job).hold is not None else launch

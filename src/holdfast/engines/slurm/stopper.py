"""Stops tasks: SIGTERM to all processes, SIGKILL after the grace period. It goes on until the task has ended.

A task alone is signalled by the name of its job. A task of a gang is one step of the gang's job, and is signalled by
the number of that step: it has its own processes, and the node need not watch the shared folder for requests.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.errors import EngineError
from holdfast.core.messages import msg
from holdfast.engines.embedded.lifecycle.disk_limits import ThreadRunner

from .commands import SlurmCommands
from .jobs import QueuedJob, list_duplicates
from .names import JobNames
from .observer import SlurmObserver
from .queue_watch import QueueWatch
from .slurm_folder import TaskFacts
from .task_end import KILL_CODE, TERM_CODE, EndKind, EndRecord
from .users import TaskOwners, UnixUser

logger = logging.getLogger(__name__)

_FIRST_PAUSE = 0.3  # seconds between two SIGKILLs; doubled each time. Slurm may take seconds to end the job
_MAX_PAUSE = 2.0  # seconds
_CANCEL_DELAY = 10.0  # seconds after SIGKILL until the job is cancelled, which takes longer


class SlurmStopper:
    def __init__(
        self,
        names: JobNames,
        commands: SlurmCommands,
        queue: QueueWatch,
        observer: SlurmObserver,
        run_in_thread: ThreadRunner,
        start_background: Callable[[Coroutine[Any, Any, object]], None],
        report: Callable[[Observation], None],
        interval: float,
        owners: TaskOwners,
    ) -> None:
        self._names = names
        self._commands = commands
        self._queue = queue
        self._observer = observer
        self._run_in_thread = run_in_thread
        self._start_background = start_background
        self._report = report
        self._interval = interval
        self._owners = owners
        self._kill_at: dict[str, float] = {}  # tasks that are stopped, in the event loop's time

    def is_stopping(self, attempt_id: str) -> bool:
        return attempt_id in self._kill_at

    def stop(self, attempt_id: str, grace: float) -> None:
        """Begin to stop it; a second call may only shorten the grace period."""
        kill_at = asyncio.get_running_loop().time() + grace
        known = self._kill_at.get(attempt_id)
        self._kill_at[attempt_id] = kill_at if known is None else min(known, kill_at)
        if known is None:
            self._start_background(self._stop_until_ended(attempt_id))

    async def cancel_duplicates(self) -> None:
        """Cancel second submissions of the same task. They would do no harm, but wait for as long as the first runs."""
        for name, jobs in self._queue.last_jobs.items():
            for number in list_duplicates(jobs):
                uid = next(job.uid for job in jobs if job.leader == number)
                user = await self._run_in_thread(partial(self._owners.find_by_uid, uid))
                await self._commands.cancel_pending(number, name, user)

    async def _stop_until_ended(self, attempt_id: str) -> None:
        terminated = False  # with the task's own processes there
        pause, kill_again_at = _FIRST_PAUSE, 0.0
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    seen = (await self._observer.observe([attempt_id], look=True))[attempt_id]
                    if seen.seen.final or seen.seen is ObservedState.ABSENT:
                        self._report(seen)
                        return
                    if seen.seen.alive and loop.time() >= kill_again_at:
                        is_over = loop.time() >= self._kill_at[attempt_id]
                        terminated = await self._signal(seen, terminated)
                        if is_over:
                            kill_again_at, pause = loop.time() + pause, min(2 * pause, _MAX_PAUSE)
                except EngineError as error:
                    logger.warning(msg("cannot stop %s yet: %s"), attempt_id, error)
                left = max(self._kill_at[attempt_id], kill_again_at) - loop.time()
                await asyncio.sleep(min(self._interval, left if left > 0 else pause))
        finally:
            self._kill_at.pop(attempt_id, None)

    async def _signal(self, seen: Observation, terminated: bool) -> bool:
        """Signal it as it is now. Return whether it got SIGTERM since its own processes run."""
        attempt_id = seen.attempt_id
        # It stops itself once it is held; signals that came just before that have not continued it.
        signals = ("CONT",) if terminated else ("TERM", "CONT")
        needs_signal = not terminated or seen.seen is ObservedState.HELD
        facts = (await self._observer.read_facts([attempt_id]))[0]
        job = self._observer.find_job(facts, self._queue.last_jobs)  # of the look that showed that it is alive
        is_over = asyncio.get_running_loop().time() >= self._kill_at[attempt_id]
        code = KILL_CODE if is_over else TERM_CODE
        if facts.exists and facts.stop_code != code:
            await self._run_in_thread(lambda: self._observer.get_folder(attempt_id).record_stop(code))
        if job is None or job.is_final:
            return terminated
        user = facts.owner or await self._run_in_thread(lambda: self._owners.find_by_uid(job.uid))
        if facts.gang:
            return await self._signal_member(facts, job, signals if needs_signal else (), user)
        name = self._names.make_name(attempt_id)
        if job.is_pending:
            await self._commands.cancel(name, pending=True, user=user)
        elif is_over:
            await self._commands.signal_job(name, "KILL", user=user)
            if asyncio.get_running_loop().time() >= self._kill_at[attempt_id] + _CANCEL_DELAY:
                await self._commands.cancel(name, user=user)  # also what escaped the signal
        elif needs_signal:
            # A stopped process takes SIGTERM only once it is continued.
            await self._commands.signal_job(name, *signals, user=user)
            return facts.report.claimed or not facts.exists  # while its sandbox is set up, the signal is lost
        return terminated

    async def _signal_member(
        self, facts: TaskFacts, job: QueuedJob, signals: tuple[str, ...], user: UnixUser | None
    ) -> bool:
        allocation = facts.allocation
        is_over = asyncio.get_running_loop().time() >= self._kill_at[facts.attempt_id]
        if allocation is None:
            code = KILL_CODE if is_over else TERM_CODE
            if not await self._run_in_thread(lambda: self._end_before_start(facts.attempt_id, code)):
                return False  # it is starting
            if await self._have_all_ended(facts.gang):
                await self._commands.cancel(self._names.make_name(facts.leader), user=user)
            return True
        step = f"{job.number}.{allocation.step}"
        if is_over:
            await self._commands.signal_step(step, "KILL", user=user)
        elif signals:
            await self._commands.signal_step(step, *signals, user=user)
            return facts.report.claimed
        return True

    def _end_before_start(self, attempt_id: str, code: int) -> bool:
        """Take the claim of a task before its node does, which then does not run it. False if it runs. Blocking."""
        folder = self._observer.get_folder(attempt_id)
        if not folder.take_claim():
            return False
        folder.record_end(EndRecord(kind=EndKind.EXITED, code=code))
        return True

    async def _have_all_ended(self, gang: tuple[str, ...]) -> bool:
        with suppress(EngineError):
            return all(facts.end is not None for facts in await self._observer.read_facts(gang))
        return False

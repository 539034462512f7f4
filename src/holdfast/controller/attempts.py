"""Drives task attempts on the engine to their goals, and observes each until it has ended.

Reports of an engine are early hints; nothing depends on them. An attempt without news for OBSERVE_INTERVAL is observed,
and a goal that was not reached is retried. A failed call says nothing about the attempt: only observations do, and a
final one is never replaced.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Protocol

from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.errors import EngineError
from holdfast.core.messages import msg
from holdfast.core.planning.steps import AppendLogStep, RemoveStep, StartStep, Step, StopStep
from holdfast.engines.base import Engine, LaunchSpec
from holdfast.launching import AttemptLaunchBuilder

log = logging.getLogger(__name__)

TICK_INTERVAL = 5.0  # seconds between two checks whether something is due
OBSERVE_INTERVAL = 30.0  # seconds after which an attempt without news is observed
ORPHAN_CHECK_INTERVAL = 60.0  # seconds between two searches for attempts that no job owns
ORPHAN_STOP_TIMEOUT = 10.0  # seconds that a starting server waits for such attempts to end
START_TIMEOUT = 60.0  # seconds for one call of the engine
CALL_TIMEOUT = 30.0  # the same for every other call
STOP_MARGIN = 5.0  # seconds after its grace until an attempt that still runs is stopped again
FREE_DISK_TIMEOUT = 5.0  # seconds to free space on a full disk
MIN_RETRY_DELAY, MAX_RETRY_DELAY = 0.5, 60.0  # seconds until a failed call is retried
CLOSE_TIMEOUT = 5.0  # seconds that calls get when the server stops
UNREACHABLE_TIMEOUT = 60.0  # seconds of failed observations after which the job's state is unknown
OBSERVE_BATCH_SIZE = 500  # attempts in one call
MAX_STARTS, MAX_REMOVALS = 16, 4  # calls at the same time


class AttemptGoal(IntEnum):
    """The desired state of an attempt."""

    WATCH = 0  # observe only
    START = 1
    STOP = 2
    REMOVE = 3  # from the engine, except for its logs; stopped first if necessary


class AttemptHandler(Protocol):
    """The interface of the controller to the tracker. Nothing here blocks."""

    async def build_launch(self, launcher: AttemptLaunchBuilder, start: StartStep) -> LaunchSpec | Observation:
        """Build a launch; a REFUSED observation if that fails."""
        ...

    def mask_secrets(self, observation: Observation) -> Observation:
        """Mask the job's secrets."""
        ...

    def record_observation(self, observation: Observation) -> None:
        """Record a new observation."""
        ...

    def get_live_attempt_ids(self) -> set[str]:
        """Return the attempts of jobs that have not ended in the saved state."""
        ...

    def should_finalize(self, observation: Observation) -> bool: ...

    async def finalize_observation(self, observation: Observation) -> Observation:
        """Do the work that precedes planning. Repeated after a crash."""
        ...

    def report_observation(self, observation: Observation) -> None:
        """Pass it to the plan."""
        ...

    def record_failed_start(self, attempt_id: str, error: Exception) -> None:
        """Record a failed start. Whether it started is unknown; it is retried."""
        ...


@dataclass(slots=True, eq=False)
class TrackedAttempt:
    id: str
    goal: AttemptGoal = AttemptGoal.WATCH
    start: tuple[AttemptLaunchBuilder, StartStep] | None = None
    grace: float = float("inf")  # seconds, of the requested stop
    stop_again_at: float = 0.0  # loop time
    announcements: dict[str, str] = field(default_factory=dict)  # by key
    newest: Observation | None = None
    reported: Observation | None = None  # the last one that was reported
    finalized: Observation | None = None  # the same, as it was reported
    last_observed_at: float = 0.0  # loop time
    unreachable_since: float | None = None  # loop time of the first of the failed observations
    changes: int = 0  # incremented to detect outdated observations
    is_finalizing: bool = False
    is_owned: bool = True  # by a job
    failures: int = 0  # calls that failed, one after the other
    retry: asyncio.TimerHandle | None = None  # until then no call is made
    worker: asyncio.Task[None] | None = None

    @property
    def observed_state(self) -> ObservedState | None:
        return self.newest.seen if self.newest else None

    @property
    def is_ended(self) -> bool:
        return self.newest is not None and self.newest.seen.final

    @property
    def has_unreported_observation(self) -> bool:
        return self.newest is not self.reported

    def raise_goal(self, goal: AttemptGoal) -> None:
        self.goal = max(self.goal, goal)

    def request_stop(self, grace: float) -> None:
        """Request a stop; a second request can only shorten the grace period."""
        self.raise_goal(AttemptGoal.STOP)
        if self.observed_state is ObservedState.ABSENT:  # it may be starting: observe again
            self.newest = self.reported = self.finalized = None
        if grace < self.grace:
            self.grace, self.stop_again_at = grace, 0.0


class AttemptTracker:
    """Runs on the event loop. At most one worker, an asyncio task, calls the engine for an attempt, so calls never
    overlap; idle attempts have none."""

    def __init__(self, engine: Engine, handler: AttemptHandler) -> None:
        self._engine = engine
        self._handler = handler
        self._attempts: dict[str, TrackedAttempt] = {}
        self._by_age: dict[str, TrackedAttempt] = {}  # those that have not ended, longest without news first
        self._workers: set[asyncio.Task[None]] = set()
        self._starts = asyncio.Semaphore(MAX_STARTS)
        self._removals = asyncio.Semaphore(MAX_REMOVALS)
        self._next_orphan_check_at = 0.0  # loop time of the next search for strays

    # -- goals

    async def resume_attempts(self, attempt_ids: Iterable[str]) -> None:
        """Report known attempts and observe the others; another server may have started or planned them."""
        attempts = [self._track_attempt(attempt_id) for attempt_id in attempt_ids]
        for attempt in attempts:
            if attempt.finalized is not None:
                self._handler.report_observation(attempt.finalized)
        await self._observe_attempts([attempt for attempt in attempts if attempt.newest is None])

    def apply_steps(self, launcher: AttemptLaunchBuilder, steps: Iterable[Step]) -> None:
        """Apply the steps of a saved plan."""
        changed = {}
        for step in steps:
            changed[step.attempt_id] = attempt = self._track_attempt(step.attempt_id)
            match step:
                case StartStep():
                    attempt.start = (launcher, step)
                    attempt.raise_goal(AttemptGoal.START)
                case StopStep():
                    attempt.request_stop(step.grace.total_seconds())
                    self._report_end_again(attempt)
                case AppendLogStep():
                    attempt.announcements[step.key] = step.text
                case RemoveStep():
                    attempt.raise_goal(AttemptGoal.REMOVE)
        for attempt in changed.values():
            self._ensure_worker(attempt)

    def _report_end_again(self, attempt: TrackedAttempt) -> None:
        """Report its end again: a plan that stops it does not know of it."""
        if attempt.is_ended and attempt.finalized is not None and not attempt.has_unreported_observation:
            self._handler.report_observation(attempt.finalized)

    async def free_disk(self, attempt_ids: Iterable[str]) -> None:
        """Remove the files of ended attempts early, within a timeout."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FREE_DISK_TIMEOUT):
                await asyncio.gather(*map(self._engine.remove, attempt_ids), return_exceptions=True)

    def list_tracked_attempts(self) -> list[str]:
        """Return the ids of attempts that are not removed yet."""
        return list(self._attempts)

    def _track_attempt(self, attempt_id: str) -> TrackedAttempt:
        attempt = self._attempts.get(attempt_id)
        if attempt is None:
            attempt = self._attempts[attempt_id] = TrackedAttempt(attempt_id)
            self._mark_observed(attempt)
        return attempt

    def _untrack_attempt(self, attempt: TrackedAttempt) -> None:
        self._attempts.pop(attempt.id, None)
        self._by_age.pop(attempt.id, None)

    # -- observations

    def handle_observation(self, observation: Observation) -> None:
        """Handle a hint from the engine: it may be late, duplicated, out of order, or missing."""
        attempt = self._attempts.get(observation.attempt_id)
        if attempt is None:
            if observation.seen.alive:
                self._next_orphan_check_at = 0.0
        elif observation.seen is not ObservedState.ABSENT:  # only an observation without concurrent calls is reliable
            self._accept_observation(attempt, observation)
            self._ensure_worker(attempt)

    def _accept_observation(self, attempt: TrackedAttempt, observation: Observation) -> None:
        self._mark_observed(attempt)
        attempt.unreachable_since = None
        observation = self._handler.mask_secrets(observation)
        if attempt.newest is not None and not _is_newer_observation(observation, attempt.newest):
            return
        attempt.changes += 1
        attempt.newest = observation
        if attempt.goal is AttemptGoal.START and observation.seen is not ObservedState.ABSENT:
            attempt.goal, attempt.start = AttemptGoal.WATCH, None
        if observation.seen.final:
            self._by_age.pop(attempt.id, None)
        self._handler.record_observation(observation)

    def _mark_observed(self, attempt: TrackedAttempt) -> None:
        attempt.last_observed_at = asyncio.get_running_loop().time()
        if not attempt.is_ended:
            self._by_age.pop(attempt.id, None)
            self._by_age[attempt.id] = attempt

    async def _observe_attempts(self, attempts: Sequence[TrackedAttempt]) -> None:
        for first in range(0, len(attempts), OBSERVE_BATCH_SIZE):
            await self._observe_batch(attempts[first : first + OBSERVE_BATCH_SIZE])

    async def _observe_batch(self, attempts: Sequence[TrackedAttempt]) -> None:
        changes = {attempt.id: attempt.changes for attempt in attempts}
        for attempt in attempts:
            self._mark_observed(attempt)  # the next observation is due after the interval in any case
        try:
            async with asyncio.timeout(CALL_TIMEOUT):
                found = await self._engine.observe(list(changes))
        except Exception as error:
            if len(attempts) > 1 and not isinstance(error, TimeoutError):  # find the one that fails
                middle = len(attempts) // 2
                await self._observe_batch(attempts[:middle])
                await self._observe_batch(attempts[middle:])
            else:
                details = {"event": "observe", "attempt": attempts[0].id, "error": repr(error)}
                log.warning("could not observe tasks; retrying", extra=details)
                for attempt in attempts:
                    self._handle_unreachable(attempt, str(error) or msg("The engine did not respond"))
            return
        for observation in found.values():
            seen = self._attempts.get(observation.attempt_id)
            if seen is None or seen.changes != changes.get(seen.id):
                continue
            if observation.seen is ObservedState.UNREACHABLE:
                self._handle_unreachable(seen, observation.message)
            else:
                self._accept_observation(seen, observation)
                self._ensure_worker(seen)

    def _handle_unreachable(self, attempt: TrackedAttempt, why: str) -> None:
        """Report an attempt that could not be observed for a while. Nothing else follows from it."""
        now = asyncio.get_running_loop().time()
        if attempt.unreachable_since is None:
            attempt.unreachable_since = now
        seconds = now - attempt.unreachable_since
        is_running = attempt.goal is not AttemptGoal.START and attempt.observed_state in (None, ObservedState.RUNNING)
        if not is_running or seconds < UNREACHABLE_TIMEOUT:
            return
        since = datetime.now(UTC) - timedelta(seconds=seconds)
        state = ObservedState.UNREACHABLE
        attempt.newest = Observation(attempt_id=attempt.id, seen=state, message=why, since=since)
        self._ensure_worker(attempt)

    # -- periodic work

    async def run(self) -> None:
        """Observe attempts without news and remove strays, until cancelled."""
        while True:
            await asyncio.sleep(TICK_INTERVAL)
            await self.check_due_attempts()

    async def check_due_attempts(self) -> None:
        now = asyncio.get_running_loop().time()
        due = []
        for attempt in self._by_age.values():
            if attempt.last_observed_at > now - OBSERVE_INTERVAL:
                break
            if attempt.goal is not AttemptGoal.START:  # a starting attempt reports by itself
                due.append(attempt)
        await self._observe_attempts(due)
        if now >= self._next_orphan_check_at:
            await self.remove_orphaned_attempts()

    async def remove_orphaned_attempts(self) -> list[asyncio.Task[None]]:
        """Return the workers. A job has an attempt before it is started, so one listed but not live is orphaned."""
        self._next_orphan_check_at = asyncio.get_running_loop().time() + ORPHAN_CHECK_INTERVAL
        try:
            async with asyncio.timeout(CALL_TIMEOUT):
                listed = await self._engine.list_attempts()
        except Exception as error:
            log.warning("could not list tasks; retrying", extra={"event": "strays", "error": repr(error)})
            return []
        for attempt_id in listed:
            self._track_attempt(attempt_id)
        live = self._handler.get_live_attempt_ids()
        kept = [attempt for attempt in self._attempts.values() if attempt.goal is not AttemptGoal.REMOVE]
        strays = [attempt for attempt in kept if attempt.id not in live]
        for stray in strays:
            stray.is_owned = False
            stray.raise_goal(AttemptGoal.REMOVE)
            self._ensure_worker(stray)
        return [stray.worker for stray in strays if stray.worker]

    async def close(self) -> None:
        """Finish calls in progress; tasks continue to run."""
        for attempt in self._attempts.values():
            if attempt.retry:
                attempt.retry.cancel()
        if self._workers:
            await asyncio.wait(self._workers, timeout=CLOSE_TIMEOUT)
        for worker in list(self._workers):
            worker.cancel()
        if self._workers:
            await asyncio.wait(self._workers)

    # -- workers

    def _ensure_worker(self, attempt: TrackedAttempt) -> None:
        """Report what is new if that takes no time; a worker does the rest."""
        if attempt.has_unreported_observation and not attempt.is_finalizing and not self._should_finalize(attempt):
            self._report_observation(attempt, attempt.newest, attempt.newest)
        if attempt.worker is None and (
            attempt.has_unreported_observation or self._choose_next_call(attempt) is not None
        ):
            attempt.worker = asyncio.create_task(self._run_worker(attempt))
            self._workers.add(attempt.worker)
            attempt.worker.add_done_callback(self._workers.discard)

    def _should_finalize(self, attempt: TrackedAttempt) -> bool:
        return attempt.newest is not None and self._handler.should_finalize(attempt.newest)

    def _report_observation(
        self, attempt: TrackedAttempt, observation: Observation | None, settled: Observation | None
    ) -> None:
        attempt.reported, attempt.finalized = observation, settled
        if settled is not None:
            self._handler.report_observation(settled)

    async def _run_worker(self, attempt: TrackedAttempt) -> None:
        try:
            while True:
                if attempt.has_unreported_observation:
                    await self._finalize_newest_observation(attempt)
                elif (call := self._choose_next_call(attempt)) is not None:
                    await call(attempt)
                    attempt.failures = 0
                else:
                    break
        except Exception as error:
            self._schedule_retry(attempt, error)
        finally:
            attempt.worker = None

    def _choose_next_call(self, attempt: TrackedAttempt) -> Callable[[TrackedAttempt], Awaitable[None]] | None:
        """Return the next engine call; None: nothing for now."""
        seen = attempt.observed_state
        if attempt.retry is not None:
            return None
        if attempt.goal is AttemptGoal.START and seen in (None, ObservedState.ABSENT, ObservedState.UNREACHABLE):
            return self._start_attempt
        if seen in (ObservedState.RUNNING, ObservedState.HELD) and attempt.announcements:
            return self._write_next_announcement
        if attempt.goal is AttemptGoal.REMOVE and (attempt.is_ended or seen is ObservedState.ABSENT):
            return self._remove_attempt
        if attempt.goal not in (AttemptGoal.STOP, AttemptGoal.REMOVE):
            return None
        if seen is None:
            return self._observe_attempt
        due = asyncio.get_running_loop().time() >= attempt.stop_again_at
        is_stoppable = seen.alive or seen is ObservedState.UNREACHABLE
        return self._stop_attempt if is_stoppable and due else None

    async def _finalize_newest_observation(self, attempt: TrackedAttempt) -> None:
        observation = attempt.newest
        assert observation is not None
        attempt.is_finalizing = True
        try:
            settled = await self._handler.finalize_observation(observation)
        finally:
            attempt.is_finalizing = False
        self._report_observation(attempt, observation, settled)  # a newer one is handled next

    async def _observe_attempt(self, attempt: TrackedAttempt) -> None:
        await self._observe_batch([attempt])
        if attempt.newest is None:
            raise TimeoutError(msg("The engine did not respond"))

    async def _start_attempt(self, attempt: TrackedAttempt) -> None:
        async with self._starts:
            if attempt.goal is not AttemptGoal.START or attempt.start is None:
                return  # a stop was requested in the meantime
            launch = await self._handler.build_launch(*attempt.start)
            observation = launch if isinstance(launch, Observation) else await self._call_engine_start(attempt, launch)
        self._accept_observation(attempt, observation)

    async def _call_engine_start(self, attempt: TrackedAttempt, launch: LaunchSpec) -> Observation:
        attempt.changes += 1
        try:
            async with asyncio.timeout(START_TIMEOUT):
                observation = await self._engine.start(launch)
            if observation.seen is ObservedState.ABSENT:
                raise EngineError(msg("The engine did not start the task"))
            return observation
        except Exception as error:
            self._handler.record_failed_start(attempt.id, error)
            raise
        finally:
            attempt.changes += 1

    async def _write_next_announcement(self, attempt: TrackedAttempt) -> None:
        """Write announcements; an unwritable log must not prevent a stop."""
        key, text = next(iter(attempt.announcements.items()))
        try:
            async with asyncio.timeout(CALL_TIMEOUT):
                await self._engine.append_log(attempt.id, key, text)
        except Exception as error:
            details = {"event": "announce", "attempt": attempt.id, "error": repr(error)}
            log.warning("could not write to a task's log", extra=details)
        attempt.announcements.pop(key, None)

    async def _stop_attempt(self, attempt: TrackedAttempt) -> None:
        grace = 0.0 if attempt.goal is AttemptGoal.REMOVE else attempt.grace
        if not attempt.is_owned:
            log.warning("stopped a task that no job owns", extra={"event": "strays", "attempt": attempt.id})
        async with asyncio.timeout(CALL_TIMEOUT):
            await self._engine.stop(attempt.id, grace)
        attempt.stop_again_at = asyncio.get_running_loop().time() + grace + STOP_MARGIN

    async def _remove_attempt(self, attempt: TrackedAttempt) -> None:
        async with self._removals, asyncio.timeout(CALL_TIMEOUT):
            await self._engine.remove(attempt.id)
        self._untrack_attempt(attempt)
        attempt.goal = AttemptGoal.WATCH

    def _schedule_retry(self, attempt: TrackedAttempt, error: Exception) -> None:
        delay = min(MIN_RETRY_DELAY * 2**attempt.failures, MAX_RETRY_DELAY)
        attempt.failures += 1
        details = {"event": "engine", "attempt": attempt.id, "goal": attempt.goal.name.lower(), "error": repr(error)}
        expected = isinstance(error, EngineError | TimeoutError)  # the text says enough
        log.warning("an engine call failed; retrying", extra=details, exc_info=None if expected else error)
        attempt.retry = asyncio.get_running_loop().call_later(delay, self._run_retry, attempt)

    def _run_retry(self, attempt: TrackedAttempt) -> None:
        attempt.retry = None
        if attempt.id in self._attempts:
            self._ensure_worker(attempt)


def _is_newer_observation(new: Observation, old: Observation) -> bool:
    """Whether it contains something new. An attempt that ended, or is on hold, never runs again."""
    if old.seen.final or (old.seen is ObservedState.HELD and new.seen is ObservedState.RUNNING):
        return False
    return replace(new, elapsed=old.elapsed) != old

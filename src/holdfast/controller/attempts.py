"""Drives task attempts on the engine to their goals, and looks at each until it has ended.

What an engine reports by itself is a hint that comes early; nothing depends on it. An attempt that was not heard of for
LOOK_INTERVAL is observed, and a goal that was not reached is pursued again. A call that failed says nothing about the
attempt: only observations do, and a final one is never replaced.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Protocol

from holdfast.core.attempt import Observation, Seen
from holdfast.core.errors import EngineError
from holdfast.core.messages import msg
from holdfast.core.plan import Announce, Remove, Start, Step, Stop
from holdfast.engines.base import Engine, Launch
from holdfast.launching import Launcher

log = logging.getLogger(__name__)

TICK_INTERVAL = 5.0  # seconds between two checks whether something is due
LOOK_INTERVAL = 30.0  # seconds after which an attempt that was not heard of is observed
STRAY_INTERVAL = 60.0  # seconds between two searches for attempts that no job owns
STRAY_TIMEOUT = 10.0  # seconds that a starting server waits for such attempts to end
START_TIMEOUT = 60.0  # seconds for one call of the engine
CALL_TIMEOUT = 30.0  # the same for every other call
STOP_MARGIN = 5.0  # seconds after its grace until an attempt that still runs is stopped again
FREE_TIMEOUT = 5.0  # seconds to make room on a full disk
RETRY_MIN, RETRY_MAX = 0.5, 60.0  # seconds until a call that failed is tried again
CLOSE_TIMEOUT = 5.0  # seconds that calls get when the server stops
MAX_OBSERVED = 500  # attempts in one call
MAX_STARTS, MAX_REMOVALS = 16, 4  # calls at the same time

ALIVE = (Seen.RUNNING, Seen.HELD)
FINAL = (Seen.EXITED, Seen.LOST, Seen.REFUSED)


class Goal(IntEnum):
    """What is wanted of an attempt."""

    WATCH = 0  # nothing but to know how it goes
    START = 1
    STOP = 2
    REMOVE = 3  # from the engine, except for its logs; stopped first if it must be


class AttemptHandler(Protocol):
    """What the tracker needs of the controller. Nothing here blocks."""

    async def build_launch(self, launcher: Launcher, start: Start) -> Launch | Observation:
        """An observation instead, REFUSED, where no launch can be built."""
        ...

    def mask(self, observation: Observation) -> Observation:
        """Without secrets of the job."""
        ...

    def note_observation(self, observation: Observation) -> None:
        """Something new was seen."""
        ...

    def live_attempts(self) -> set[str]:
        """Those that jobs have, and that have not ended as far as is saved."""
        ...

    def needs_settling(self, observation: Observation) -> bool: ...

    async def settle(self, observation: Observation) -> Observation:
        """Do what has to be done before the plan hears of it. Begun again after a crash."""
        ...

    def report(self, observation: Observation) -> None:
        """Hand it to the plan."""
        ...

    def note_failed_start(self, attempt_id: str, error: Exception) -> None:
        """It is not known whether it started; it is tried again."""
        ...


@dataclass(slots=True, eq=False)
class TrackedAttempt:
    id: str
    goal: Goal = Goal.WATCH
    start: tuple[Launcher, Start] | None = None
    grace: float = float("inf")  # seconds, of the stop that is wanted
    stop_again_at: float = 0.0  # loop time
    announcements: dict[str, str] = field(default_factory=dict)  # by key
    newest: Observation | None = None
    reported: Observation | None = None  # the last one whose report is done
    settled: Observation | None = None  # the same, as it was reported
    heard_at: float = 0.0  # loop time
    changes: int = 0  # counts what an observation that is on its way does not know of
    is_settling: bool = False
    is_owned: bool = True  # by a job
    failures: int = 0  # calls that failed, one after the other
    retry: asyncio.TimerHandle | None = None  # until then no call is made
    worker: asyncio.Task[None] | None = None

    @property
    def seen(self) -> Seen | None:
        return self.newest.seen if self.newest else None

    @property
    def has_news(self) -> bool:
        return self.newest is not self.reported

    def raise_goal(self, goal: Goal) -> None:
        self.goal = max(self.goal, goal)

    def want_stop(self, grace: float) -> None:
        """A second one may only shorten the grace."""
        self.raise_goal(Goal.STOP)
        if self.seen is Seen.ABSENT:  # it may be just being started: look again
            self.newest = self.reported = self.settled = None
        if grace < self.grace:
            self.grace, self.stop_again_at = grace, 0.0


class AttemptTracker:
    """Belongs to the event loop. At most one worker, an asyncio task, makes the engine's calls for an attempt, so they
    never overlap; attempts with nothing to do have none."""

    def __init__(self, engine: Engine, handler: AttemptHandler) -> None:
        self._engine = engine
        self._handler = handler
        self._attempts: dict[str, TrackedAttempt] = {}
        self._by_age: dict[str, TrackedAttempt] = {}  # those that have not ended, the longest unheard of first
        self._workers: set[asyncio.Task[None]] = set()
        self._starts = asyncio.Semaphore(MAX_STARTS)
        self._removals = asyncio.Semaphore(MAX_REMOVALS)
        self._strays_at = 0.0  # loop time of the next search for strays

    # -- what is wanted

    async def resume(self, attempt_ids: Iterable[str]) -> None:
        """Look after attempts that were started, or were to be, perhaps by another server: tell what is known of them,
        and look at the others."""
        attempts = [self._track(attempt_id) for attempt_id in attempt_ids]
        for attempt in attempts:
            if attempt.settled is not None:
                self._handler.report(attempt.settled)
        await self._observe([attempt for attempt in attempts if attempt.newest is None])

    def apply(self, launcher: Launcher, steps: Iterable[Step]) -> None:
        """Pursue what a saved plan wants."""
        changed = {}
        for step in steps:
            changed[step.attempt_id] = attempt = self._track(step.attempt_id)
            match step:
                case Start():
                    attempt.start = (launcher, step)
                    attempt.raise_goal(Goal.START)
                case Stop():
                    attempt.want_stop(step.grace.total_seconds())
                    self._report_end_again(attempt)
                case Announce():
                    attempt.announcements[step.key] = step.text
                case Remove():
                    attempt.raise_goal(Goal.REMOVE)
        for attempt in changed.values():
            self._kick(attempt)

    def _report_end_again(self, attempt: TrackedAttempt) -> None:
        """A plan that wants to stop it does not know of its end."""
        if attempt.seen in FINAL and attempt.settled is not None and not attempt.has_news:
            self._handler.report(attempt.settled)

    async def free_disk(self, attempt_ids: Iterable[str]) -> None:
        """Remove the files of ended attempts before their time, as far as that goes at once."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FREE_TIMEOUT):
                await asyncio.gather(*map(self._engine.remove, attempt_ids), return_exceptions=True)

    def tracked(self) -> list[str]:
        """Ids of attempts that are not removed yet."""
        return list(self._attempts)

    def _track(self, attempt_id: str) -> TrackedAttempt:
        attempt = self._attempts.get(attempt_id)
        if attempt is None:
            attempt = self._attempts[attempt_id] = TrackedAttempt(attempt_id)
            self._touch(attempt)
        return attempt

    def _forget(self, attempt: TrackedAttempt) -> None:
        self._attempts.pop(attempt.id, None)
        self._by_age.pop(attempt.id, None)

    # -- what is seen

    def hear(self, observation: Observation) -> None:
        """A hint from the engine: it may be late, doubled, out of order, or not come at all."""
        attempt = self._attempts.get(observation.attempt_id)
        if attempt is None:
            if observation.seen in ALIVE:
                self._strays_at = 0.0
        elif observation.seen is not Seen.ABSENT:  # only a look that nothing overlaps can tell that
            self._accept(attempt, observation)
            self._kick(attempt)

    def _accept(self, attempt: TrackedAttempt, observation: Observation) -> None:
        self._touch(attempt)
        observation = self._handler.mask(observation)
        if attempt.newest is not None and not _supersedes(observation, attempt.newest):
            return
        attempt.changes += 1
        attempt.newest = observation
        if attempt.goal is Goal.START and observation.seen is not Seen.ABSENT:
            attempt.goal, attempt.start = Goal.WATCH, None
        if observation.seen in FINAL:
            self._by_age.pop(attempt.id, None)
        self._handler.note_observation(observation)

    def _touch(self, attempt: TrackedAttempt) -> None:
        attempt.heard_at = asyncio.get_running_loop().time()
        if attempt.seen not in FINAL:
            self._by_age.pop(attempt.id, None)
            self._by_age[attempt.id] = attempt

    async def _observe(self, attempts: Sequence[TrackedAttempt]) -> None:
        for first in range(0, len(attempts), MAX_OBSERVED):
            await self._observe_some(attempts[first : first + MAX_OBSERVED])

    async def _observe_some(self, attempts: Sequence[TrackedAttempt]) -> None:
        changes = {attempt.id: attempt.changes for attempt in attempts}
        for attempt in attempts:
            self._touch(attempt)  # whatever comes of this, the next look is due after the interval
        try:
            async with asyncio.timeout(CALL_TIMEOUT):
                found = await self._engine.observe(list(changes))
        except Exception as error:
            if len(attempts) > 1 and not isinstance(error, TimeoutError):  # one of them must not hide the others
                middle = len(attempts) // 2
                await self._observe_some(attempts[:middle])
                await self._observe_some(attempts[middle:])
            else:
                said = {"event": "observe", "attempt": attempts[0].id, "error": repr(error)}
                log.warning("could not observe tasks; trying again", extra=said)
            return
        for observation in found.values():
            seen = self._attempts.get(observation.attempt_id)
            if seen is not None and seen.changes == changes.get(seen.id):
                self._accept(seen, observation)
                self._kick(seen)

    # -- what comes round

    async def run(self) -> None:
        """Look at what was not heard of, and for strays. Until cancelled."""
        while True:
            await asyncio.sleep(TICK_INTERVAL)
            await self.check()

    async def check(self) -> None:
        now = asyncio.get_running_loop().time()
        due = []
        for attempt in self._by_age.values():
            if attempt.heard_at > now - LOOK_INTERVAL:
                break
            if attempt.goal is not Goal.START:  # one that is being started reports by itself
                due.append(attempt)
        await self._observe(due)
        if now >= self._strays_at:
            await self.remove_strays()

    async def remove_strays(self) -> list[asyncio.Task[None]]:
        """Stop and remove attempts that no job owns; returns the workers. A job has an attempt before that is started,
        so one that the engine lists and that is not live now belongs to none."""
        self._strays_at = asyncio.get_running_loop().time() + STRAY_INTERVAL
        try:
            async with asyncio.timeout(CALL_TIMEOUT):
                listed = await self._engine.list_attempts()
        except Exception as error:
            log.warning("could not list tasks; trying again", extra={"event": "strays", "error": repr(error)})
            return []
        for attempt_id in listed:
            self._track(attempt_id)
        live = self._handler.live_attempts()
        kept = [attempt for attempt in self._attempts.values() if attempt.goal is not Goal.REMOVE]
        strays = [attempt for attempt in kept if attempt.id not in live]
        for stray in strays:
            stray.is_owned = False
            stray.raise_goal(Goal.REMOVE)
            self._kick(stray)
        return [stray.worker for stray in strays if stray.worker]

    async def close(self) -> None:
        """Tasks run on; calls that were begun are finished first."""
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

    def _kick(self, attempt: TrackedAttempt) -> None:
        """Report what is new, at once where that takes no time; have a worker do the rest."""
        if attempt.has_news and not attempt.is_settling and not self._needs_settling(attempt):
            self._report(attempt, attempt.newest, attempt.newest)
        if attempt.worker is None and (attempt.has_news or self._next_call(attempt) is not None):
            attempt.worker = asyncio.create_task(self._work(attempt))
            self._workers.add(attempt.worker)
            attempt.worker.add_done_callback(self._workers.discard)

    def _needs_settling(self, attempt: TrackedAttempt) -> bool:
        return attempt.newest is not None and self._handler.needs_settling(attempt.newest)

    def _report(self, attempt: TrackedAttempt, observation: Observation | None, settled: Observation | None) -> None:
        attempt.reported, attempt.settled = observation, settled
        if settled is not None:
            self._handler.report(settled)

    async def _work(self, attempt: TrackedAttempt) -> None:
        try:
            while True:
                if attempt.has_news:
                    await self._settle(attempt)
                elif (call := self._next_call(attempt)) is not None:
                    await call(attempt)
                    attempt.failures = 0
                else:
                    break
        except Exception as error:
            self._retry_later(attempt, error)
        finally:
            attempt.worker = None

    def _next_call(self, attempt: TrackedAttempt) -> Callable[[TrackedAttempt], Awaitable[None]] | None:
        """What is to be asked of the engine next; None: nothing for now."""
        seen = attempt.seen
        if attempt.retry is not None:
            return None
        if attempt.goal is Goal.START and seen in (None, Seen.ABSENT):
            return self._start
        if seen in ALIVE and attempt.announcements:
            return self._announce
        if attempt.goal is Goal.REMOVE and seen is not None and seen not in ALIVE:
            return self._remove
        if attempt.goal not in (Goal.STOP, Goal.REMOVE):
            return None
        if seen is None:
            return self._look
        due = asyncio.get_running_loop().time() >= attempt.stop_again_at
        return self._stop if seen in ALIVE and due else None

    async def _settle(self, attempt: TrackedAttempt) -> None:
        observation = attempt.newest
        assert observation is not None
        attempt.is_settling = True
        try:
            settled = await self._handler.settle(observation)
        finally:
            attempt.is_settling = False
        self._report(attempt, observation, settled)  # something newer may have come meanwhile: that is the next one

    async def _look(self, attempt: TrackedAttempt) -> None:
        await self._observe_some([attempt])
        if attempt.newest is None:
            raise TimeoutError(msg("No answer from the engine"))

    async def _start(self, attempt: TrackedAttempt) -> None:
        async with self._starts:
            if attempt.goal is not Goal.START or attempt.start is None:
                return  # it is to be stopped by now
            launch = await self._handler.build_launch(*attempt.start)
            observation = launch if isinstance(launch, Observation) else await self._call_start(attempt, launch)
        self._accept(attempt, observation)

    async def _call_start(self, attempt: TrackedAttempt, launch: Launch) -> Observation:
        attempt.changes += 1
        try:
            async with asyncio.timeout(START_TIMEOUT):
                observation = await self._engine.start(launch)
            if observation.seen is Seen.ABSENT:
                raise EngineError(msg("The engine did not start it"))
            return observation
        except Exception as error:
            self._handler.note_failed_start(attempt.id, error)
            raise
        finally:
            attempt.changes += 1

    async def _announce(self, attempt: TrackedAttempt) -> None:
        """A log that cannot be written must not keep a task from being stopped."""
        key, text = next(iter(attempt.announcements.items()))
        try:
            async with asyncio.timeout(CALL_TIMEOUT):
                await self._engine.announce(attempt.id, key, text)
        except Exception as error:
            said = {"event": "announce", "attempt": attempt.id, "error": repr(error)}
            log.warning("could not add to a log", extra=said)
        attempt.announcements.pop(key, None)

    async def _stop(self, attempt: TrackedAttempt) -> None:
        grace = 0.0 if attempt.goal is Goal.REMOVE else attempt.grace
        if not attempt.is_owned:
            log.warning("stopped a task that no job owns", extra={"event": "strays", "attempt": attempt.id})
        async with asyncio.timeout(CALL_TIMEOUT):
            await self._engine.stop(attempt.id, grace)
        attempt.stop_again_at = asyncio.get_running_loop().time() + grace + STOP_MARGIN

    async def _remove(self, attempt: TrackedAttempt) -> None:
        async with self._removals, asyncio.timeout(CALL_TIMEOUT):
            await self._engine.remove(attempt.id)
        self._forget(attempt)
        attempt.goal = Goal.WATCH

    def _retry_later(self, attempt: TrackedAttempt, error: Exception) -> None:
        delay = min(RETRY_MIN * 2**attempt.failures, RETRY_MAX)
        attempt.failures += 1
        said = {"event": "engine", "attempt": attempt.id, "goal": attempt.goal.name.lower(), "error": repr(error)}
        log.warning("an engine call failed; trying again", extra=said, exc_info=error)
        attempt.retry = asyncio.get_running_loop().call_later(delay, self._retry, attempt)

    def _retry(self, attempt: TrackedAttempt) -> None:
        attempt.retry = None
        if attempt.id in self._attempts:
            self._kick(attempt)


def _supersedes(new: Observation, old: Observation) -> bool:
    """Whether it tells something that the other does not. One that ended, or is held, never runs again."""
    if old.seen in FINAL or (old.seen is Seen.HELD and new.seen is Seen.RUNNING):
        return False
    return replace(new, elapsed=old.elapsed) != old

"""Runs the tasks of a job together until all have ended, enough succeeded, time is up, or somebody stops it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from holdfast.core.attempt import JobSnapshot, Observation, Outcome, Seen, StopRequest
from holdfast.core.plan import Plan, Policy, Start, Stop, plan
from holdfast.core.scheduling.placement import Placed
from holdfast.engines.base import Launch

from .heard import Heard, Mask
from .listening import listening_ports
from .report import Ending
from .rules import Decision, heard_out, real_decision
from .stage import Stage

GRACE = timedelta(seconds=5)  # between TERM and KILL
_SAMPLE = 0.25  # seconds between two looks at who listens where
_LAST_WORDS = 10.0  # seconds for the output of an ended task to arrive

Event = Observation | Ending  # an ending: time is up, or somebody wants it to stop


class Interrupted(Exception):
    """Somebody stopped the simulation before the tasks ran."""


@dataclass(slots=True)
class Played:
    snapshot: JobSnapshot
    ending: Ending = Ending.ENDED
    ends: dict[str, Observation] = field(default_factory=dict)
    heard: dict[str, Heard] = field(default_factory=dict)  # by attempt id, as all here
    ports: dict[str, set[int]] = field(default_factory=dict)
    looks: dict[str, int] = field(default_factory=dict)  # how often it was looked who listens
    outcome: Outcome | None = None  # how it came to its end here
    real: Decision | None = None  # how the real run would have been decided
    seconds: float = 0.0


class Play:
    def __init__(
        self,
        stage: Stage,
        events: asyncio.Queue[Event],
        launches: Mapping[str, Launch],
        mask: Mask,
        say: Callable[[str, str], None],
    ) -> None:
        """`say` is told the task and a line of it."""
        self._stage = stage
        self._events = events
        self._launches = launches
        self._mask = mask
        self._say = say
        self._policy = Policy(time_limit=None, grace=GRACE)
        self._followers: list[asyncio.Task[None]] = []

    async def run(self, snapshot: JobSnapshot, decision: Placed, timeout: float) -> Played:
        loop = asyncio.get_running_loop()
        began = loop.time()
        job = snapshot.job
        self._played = Played(replace(snapshot, job=heard_out(job)))
        listener = asyncio.create_task(self._listen())
        timer = None
        try:
            await self._apply(self._plan({}, decision))
            timer = loop.call_later(timeout, self._events.put_nowait, Ending.TIMEOUT)
            while not self._over():
                await self._hear(await self._events.get())
            await self._last_words()
        finally:
            if timer is not None:
                timer.cancel()
            for task in (listener, *self._followers):
                task.cancel()
            await asyncio.gather(listener, *self._followers, return_exceptions=True)
        played = self._played
        played.seconds = loop.time() - began
        played.snapshot = replace(played.snapshot, job=job)
        played.real = real_decision(job, played.snapshot.tasks)
        return played

    def _over(self) -> bool:
        """Another try would be all that is left to do: there is none here."""
        snapshot = self._played.snapshot
        return snapshot.state.final or not any(task.state.live for task in snapshot.tasks)

    async def _hear(self, event: Event) -> None:
        if isinstance(event, Observation):
            if event.seen in (Seen.EXITED, Seen.LOST, Seen.REFUSED):
                self._played.ends[event.attempt_id] = event
            await self._apply(self._plan({event.attempt_id: event}))
            return
        if self._played.ending is not Ending.ENDED:  # asked for the second time
            for attempt_id in self._launches:
                await self._stage.stop(attempt_id, 0)
            return
        self._played.ending = event
        request = StopRequest(actor="the simulation", at=datetime.now(UTC), why="the simulation is over")
        self._played.snapshot = replace(self._played.snapshot, stop=request)
        await self._apply(self._plan({}))

    def _plan(self, seen: Mapping[str, Observation], decision: Placed | None = None) -> Plan:
        return plan(self._played.snapshot, seen, datetime.now(UTC), self._policy, decision=decision)

    async def _apply(self, planned: Plan) -> None:
        self._played.snapshot = planned.after
        self._played.outcome = planned.after.outcome or (planned.ended.outcome if planned.ended else None)
        for step in planned.steps:
            if isinstance(step, Start):
                await self._start(step.attempt_id)
            elif isinstance(step, Stop):
                await self._stage.stop(step.attempt_id, step.grace.total_seconds())

    async def _start(self, attempt_id: str) -> None:
        launch = self._launches.get(attempt_id)
        if launch is None:  # a second try
            return
        heard = Heard(self._mask, lambda line: self._say(launch.task, line))
        self._played.heard[attempt_id] = heard
        seen = await self._stage.start(launch)
        self._events.put_nowait(seen)
        if seen.seen is not Seen.REFUSED:
            self._followers.append(asyncio.create_task(self._follow(attempt_id, heard)))

    async def _follow(self, attempt_id: str, heard: Heard) -> None:
        try:
            async for data in self._stage.output(attempt_id):
                heard.feed(data)
            heard.finish()
        except BaseException:  # nobody reads any more
            self._events.put_nowait(Ending.INTERRUPTED)
            raise

    async def _last_words(self) -> None:
        if self._followers:
            done, _ = await asyncio.wait(self._followers, timeout=_LAST_WORDS)
            for task in done:
                task.result()

    async def _listen(self) -> None:
        """The kernel keeps no record of who listened: so it is looked at often."""
        over = asyncio.Event()
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), _SAMPLE)
            for attempt_id in self._played.heard.keys() - self._played.ends.keys():
                pids = await self._stage.pids(attempt_id)
                if pids:
                    found = await asyncio.to_thread(listening_ports, pids)
                    self._played.ports.setdefault(attempt_id, set()).update(found)
                    self._played.looks[attempt_id] = self._played.looks.get(attempt_id, 0) + 1


async def ask(stage: Stage, events: asyncio.Queue[Event], launch: Launch, patience: float) -> tuple[Observation, bytes]:
    """Run one short task and hear it out."""
    seen = await stage.start(launch)
    if seen.seen is Seen.REFUSED:
        return seen, b""
    timer = asyncio.get_running_loop().call_later(patience, events.put_nowait, Ending.TIMEOUT)
    try:
        while seen.seen not in (Seen.EXITED, Seen.LOST, Seen.REFUSED):
            event = await events.get()
            if event is Ending.INTERRUPTED:
                raise Interrupted
            if event is Ending.TIMEOUT:
                await stage.stop(launch.attempt_id, 0)
            elif isinstance(event, Observation) and event.attempt_id == launch.attempt_id:
                seen = event
    finally:
        timer.cancel()
    return seen, b"".join([data async for data in stage.output(launch.attempt_id)])

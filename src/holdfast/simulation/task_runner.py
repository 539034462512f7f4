"""Run the tasks of a job together until all have ended, enough succeeded, the timeout expired, or a user stops it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from holdfast.core.attempt import JobSnapshot, Observation, ObservedState, Outcome, StopRequest
from holdfast.core.planning.plan import plan_job
from holdfast.core.planning.steps import JobPolicy, Plan, StartStep, StopStep
from holdfast.core.scheduling.placement import Placement
from holdfast.engines.base import LaunchSpec

from .backend import Backend
from .completion_rules import TimedOutcome, decide_real_outcome, remove_failure_rules
from .listening_ports import find_listening_ports
from .report import SimulationEnding
from .task_output import SecretMask, TaskOutput

GRACE_PERIOD = timedelta(seconds=5)  # between TERM and KILL
_SAMPLE_INTERVAL = 0.25  # seconds between samples of the listening ports
_OUTPUT_TIMEOUT = 10.0  # seconds for the output of an ended task to arrive

SimulationEvent = Observation | SimulationEnding  # an ending: the timeout expired, or a user stops it


class SimulationInterrupted(Exception):
    """A user stopped the simulation before the tasks ran."""


@dataclass(slots=True)
class SimulationResult:
    snapshot: JobSnapshot
    ending: SimulationEnding = SimulationEnding.ENDED
    ends: dict[str, Observation] = field(default_factory=dict)
    outputs: dict[str, TaskOutput] = field(default_factory=dict)  # all by attempt ID
    ports: dict[str, set[int]] = field(default_factory=dict)
    port_samples: dict[str, int] = field(default_factory=dict)  # number of samples of the listening ports
    outcome: Outcome | None = None  # how the simulation ended
    real_outcome: TimedOutcome | None = None  # how the real run would have ended
    seconds: float = 0.0


class TaskRunner:
    def __init__(
        self,
        backend: Backend,
        events: asyncio.Queue[SimulationEvent],
        launches: Mapping[str, LaunchSpec],
        mask: SecretMask,
        say: Callable[[str, str], None],
    ) -> None:
        """`say` gets the task and a line of its output."""
        self._backend = backend
        self._events = events
        self._launches = launches
        self._mask = mask
        self._print_line = say
        self._policy = JobPolicy(time_limit=None, grace=GRACE_PERIOD)
        self._output_readers: list[asyncio.Task[None]] = []

    async def run(self, snapshot: JobSnapshot, decision: Placement, timeout: float) -> SimulationResult:
        loop = asyncio.get_running_loop()
        began = loop.time()
        job = snapshot.job
        self._result = SimulationResult(replace(snapshot, job=remove_failure_rules(job)))
        listener = asyncio.create_task(self._sample_ports())
        timer = None
        try:
            await self._apply_plan(self._build_plan({}, decision))
            timer = loop.call_later(timeout, self._events.put_nowait, SimulationEnding.TIMEOUT)
            while not self._has_ended():
                await self._handle_event(await self._events.get())
            await self._wait_for_output()
        finally:
            if timer is not None:
                timer.cancel()
            for task in (listener, *self._output_readers):
                task.cancel()
            await asyncio.gather(listener, *self._output_readers, return_exceptions=True)
        result = self._result
        result.seconds = loop.time() - began
        result.snapshot = replace(result.snapshot, job=job)
        result.real_outcome = decide_real_outcome(job, result.snapshot.tasks)
        return result

    def _has_ended(self) -> bool:
        """Whether all tasks have ended: a simulation does not retry."""
        snapshot = self._result.snapshot
        return snapshot.state.final or not any(task.state.live for task in snapshot.tasks)

    async def _handle_event(self, event: SimulationEvent) -> None:
        if isinstance(event, Observation):
            if event.seen in (ObservedState.EXITED, ObservedState.LOST, ObservedState.REFUSED):
                self._result.ends[event.attempt_id] = event
            await self._apply_plan(self._build_plan({event.attempt_id: event}))
            return
        if self._result.ending is not SimulationEnding.ENDED:  # the second request
            for attempt_id in self._launches:
                await self._backend.stop(attempt_id, 0)
            return
        self._result.ending = event
        request = StopRequest(actor="the simulation", at=datetime.now(UTC), why="the simulation has ended")
        self._result.snapshot = replace(self._result.snapshot, stop=request)
        await self._apply_plan(self._build_plan({}))

    def _build_plan(self, seen: Mapping[str, Observation], decision: Placement | None = None) -> Plan:
        return plan_job(self._result.snapshot, seen, datetime.now(UTC), self._policy, decision=decision)

    async def _apply_plan(self, planned: Plan) -> None:
        self._result.snapshot = planned.after
        self._result.outcome = planned.after.outcome or (planned.ended.outcome if planned.ended else None)
        for step in planned.steps:
            if isinstance(step, StartStep):
                await self._start_task(step.attempt_id)
            elif isinstance(step, StopStep):
                await self._backend.stop(step.attempt_id, step.grace.total_seconds())

    async def _start_task(self, attempt_id: str) -> None:
        launch = self._launches.get(attempt_id)
        if launch is None:  # a retry
            return
        output = TaskOutput(self._mask, lambda line: self._print_line(launch.task, line))
        self._result.outputs[attempt_id] = output
        seen = await self._backend.start(launch)
        self._events.put_nowait(seen)
        if seen.seen is not ObservedState.REFUSED:
            self._output_readers.append(asyncio.create_task(self._read_output(attempt_id, output)))

    async def _read_output(self, attempt_id: str, output: TaskOutput) -> None:
        try:
            async for data in self._backend.read_output(attempt_id):
                output.feed(data)
            output.finish()
        except BaseException:  # the output is no longer read
            self._events.put_nowait(SimulationEnding.INTERRUPTED)
            raise

    async def _wait_for_output(self) -> None:
        if self._output_readers:
            done, _ = await asyncio.wait(self._output_readers, timeout=_OUTPUT_TIMEOUT)
            for task in done:
                task.result()

    async def _sample_ports(self) -> None:
        """Sample the listening ports often: the kernel keeps no record of them."""
        over = asyncio.Event()
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), _SAMPLE_INTERVAL)
            for attempt_id in self._result.outputs.keys() - self._result.ends.keys():
                pids = await self._backend.list_pids(attempt_id)
                if pids:
                    found = await asyncio.to_thread(find_listening_ports, pids)
                    self._result.ports.setdefault(attempt_id, set()).update(found)
                    self._result.port_samples[attempt_id] = self._result.port_samples.get(attempt_id, 0) + 1


async def run_probe_task(
    backend: Backend, events: asyncio.Queue[SimulationEvent], launch: LaunchSpec, timeout: float
) -> tuple[Observation, bytes]:
    seen = await backend.start(launch)
    if seen.seen is ObservedState.REFUSED:
        return seen, b""
    timer = asyncio.get_running_loop().call_later(timeout, events.put_nowait, SimulationEnding.TIMEOUT)
    try:
        while seen.seen not in (ObservedState.EXITED, ObservedState.LOST, ObservedState.REFUSED):
            event = await events.get()
            if event is SimulationEnding.INTERRUPTED:
                raise SimulationInterrupted
            if event is SimulationEnding.TIMEOUT:
                await backend.stop(launch.attempt_id, 0)
            elif isinstance(event, Observation) and event.attempt_id == launch.attempt_id:
                seen = event
    finally:
        timer.cancel()
    return seen, b"".join([data async for data in backend.read_output(launch.attempt_id)])

"""An engine for tests that runs nothing: it interprets scripts in memory, or ends tasks on request.

The fake machine outlives the engine object, as real tasks outlive a server: give the same `FakeMachine` to a second
`FakeEngine` to simulate a restart. Scripts may use `echo WORDS` (with `>&2`), `exit N`, `kill -N $$`, `trap '' TERM`,
`sleep` and, for artifacts, `mkdir -p ~/artifacts` with `echo WORDS > ~/artifacts/NAME`; a task that sleeps runs until
it is stopped, finished or lost.
"""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial

from holdfast.core.attempt import Debugger, Observation, ObservedState
from holdfast.core.conditions import Condition
from holdfast.core.exits.exit import Cause
from holdfast.core.job import GIB, HOST_IMAGE
from holdfast.core.metrics.samples import Reading
from holdfast.core.scheduling.placement import Node
from holdfast.core.volumes import LOCAL_KINDS, is_mountable
from holdfast.engines.artifacts import ArtifactSink
from holdfast.engines.base import (
    EngineHealth,
    ImageSummary,
    Isolation,
    LaunchSpec,
    LogSource,
    LogStream,
    WrittenRange,
    ignore_health_change,
)

_KEEP = re.compile(r"echo (?P<words>.*?) > ~/artifacts/(?P<path>\S+)$")
_ECHO = re.compile(r"echo (?P<words>.*?)(?P<err>\s*>&2)?$")
_EXIT = re.compile(r"exit (\d+)$")
_KILL = re.compile(r"kill -(\d+) \$\$$")
_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._~-]{0,199}\Z")


@dataclass(slots=True, eq=False)
class FakeTask:
    launch: LaunchSpec
    seen: Observation
    ignores_term: bool = False
    written: list[tuple[datetime, LogStream, bytes]] = field(default_factory=list)
    logs_kept: bool = True
    removed: bool = False
    artifacts: dict[str, bytes] | None = None  # path -> content; None: no artifacts folder
    announced: set[str] = field(default_factory=set)
    reading: Reading | None = None  # its usage; None: not measurable
    starts: int = 1  # how often it really ran; more than once must never happen

    def read_stream(self, stream: LogStream) -> bytes:
        return b"".join(data for _, source, data in self.written if stream in (source, LogStream.MERGED))


@dataclass(slots=True)
class FakeMachine:
    """State that exists without a server."""

    tasks: dict[str, FakeTask] = field(default_factory=dict)
    stops: list[tuple[str, float]] = field(default_factory=list)  # every requested stop: id, grace
    engines: list[FakeEngine] = field(default_factory=list)  # the open ones
    longest_queue: int = 0  # most tasks of several jobs that waited in the engine's queue at once


class Faults:
    """Faults of an engine: none. Tests have subclasses."""

    async def before_call(self, call: str, attempt_id: str) -> None:
        """Called before a call takes effect: may raise, or hang."""

    async def after_call(self, call: str, attempt_id: str) -> None:
        """Called after it took effect, before it returns: may raise, or hang."""

    def deliver_observation(self, notify: Callable[[Observation], None], observation: Observation) -> None:
        """Call `notify` with it: now or later, once, twice, or not at all."""
        notify(observation)


class FakeEngine:
    queues = ""  # why tasks wait in the engine's own queue; empty: they run at once

    def __init__(
        self,
        machine: FakeMachine | None = None,
        *,
        name: str = "fake",
        nodes: Sequence[Node] = (Node(name="fake", cpu=4.0, memory=16 * GIB),),
        images: Sequence[str] = (HOST_IMAGE,),
        isolation: Isolation = Isolation.FULL,
        has_host_image: bool = True,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        faults: Faults | None = None,
    ) -> None:
        self.name = name
        self.machine = machine or FakeMachine()
        self.refuse: Callable[[LaunchSpec], Observation | None] = lambda _: None  # set it to refuse starts
        self.volume_kinds = LOCAL_KINDS
        self.measured = 0  # how often usage was requested
        self.faults = faults or Faults()
        self._nodes = tuple(nodes)
        self._images = tuple(images)
        self._isolation = isolation
        self._has_host_image = has_host_image
        self._now = now
        self._on_change: Callable[[Observation], None] = lambda _: None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._grown = asyncio.Event()
        self._conditions: tuple[Condition, ...] = ()
        self._on_health: Callable[[], None] = ignore_health_change

    # --- control by tests ---------------------------------------------------------------------------------------------

    def set_nodes(self, nodes: Sequence[Node]) -> None:
        self._nodes = tuple(nodes)
        self._on_health()

    def finish_task(self, attempt_id: str, code: int = 0, *, oom: bool = False) -> None:
        """End its main command."""
        self._end_task(attempt_id, seen=ObservedState.EXITED, code=code, oom=oom)

    def lose_task(self, attempt_id: str, message: str = "The process that runs the task was killed") -> None:
        """Lose it: its exit is unknown."""
        self._end_task(attempt_id, seen=ObservedState.LOST, message=message, cause=Cause.LOST)

    def prepare_task(self, attempt_id: str, message: str) -> None:
        """Take a queued task from the queue, and begin to prepare it."""
        task = self.machine.tasks[attempt_id]
        self._report_task(task, replace(task.seen, seen=ObservedState.STARTING, message=message, since=self._now()))

    def run_task(self, attempt_id: str) -> None:
        """Run a task that is queued or prepared."""
        task = self.machine.tasks[attempt_id]
        self._report_task(task, self._observe_start(task.launch))
        self._run_script(task)

    def write_log(self, attempt_id: str, data: bytes, stream: LogStream = LogStream.STDOUT) -> None:
        self.machine.tasks[attempt_id].written.append((self._now(), stream, data))
        self._wake_readers()

    def fail_task(self, attempt_id: str, code: int = 1, *, oom: bool = False) -> None:
        """Fail its main command; if it is to be held, the rest of it stays."""
        task = self.machine.tasks[attempt_id]
        if not task.launch.hold:
            self.finish_task(attempt_id, code, oom=oom)
        elif task.seen.seen is ObservedState.RUNNING:
            self._report_task(task, replace(self._observe_task(task), seen=ObservedState.HELD, code=code, oom=oom))

    def set_debuggers(self, attempt_id: str, *debuggers: Debugger) -> None:
        """Set the debuggers that wait in it."""
        task = self.machine.tasks[attempt_id]
        self._report_task(task, replace(self._observe_task(task), debuggers=debuggers))

    def set_reading(self, attempt_id: str, reading: Reading) -> None:
        """Set its usage, also at its end."""
        self.machine.tasks[attempt_id].reading = reading

    def set_conditions(self, *conditions: Condition) -> None:
        """Set the conditions that block it."""
        self._conditions = conditions
        self._on_health()

    def list_running(self) -> list[str]:
        return [id for id, task in self.machine.tasks.items() if task.seen.seen is ObservedState.RUNNING]

    # --- the contract ---------------------------------------------------------------------------------------------

    async def open(
        self, on_change: Callable[[Observation], None], on_health: Callable[[], None] = ignore_health_change
    ) -> None:
        self._on_change = on_change
        self._on_health = on_health
        self.machine.engines.append(self)

    async def close(self) -> None:
        if self in self.machine.engines:
            self.machine.engines.remove(self)
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def get_health(self) -> EngineHealth:
        return EngineHealth(
            name=self.name,
            isolation=self._isolation,
            limits="none",
            conditions=self._conditions,
            volume_kinds=self.volume_kinds,
            has_host_image=self._has_host_image,
        )

    def list_nodes(self) -> Sequence[Node]:
        return self._nodes

    async def list_images(self) -> Sequence[ImageSummary]:
        return [ImageSummary(name=name, size=None, created_at=None, source="made up") for name in self._images]

    async def start(self, launch: LaunchSpec) -> Observation:
        await asyncio.sleep(0)  # real engines always yield here
        await self.faults.before_call("start", launch.attempt_id)
        seen = self._start_task(launch)
        await self.faults.after_call("start", launch.attempt_id)
        return seen

    def _start_task(self, launch: LaunchSpec) -> Observation:
        present = self.machine.tasks.get(launch.attempt_id)
        if present is not None:
            return self._observe_task(present)
        refusal = self._find_refusal(launch)
        if refusal is not None:
            return refusal
        if self.queues:
            seen = Observation(
                attempt_id=launch.attempt_id, seen=ObservedState.QUEUED, message=self.queues, since=self._now()
            )
            self.machine.tasks[launch.attempt_id] = FakeTask(launch=launch, seen=seen)
            return seen
        self.machine.tasks[launch.attempt_id] = task = FakeTask(launch=launch, seen=self._observe_start(launch))
        asyncio.get_running_loop().call_soon(self._run_script, task)
        return task.seen

    def _observe_start(self, launch: LaunchSpec) -> Observation:
        return Observation(
            attempt_id=launch.attempt_id, seen=ObservedState.RUNNING, started_at=self._now(), elapsed=0.0
        )

    async def observe(self, attempt_ids: Collection[str]) -> dict[str, Observation]:
        await asyncio.sleep(0)
        for id in attempt_ids:
            await self.faults.before_call("observe", id)
        absent = {id: Observation(attempt_id=id, seen=ObservedState.ABSENT) for id in attempt_ids}
        found = {id: self._observe_task(self.machine.tasks[id]) for id in attempt_ids if id in self.machine.tasks}
        for id in attempt_ids:
            await self.faults.after_call("observe", id)
        return absent | found

    async def measure_tasks(self, attempt_ids: Collection[str]) -> Mapping[str, Reading]:
        await asyncio.sleep(0)
        self.measured += 1
        tasks = {id: self.machine.tasks[id] for id in attempt_ids if id in self.machine.tasks}
        return {id: task.reading for id, task in tasks.items() if task.reading and _is_running(task)}

    async def stop(self, attempt_id: str, grace: float) -> None:
        await self.faults.before_call("stop", attempt_id)
        self._stop_task(attempt_id, grace)
        await self.faults.after_call("stop", attempt_id)

    def _stop_task(self, attempt_id: str, grace: float) -> None:
        task = self.machine.tasks.get(attempt_id)
        self.machine.stops.append((attempt_id, grace))
        if task is None or not _is_running(task):
            return
        if task.ignores_term and grace > 0:
            self._kill_later(attempt_id, grace)
        else:
            code = 143 if grace > 0 else 137
            asyncio.get_running_loop().call_soon(self.finish_task, attempt_id, code)

    async def append_log(self, attempt_id: str, key: str, text: str) -> None:
        await self.faults.before_call("announce", attempt_id)
        task = self.machine.tasks.get(attempt_id)
        if task is not None and _is_running(task) and key not in task.announced:
            task.announced.add(key)
            self.write_log(attempt_id, text.encode())

    async def remove(self, attempt_id: str) -> None:
        await self.faults.before_call("remove", attempt_id)
        task = self.machine.tasks.get(attempt_id)
        if task is not None and not _is_running(task):
            task.removed = True
        await self.faults.after_call("remove", attempt_id)

    async def remove_logs(self, attempt_id: str) -> None:
        task = self.machine.tasks.get(attempt_id)
        if task is not None and not _is_running(task):
            task.logs_kept = False

    async def list_attempts(self) -> Sequence[str]:
        await self.faults.before_call("list", "")
        return [id for id, task in self.machine.tasks.items() if not task.removed]

    def open_log(self, attempt_id: str, stream: LogStream) -> LogSource | None:
        task = self.machine.tasks.get(attempt_id)
        return FakeLog(self, task, stream) if task is not None and task.logs_kept else None

    def collect_artifacts(self, attempt_id: str, sink: ArtifactSink) -> None:
        task = self.machine.tasks.get(attempt_id)
        found = (task.artifacts or {}) if task is not None and not task.removed else {}
        for path, data in sorted(found.items()):
            if not path.startswith("."):
                sink.add_file(tuple(path.encode().split(b"/")), len(data), partial(io.BytesIO, data))

    # --- interpretation -----------------------------------------------------------------------------------------------

    def _find_refusal(self, launch: LaunchSpec) -> Observation | None:
        if not _SAFE.match(launch.attempt_id):
            message = f"The attempt ID {launch.attempt_id!r} is not a valid file name."
            return _make_refusal(launch, message, Cause.INVALID_TASK)
        if self._conditions:
            return replace(_make_refusal(launch, self._conditions[0].message, Cause.START_FAILED), transient=True)
        if launch.image not in self._images:
            known = ", ".join(self._images)
            message = f"Image {launch.image!r} not found. Available images: {known}."
            return _make_refusal(launch, message, Cause.IMAGE_MISSING)
        for mount in launch.mounts:
            if not is_mountable(mount.volume, self.volume_kinds):
                return _make_refusal(launch, f"{mount.source} cannot be mounted.", Cause.NOT_ALLOWED)
        return self.refuse(launch)

    def _run_script(self, task: FakeTask) -> None:
        """Interpret the script line by line, like a shell."""
        attempt_id = task.launch.attempt_id
        for line in re.split(r"[\n;]", task.launch.script):
            line = line.strip()
            if (kept := _KEEP.match(line)) and task.artifacts is not None:
                task.artifacts[kept["path"]] = f"{kept['words']}\n".encode()
            elif line == "mkdir -p ~/artifacts":
                task.artifacts = {}
            elif said := _ECHO.match(line):
                self.write_log(
                    attempt_id, f"{said['words']}\n".encode(), LogStream.STDERR if said["err"] else LogStream.STDOUT
                )
            elif ends := _EXIT.match(line):
                return self.fail_task(attempt_id, int(ends[1])) if int(ends[1]) else self.finish_task(attempt_id, 0)
            elif dies := _KILL.match(line):
                return self.fail_task(attempt_id, 128 + int(dies[1]))
            elif line.startswith("trap '' TERM"):
                task.ignores_term = True
            elif line.startswith("sleep"):
                return None
        return self.finish_task(attempt_id, 0)

    def _kill_later(self, attempt_id: str, grace: float) -> None:
        loop = asyncio.get_running_loop()
        timer = self._timers.get(attempt_id)
        if timer is None or loop.time() + grace < timer.when():
            if timer is not None:
                timer.cancel()
            self._timers[attempt_id] = loop.call_later(grace, self.finish_task, attempt_id, 137)

    def _observe_task(self, task: FakeTask) -> Observation:
        if not _is_running(task) or task.seen.started_at is None:
            return task.seen
        return replace(task.seen, elapsed=(self._now() - task.seen.started_at).total_seconds())

    def _end_task(
        self,
        attempt_id: str,
        *,
        seen: ObservedState,
        code: int | None = None,
        oom: bool = False,
        message: str = "",
        cause: str = "",
    ) -> None:
        task = self.machine.tasks[attempt_id]
        if not _is_running(task):
            return
        ended = replace(
            self._observe_task(task),
            seen=seen,
            code=code,
            oom=oom,
            message=message,
            cause=cause,
            finished_at=self._now(),
            artifacts=seen is ObservedState.EXITED and task.artifacts is not None,
            used=task.reading if seen is ObservedState.EXITED else None,
            debuggers=(),
        )
        self._report_task(task, ended)

    def _report_task(self, task: FakeTask, seen: Observation) -> None:
        task.seen = seen
        for engine in list(self.machine.engines):
            engine.faults.deliver_observation(engine._on_change, task.seen)
        self._wake_readers()

    def _wake_readers(self) -> None:
        for engine in self.machine.engines:
            engine._grown.set()
            engine._grown = asyncio.Event()


def _is_running(task: FakeTask) -> bool:
    return task.seen.seen.alive


def _make_refusal(launch: LaunchSpec, message: str, cause: Cause) -> Observation:
    return Observation(attempt_id=launch.attempt_id, seen=ObservedState.REFUSED, message=message, cause=cause)


class FakeLog:
    def __init__(self, engine: FakeEngine, task: FakeTask, stream: LogStream) -> None:
        self._engine = engine
        self._task = task
        self._stream = stream

    async def get_size(self) -> int:
        return len(self._task.read_stream(self._stream))

    async def find_first_offset(self) -> int:
        return 0

    async def read(self, start: int, count: int) -> bytes:
        return self._task.read_stream(self._stream)[start : start + count]

    async def wait_for_growth(self, size: int, timeout: float) -> bool:
        end = asyncio.get_running_loop().time() + timeout
        while await self.get_size() <= size and not await self.is_complete():
            try:
                async with asyncio.timeout_at(end):
                    await self._engine._grown.wait()
            except TimeoutError:
                break
        return await self.get_size() > size

    async def is_complete(self) -> bool:
        return not _is_running(self._task)

    async def find_offset(self, when: datetime) -> int:
        earlier = [
            data for at, source, data in self._task.written if at < when and self._stream in (source, LogStream.MERGED)
        ]
        return sum(map(len, earlier))

    async def list_write_times(self, start: int, end: int, most: int) -> Sequence[WrittenRange]:
        found, position = [], 0
        for at, source, data in self._task.written:
            if self._stream in (source, LogStream.MERGED):
                piece = WrittenRange(max(start, position), min(end, position + len(data)), at)
                position += len(data)
                if piece.start < piece.end:
                    found.append(piece)
        return found[:most]

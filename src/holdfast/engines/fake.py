"""An engine that runs nothing: it plays scripts in memory, or waits to be told how its tasks end. For tests.

What happens on the make-believe machine outlives the engine object, as real tasks outlive a server: give the same
`FakeMachine` to a second `FakeEngine` to play a restart. Scripts may use `echo WORDS` (with `>&2`), `exit N`,
`kill -N $$`, `trap '' TERM`, `sleep` and, for artifacts, `mkdir -p ~/artifacts` with `echo WORDS > ~/artifacts/NAME`; a
task that sleeps goes on until it is stopped, finished or lost.
"""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial

from holdfast.core.attempt import Debugger, Observation, Seen
from holdfast.core.conditions import Condition
from holdfast.core.exits.exit import Cause
from holdfast.core.job import GIB, HOST_IMAGE
from holdfast.core.metrics.samples import Reading
from holdfast.core.scheduling.placement import Node
from holdfast.engines.base import (
    ArtifactSink,
    EngineHealth,
    ImageInfo,
    Isolation,
    Launch,
    LogSource,
    Stream,
    Written,
    ignore_health,
)

_KEEP = re.compile(r"echo (?P<words>.*?) > ~/artifacts/(?P<path>\S+)$")
_ECHO = re.compile(r"echo (?P<words>.*?)(?P<err>\s*>&2)?$")
_EXIT = re.compile(r"exit (\d+)$")
_KILL = re.compile(r"kill -(\d+) \$\$$")
_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._~-]{0,199}\Z")


@dataclass(slots=True, eq=False)
class FakeTask:
    launch: Launch
    seen: Observation
    ignores_term: bool = False
    written: list[tuple[datetime, Stream, bytes]] = field(default_factory=list)
    logs_kept: bool = True
    removed: bool = False
    artifacts: dict[str, bytes] | None = None  # path -> content; None: there is no such folder
    announced: set[str] = field(default_factory=set)
    reading: Reading | None = None  # what it uses; None: it cannot be measured
    starts: int = 1  # how often it truly ran; more than once is the one thing that must never be

    def content(self, stream: Stream) -> bytes:
        return b"".join(data for _, source, data in self.written if stream in (source, Stream.MERGED))


@dataclass(slots=True)
class FakeMachine:
    """What exists whether or not a server looks at it."""

    tasks: dict[str, FakeTask] = field(default_factory=dict)
    stops: list[tuple[str, float]] = field(default_factory=list)  # every stop asked for: id, grace
    engines: list[FakeEngine] = field(default_factory=list)  # those that are open


class Faults:
    """How an engine misbehaves. This one does not; tests have others."""

    async def before(self, call: str, attempt_id: str) -> None:
        """Before a call takes effect: may raise, or hang."""

    async def after(self, call: str, attempt_id: str) -> None:
        """After it took effect, before it answers: the same."""

    def deliver(self, notify: Callable[[Observation], None], observation: Observation) -> None:
        """Call `notify` with it: now or later, once, twice, or not at all."""
        notify(observation)


class FakeEngine:
    name = "fake"

    def __init__(
        self,
        machine: FakeMachine | None = None,
        *,
        nodes: Sequence[Node] = (Node(name="fake", cpu=4.0, memory=16 * GIB),),
        images: Sequence[str] = (HOST_IMAGE,),
        isolation: Isolation = Isolation.FULL,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        faults: Faults | None = None,
    ) -> None:
        self.machine = machine or FakeMachine()
        self.refuse: Callable[[Launch], Observation | None] = lambda _: None  # set it to turn starts down
        self.measured = 0  # how often somebody asked what tasks use
        self.faults = faults or Faults()
        self._nodes = tuple(nodes)
        self._images = tuple(images)
        self._isolation = isolation
        self._now = now
        self._on_change: Callable[[Observation], None] = lambda _: None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._grown = asyncio.Event()
        self._conditions: tuple[Condition, ...] = ()
        self._on_health: Callable[[], None] = ignore_health

    # --- for tests: make things happen ----------------------------------------------------------------------------

    def finish(self, attempt_id: str, code: int = 0, *, oom: bool = False) -> None:
        """Its main command ends."""
        self._end(attempt_id, seen=Seen.EXITED, code=code, oom=oom)

    def lose(self, attempt_id: str, message: str = "The process that ran it was killed") -> None:
        """Nobody knows how it ended."""
        self._end(attempt_id, seen=Seen.LOST, message=message, cause=Cause.LOST)

    def write(self, attempt_id: str, data: bytes, stream: Stream = Stream.STDOUT) -> None:
        self.machine.tasks[attempt_id].written.append((self._now(), stream, data))
        self._wake_readers()

    def fail(self, attempt_id: str, code: int = 1, *, oom: bool = False) -> None:
        """Its main command fails; where it is to be held, the rest of it stays."""
        task = self.machine.tasks[attempt_id]
        if not task.launch.hold:
            self.finish(attempt_id, code, oom=oom)
        elif task.seen.seen is Seen.RUNNING:
            self._tell(task, replace(self._present(task), seen=Seen.HELD, code=code, oom=oom))

    def debug(self, attempt_id: str, *debuggers: Debugger) -> None:
        """These debuggers wait in it from now on."""
        task = self.machine.tasks[attempt_id]
        self._tell(task, replace(self._present(task), debuggers=debuggers))

    def use(self, attempt_id: str, reading: Reading) -> None:
        """This is found of it from now on, and of its end."""
        self.machine.tasks[attempt_id].reading = reading

    def set_conditions(self, *conditions: Condition) -> None:
        """These keep it from working from now on."""
        self._conditions = conditions
        self._on_health()

    def running(self) -> list[str]:
        return [id for id, task in self.machine.tasks.items() if task.seen.seen is Seen.RUNNING]

    # --- the contract ---------------------------------------------------------------------------------------------

    async def open(
        self, on_change: Callable[[Observation], None], on_health: Callable[[], None] = ignore_health
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

    def health(self) -> EngineHealth:
        return EngineHealth(name=self.name, isolation=self._isolation, limits="none", conditions=self._conditions)

    def nodes(self) -> Sequence[Node]:
        return self._nodes

    async def images(self) -> Sequence[ImageInfo]:
        return [ImageInfo(name=name, size=None, created_at=None, source="made up") for name in self._images]

    async def start(self, launch: Launch) -> Observation:
        await asyncio.sleep(0)  # real engines always yield here
        await self.faults.before("start", launch.attempt_id)
        seen = self._start(launch)
        await self.faults.after("start", launch.attempt_id)
        return seen

    def _start(self, launch: Launch) -> Observation:
        present = self.machine.tasks.get(launch.attempt_id)
        if present is not None:
            return self._present(present)
        refusal = self._refusal(launch)
        if refusal is not None:
            return refusal
        seen = Observation(attempt_id=launch.attempt_id, seen=Seen.RUNNING, started_at=self._now(), elapsed=0.0)
        self.machine.tasks[launch.attempt_id] = task = FakeTask(launch=launch, seen=seen)
        asyncio.get_running_loop().call_soon(self._play, task)
        return seen

    async def observe(self, attempt_ids: Collection[str]) -> dict[str, Observation]:
        await asyncio.sleep(0)
        for id in attempt_ids:
            await self.faults.before("observe", id)
        absent = {id: Observation(attempt_id=id, seen=Seen.ABSENT) for id in attempt_ids}
        found = {id: self._present(self.machine.tasks[id]) for id in attempt_ids if id in self.machine.tasks}
        for id in attempt_ids:
            await self.faults.after("observe", id)
        return absent | found

    async def measure(self, attempt_ids: Collection[str]) -> Mapping[str, Reading]:
        await asyncio.sleep(0)
        self.measured += 1
        tasks = {id: self.machine.tasks[id] for id in attempt_ids if id in self.machine.tasks}
        return {id: task.reading for id, task in tasks.items() if task.reading and _lives(task)}

    async def stop(self, attempt_id: str, grace: float) -> None:
        await self.faults.before("stop", attempt_id)
        self._stop(attempt_id, grace)
        await self.faults.after("stop", attempt_id)

    def _stop(self, attempt_id: str, grace: float) -> None:
        task = self.machine.tasks.get(attempt_id)
        self.machine.stops.append((attempt_id, grace))
        if task is None or not _lives(task):
            return
        if task.ignores_term and grace > 0:
            self._kill_later(attempt_id, grace)
        else:
            code = 143 if grace > 0 else 137
            asyncio.get_running_loop().call_soon(self.finish, attempt_id, code)

    async def announce(self, attempt_id: str, key: str, text: str) -> None:
        await self.faults.before("announce", attempt_id)
        task = self.machine.tasks.get(attempt_id)
        if task is not None and _lives(task) and key not in task.announced:
            task.announced.add(key)
            self.write(attempt_id, text.encode())

    async def remove(self, attempt_id: str) -> None:
        await self.faults.before("remove", attempt_id)
        task = self.machine.tasks.get(attempt_id)
        if task is not None and not _lives(task):
            task.removed = True
        await self.faults.after("remove", attempt_id)

    async def remove_logs(self, attempt_id: str) -> None:
        task = self.machine.tasks.get(attempt_id)
        if task is not None and not _lives(task):
            task.logs_kept = False

    async def list_attempts(self) -> Sequence[str]:
        await self.faults.before("list", "")
        return [id for id, task in self.machine.tasks.items() if not task.removed]

    def log(self, attempt_id: str, stream: Stream) -> LogSource | None:
        task = self.machine.tasks.get(attempt_id)
        return FakeLog(self, task, stream) if task is not None and task.logs_kept else None

    def collect(self, attempt_id: str, sink: ArtifactSink) -> None:
        task = self.machine.tasks.get(attempt_id)
        found = (task.artifacts or {}) if task is not None and not task.removed else {}
        for path, data in sorted(found.items()):
            if not path.startswith("."):
                sink.take(tuple(path.encode().split(b"/")), len(data), partial(io.BytesIO, data))

    # --- how it plays ---------------------------------------------------------------------------------------------

    def _refusal(self, launch: Launch) -> Observation | None:
        if not _SAFE.match(launch.attempt_id):
            message = f"The attempt id {launch.attempt_id!r} cannot be used as a file name."
            return _refused(launch, message, Cause.INVALID_TASK)
        if self._conditions:
            return replace(_refused(launch, self._conditions[0].message, Cause.START_FAILED), transient=True)
        if launch.image not in self._images:
            known = ", ".join(self._images)
            message = f"There is no image {launch.image!r} here. Known images: {known}."
            return _refused(launch, message, Cause.IMAGE_MISSING)
        return self.refuse(launch)

    def _play(self, task: FakeTask) -> None:
        """Go through the script line by line, as a shell would."""
        attempt_id = task.launch.attempt_id
        for line in re.split(r"[\n;]", task.launch.script):
            line = line.strip()
            if (kept := _KEEP.match(line)) and task.artifacts is not None:
                task.artifacts[kept["path"]] = f"{kept['words']}\n".encode()
            elif line == "mkdir -p ~/artifacts":
                task.artifacts = {}
            elif said := _ECHO.match(line):
                self.write(attempt_id, f"{said['words']}\n".encode(), Stream.STDERR if said["err"] else Stream.STDOUT)
            elif ends := _EXIT.match(line):
                return self.fail(attempt_id, int(ends[1])) if int(ends[1]) else self.finish(attempt_id, 0)
            elif dies := _KILL.match(line):
                return self.fail(attempt_id, 128 + int(dies[1]))
            elif line.startswith("trap '' TERM"):
                task.ignores_term = True
            elif line.startswith("sleep"):
                return None
        return self.finish(attempt_id, 0)

    def _kill_later(self, attempt_id: str, grace: float) -> None:
        loop = asyncio.get_running_loop()
        timer = self._timers.get(attempt_id)
        if timer is None or loop.time() + grace < timer.when():
            if timer is not None:
                timer.cancel()
            self._timers[attempt_id] = loop.call_later(grace, self.finish, attempt_id, 137)

    def _present(self, task: FakeTask) -> Observation:
        if not _lives(task) or task.seen.started_at is None:
            return task.seen
        return replace(task.seen, elapsed=(self._now() - task.seen.started_at).total_seconds())

    def _end(
        self,
        attempt_id: str,
        *,
        seen: Seen,
        code: int | None = None,
        oom: bool = False,
        message: str = "",
        cause: str = "",
    ) -> None:
        task = self.machine.tasks[attempt_id]
        if not _lives(task):
            return
        ended = replace(
            self._present(task),
            seen=seen,
            code=code,
            oom=oom,
            message=message,
            cause=cause,
            finished_at=self._now(),
            artifacts=seen is Seen.EXITED and task.artifacts is not None,
            used=task.reading if seen is Seen.EXITED else None,
            debuggers=(),
        )
        self._tell(task, ended)

    def _tell(self, task: FakeTask, seen: Observation) -> None:
        task.seen = seen
        for engine in list(self.machine.engines):
            engine.faults.deliver(engine._on_change, task.seen)
        self._wake_readers()

    def _wake_readers(self) -> None:
        for engine in self.machine.engines:
            engine._grown.set()
            engine._grown = asyncio.Event()


def _lives(task: FakeTask) -> bool:
    return task.seen.seen in (Seen.RUNNING, Seen.HELD)


def _refused(launch: Launch, message: str, cause: Cause) -> Observation:
    return Observation(attempt_id=launch.attempt_id, seen=Seen.REFUSED, message=message, cause=cause)


class FakeLog:
    def __init__(self, engine: FakeEngine, task: FakeTask, stream: Stream) -> None:
        self._engine = engine
        self._task = task
        self._stream = stream

    async def size(self) -> int:
        return len(self._task.content(self._stream))

    async def first(self) -> int:
        return 0

    async def read(self, start: int, count: int) -> bytes:
        return self._task.content(self._stream)[start : start + count]

    async def grown(self, size: int, timeout: float) -> bool:
        end = asyncio.get_running_loop().time() + timeout
        while await self.size() <= size and not await self.complete():
            try:
                async with asyncio.timeout_at(end):
                    await self._engine._grown.wait()
            except TimeoutError:
                break
        return await self.size() > size

    async def complete(self) -> bool:
        return not _lives(self._task)

    async def offset_at(self, when: datetime) -> int:
        earlier = [
            data for at, source, data in self._task.written if at < when and self._stream in (source, Stream.MERGED)
        ]
        return sum(map(len, earlier))

    async def times(self, start: int, end: int, most: int) -> Sequence[Written]:
        found, position = [], 0
        for at, source, data in self._task.written:
            if self._stream in (source, Stream.MERGED):
                piece = Written(max(start, position), min(end, position + len(data)), at)
                position += len(data)
                if piece.start < piece.end:
                    found.append(piece)
        return found[:most]

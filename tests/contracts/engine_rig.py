"""What the engine contract is made of: an open engine with its reports, and the hooks of each engine's test file."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from typing import Any, BinaryIO

import pytest

from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.job import MIB, Mount, Resources
from holdfast.engines.artifacts import SkipReason, SupportsArtifacts
from holdfast.engines.base import Engine, LaunchSpec, LogSource, LogStream, SupportsExec

BEFORE_THE_END = (ObservedState.QUEUED, ObservedState.STARTING, ObservedState.RUNNING)
FOREVER = "echo up\nsleep 600"
TIMEOUT = 300.0  # seconds for a whole scenario; only a broken engine ever takes that long


def launch(attempt_id: str, script: str, **more: Any) -> LaunchSpec:
    given: dict[str, Any] = {
        "job_id": "job",
        "task": "worker-0",
        "user": "ada",
        "group": "default",
        "image": "host",
        "shell_options": ("errexit", "pipefail"),
        "env": {},
        "resources": Resources(cpu=1.0, memory=256 * MIB),
    }
    return LaunchSpec(attempt_id=attempt_id, script=script, **{**given, **more})


class Rig:
    """An open engine, and everything it has told."""

    def __init__(self, make: Callable[[], Engine], image: str = "host") -> None:
        self._make = make
        self.image = image
        self.engine: Engine
        self.told: list[Observation] = []
        self._news = asyncio.Condition()
        self._others: list[Engine] = []

    async def open(self) -> None:
        self.engine = self._make()
        await self.engine.open(self._hear)

    async def close(self) -> None:
        for engine in (self.engine, *self._others):
            await engine.close()

    async def reopen(self) -> None:
        """As if the server was restarted."""
        await self.engine.close()
        self.told.clear()
        await self.open()

    async def another(self) -> Engine:
        """A second engine at the same place."""
        engine = self._make()
        await engine.open(lambda _: None)
        self._others.append(engine)
        return engine

    def _hear(self, seen: Observation) -> None:
        self.told.append(seen)
        asyncio.get_running_loop().create_task(self._spread())

    async def _spread(self) -> None:
        async with self._news:
            self._news.notify_all()

    async def end_of(self, attempt_id: str, before: Collection[ObservedState] = BEFORE_THE_END) -> Observation:
        """The end of a task, as the engine tells it. It may tell the same more than once."""

        def ends() -> list[Observation]:
            return [seen for seen in self.told if seen.attempt_id == attempt_id and seen.seen not in before]

        async with self._news:
            await self._news.wait_for(ends)
        return ends()[0]

    async def stop_held(self, attempt_id: str, grace: float = TIMEOUT) -> Observation:
        """Stop a held task; return its end."""
        await self.engine.stop(attempt_id, grace)
        return await self.end_of(attempt_id, (*BEFORE_THE_END, ObservedState.HELD))

    def launch(self, attempt_id: str, script: str, **more: Any) -> LaunchSpec:
        return launch(attempt_id, script, **{"image": self.image, **more})

    async def run(self, attempt_id: str, script: str, **more: Any) -> Observation:
        """Start it and wait for its end."""
        seen = await self.engine.start(self.launch(attempt_id, script, **more))
        return await self.end_of(attempt_id) if seen.seen in BEFORE_THE_END else seen

    async def start_and_wait_for(self, word: bytes, attempt_id: str, script: str, **more: Any) -> None:
        """Start it and wait until it has printed that."""
        seen = await self.engine.start(self.launch(attempt_id, script, **more))
        assert seen.seen in BEFORE_THE_END, seen
        await self.wait_until_running(attempt_id)
        log = self.log(attempt_id)
        size = 0
        while word not in await read_all(log):
            assert await log.wait_for_growth(size, TIMEOUT), await read_all(log)
            size = await log.get_size()

    async def wait_until_running(self, attempt_id: str) -> None:
        """Wait while it is queued or being prepared."""
        while (seen := await self.look(attempt_id)).seen in (ObservedState.QUEUED, ObservedState.STARTING):
            await asyncio.sleep(0.005)
        assert seen.seen is not ObservedState.ABSENT, seen

    def log(self, attempt_id: str, stream: LogStream = LogStream.STDOUT) -> LogSource:
        log = self.engine.open_log(attempt_id, stream)
        assert log is not None
        return log

    async def look(self, attempt_id: str) -> Observation:
        return (await self.engine.observe([attempt_id]))[attempt_id]


def without_figures(seen: Observation) -> Observation:
    """What a task used can be told less exactly as time goes by."""
    return replace(seen, used=None)


async def read_all(log: LogSource) -> bytes:
    offset, found = await log.find_first_offset(), []
    while data := await log.read(offset, 1 << 24):
        offset += len(data)
        found.append(data)
    return b"".join(found)


class Basket:
    """Takes every artifact."""

    is_cancelled = False

    def __init__(self) -> None:
        self.files: dict[bytes, bytes] = {}
        self.left: dict[bytes, SkipReason] = {}
        self.more = False

    def add_file(self, path: tuple[bytes, ...], size: int, open_file: Callable[[], BinaryIO]) -> None:
        with open_file() as file:
            self.files[b"/".join(path)] = file.read(size)

    def skip_entry(self, path: tuple[bytes, ...], why: SkipReason, count: int = 1) -> None:
        self.left[b"/".join(path)] = why

    def mark_incomplete(self) -> None:
        self.more = True


def collect(engine: Engine, attempt_id: str) -> Basket:
    assert isinstance(engine, SupportsArtifacts)
    basket = Basket()
    engine.collect_artifacts(attempt_id, basket)
    return basket


async def sweep(engine: Engine, known: Collection[str] = ()) -> list[str]:
    """Stop and remove what is there, save what is known."""
    strays = [id for id in await engine.list_attempts() if id not in known]
    for id in strays:
        await engine.stop(id, 0)
    for id in strays:
        while (await engine.observe([id]))[id].seen.alive:
            await asyncio.sleep(0.005)
        await engine.remove(id)
    return strays


class EngineHarness:
    """How the contract gets an engine, and changes the world around it. Each engine's test file fills it in."""

    image = "host"  # one that this engine has
    no_shell_image = ""  # one without a shell; empty: this engine accepts none
    runs_programs = True  # False: it interprets a few commands itself
    has_own_folders = True  # tasks have folders of their own at the same paths; False: they see the machine's
    gives_gpus = True  # False: it refuses tasks that request GPUs
    python_mounts: tuple[Mount, ...] = ()  # what a task needs to run python3

    def make(self) -> Engine:
        """A new engine at this test's one place."""
        raise NotImplementedError

    def make_other_installation(self) -> Engine:
        """An engine of another installation on the same machine."""
        pytest.skip("this engine has no installations beside each other")

    def use(self, engine: Engine, attempt_id: str) -> None:
        """Have it use something, where tasks do so only when told to."""

    def kill_daemon(self) -> None:
        """Kill what runs the tasks for the engine, as a crash would, or make it unreachable."""
        pytest.skip("this engine has no daemon that could be killed")

    def start_daemon(self) -> None:
        """Start it again, and wait until it responds."""

    def remove_by_hand(self, rig: Rig, attempt_id: str) -> None:
        """End a running task from outside, so that its exit code is unknown."""
        raise NotImplementedError

    def delete_folder_by_hand(self, attempt_id: str) -> None:
        """Delete the files of a task, while it runs."""
        pytest.skip("this engine has no files of tasks")

    def create_file(self, attempt_id: str, name: str) -> None:
        """Create a file in the home of a task, without the daemon."""
        pytest.skip("the files of this engine's tasks cannot be reached without it")

    def need_programs(self) -> None:
        if not self.runs_programs:
            pytest.skip("this engine runs no programs")

    def need_exec(self, engine: Engine) -> SupportsExec:
        if not isinstance(engine, SupportsExec):
            pytest.skip(f"{engine.name} does not support sessions in tasks")
        return engine

    def play(self, scenario: Callable[[Rig], Awaitable[None]]) -> None:
        async def go() -> None:
            rig = Rig(self.make, self.image)
            await rig.open()
            try:
                await asyncio.wait_for(_as_coroutine(scenario(rig)), TIMEOUT)
            finally:
                await sweep(rig.engine, [])
                await rig.close()

        asyncio.run(go())


async def _as_coroutine(work: Awaitable[None]) -> None:
    await work

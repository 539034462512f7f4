"""What every engine must do. Each engine's test file subclasses `EngineContract` and says how to make one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO

import pytest

from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.job import MIB, Resources
from holdfast.engines.base import (
    Engine,
    LaunchSpec,
    LogSource,
    LogStream,
    SkipReason,
    SupportsArtifacts,
    SupportsMetrics,
)
from holdfast.services.logs.reading import follow_source

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

    async def end_of(self, attempt_id: str) -> Observation:
        """The end of a task, as the engine tells it."""

        def ends() -> list[Observation]:
            return [
                seen for seen in self.told if seen.attempt_id == attempt_id and seen.seen is not ObservedState.RUNNING
            ]

        async with self._news:
            await self._news.wait_for(ends)
        return ends()[0]

    def launch(self, attempt_id: str, script: str, **more: Any) -> LaunchSpec:
        return launch(attempt_id, script, **{"image": self.image, **more})

    async def run(self, attempt_id: str, script: str, **more: Any) -> Observation:
        """Start it and wait for its end."""
        seen = await self.engine.start(self.launch(attempt_id, script, **more))
        return await self.end_of(attempt_id) if seen.seen is ObservedState.RUNNING else seen

    async def start_and_wait_for(self, word: bytes, attempt_id: str, script: str, **more: Any) -> None:
        """Start it and wait until it has printed that."""
        seen = await self.engine.start(self.launch(attempt_id, script, **more))
        assert seen.seen is ObservedState.RUNNING, seen
        log = self.log(attempt_id)
        size = 0
        while word not in await read_all(log):
            assert await log.wait_for_growth(size, TIMEOUT), await read_all(log)
            size = await log.get_size()

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
    return await log.read(await log.find_first_offset(), 1 << 24)


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
        while (await engine.observe([id]))[id].seen in (ObservedState.RUNNING, ObservedState.HELD):
            await asyncio.sleep(0.005)
        await engine.remove(id)
    return strays


class EngineContract:
    image = "host"  # one that this engine has

    def make(self) -> Engine:
        """A new engine at this test's one place."""
        raise NotImplementedError

    def use(self, engine: Engine, attempt_id: str) -> None:
        """Have it use something, where tasks do so only when told to."""

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

    # --- starting and ending --------------------------------------------------------------------------------------

    @pytest.mark.release_after(3)  # all: each engine has a runner of its own
    @pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137)])
    def test_the_exit_code_is_the_programs_own(self, script: str, code: int) -> None:
        async def scenario(rig: Rig) -> None:
            seen = await rig.run("a", script)
            assert (seen.seen, seen.code, seen.oom) == (ObservedState.EXITED, code, False)
            assert (await rig.look("a")).code == code

        self.play(scenario)

    def test_an_entry_runs_in_place_of_the_script_and_is_given_it(self) -> None:
        async def scenario(rig: Rig) -> None:
            seen = await rig.run("a", "echo mine\nexit 4", entry='sh "$1"')
            assert (seen.seen, seen.code) == (ObservedState.EXITED, 4)
            assert await read_all(rig.log("a")) == b"mine\n"

        self.play(scenario)

    def test_times_are_told_and_stay_the_same(self) -> None:
        async def scenario(rig: Rig) -> None:
            before = datetime.now(UTC) - timedelta(milliseconds=1)
            started = await rig.engine.start(rig.launch("a", "echo up\nsleep 600"))
            assert started.started_at is not None
            assert before <= started.started_at <= datetime.now(UTC)
            await rig.start_and_wait_for(b"up", "a", "echo up\nsleep 600")  # it is not started again
            await rig.engine.stop("a", 0)
            ended = await rig.end_of("a")
            assert ended.started_at == started.started_at
            assert ended.finished_at is not None
            assert ended.finished_at >= ended.started_at
            assert ended.elapsed is not None
            assert ended.elapsed >= 0
            await rig.reopen()
            assert without_figures(await rig.look("a")) == without_figures(ended)

        self.play(scenario)

    def test_a_failed_one_that_is_to_be_held_stands_still(self) -> None:
        async def scenario(rig: Rig) -> None:
            held = await rig.run("kept", "echo before; exit 3", hold=True)
            assert (held.seen, held.code, held.oom) == (ObservedState.HELD, 3, False)
            await rig.engine.append_log("kept", "held", "kept for you\n")
            await rig.engine.append_log("kept", "held", "kept for you\n")
            await rig.reopen()
            again = (await rig.engine.observe(["kept"]))["kept"]
            assert (again.seen, again.code) == (ObservedState.HELD, 3)
            await rig.engine.append_log("kept", "held", "kept for you\n")
            source = rig.engine.open_log("kept", LogStream.STDOUT)
            assert source is not None
            assert not await source.is_complete()
            assert await source.read(0, 1000) == b"before\nkept for you\n"
            await rig.engine.remove("kept")  # it is there: nothing happens
            rig.told.clear()
            await rig.engine.stop("kept", 30)
            assert (await rig.end_of("kept")).seen is ObservedState.EXITED

        self.play(scenario)

    def test_success_is_not_held(self) -> None:
        async def scenario(rig: Rig) -> None:
            ended = await rig.run("fine", "echo fine", hold=True)
            assert (ended.seen, ended.code) == (ObservedState.EXITED, 0)

        self.play(scenario)

    def test_one_that_is_being_stopped_is_not_held(self) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.start_and_wait_for(b"here", "stopped", "echo here; sleep 1000", hold=True)
            await rig.engine.stop("stopped", 30)
            assert (await rig.end_of("stopped")).seen is ObservedState.EXITED

        self.play(scenario)

    def test_what_never_started_is_absent(self) -> None:
        async def scenario(rig: Rig) -> None:
            assert await rig.engine.observe([]) == {}
            assert (await rig.look("never")).seen is ObservedState.ABSENT
            assert rig.engine.open_log("never", LogStream.STDOUT) is None

        self.play(scenario)

    def test_an_unknown_image_is_refused_and_leaves_nothing(self) -> None:
        async def scenario(rig: Rig) -> None:
            seen = await rig.engine.start(rig.launch("a", "exit 0", image="no/such:image"))
            assert (seen.seen, seen.transient, seen.cause) == (ObservedState.REFUSED, False, "image-missing")
            assert "no/such:image" in seen.message
            assert rig.image in seen.message
            assert (await rig.look("a")).seen is ObservedState.ABSENT
            assert rig.engine.open_log("a", LogStream.STDOUT) is None
            assert (await rig.run("a", "exit 0")).code == 0  # the same id may be used once it can run

        self.play(scenario)

    @pytest.mark.release_after(3)
    @pytest.mark.parametrize("name", ["../a", "a/b", "", ".", "..", "a\0b", "a\nb", "x" * 300, "-rf"])
    def test_names_that_are_no_file_names_are_refused(self, name: str) -> None:
        async def scenario(rig: Rig) -> None:
            assert (await rig.engine.start(rig.launch(name, "exit 0"))).seen is ObservedState.REFUSED
            assert (await rig.look(name)).seen is ObservedState.ABSENT
            assert rig.engine.open_log(name, LogStream.STDOUT) is None
            await rig.engine.stop(name, 0)
            await rig.engine.remove(name)
            await rig.engine.remove_logs(name)

        self.play(scenario)

    def test_names_that_are_odd_but_fine_are_taken(self) -> None:
        async def scenario(rig: Rig) -> None:
            assert (await rig.run("job~role_1.worker~0-1", "exit 4")).code == 4
            await rig.engine.remove_logs("job~role_1.worker~0-1")

        self.play(scenario)

    # --- once, and only once --------------------------------------------------------------------------------------

    def test_starting_again_runs_nothing(self) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.run("a", "echo once\nexit 5")
            for _ in range(2):
                again = await rig.engine.start(rig.launch("a", "echo once\nexit 5"))
                assert (again.seen, again.code) == (ObservedState.EXITED, 5)
                await rig.engine.remove("a")  # not even after it was removed
            assert await read_all(rig.log("a")) == b"once\n"

        self.play(scenario)

    def test_starting_what_runs_answers_that_it_runs(self) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.start_and_wait_for(b"up", "a", "echo up\nsleep 600")
            assert (await rig.engine.start(rig.launch("a", "echo up\nsleep 600"))).seen is ObservedState.RUNNING
            assert await read_all(rig.log("a")) == b"up\n"

        self.play(scenario)

    def test_two_servers_that_start_the_same_start_it_once(self) -> None:
        async def scenario(rig: Rig) -> None:
            other = await rig.another()
            for number in range(10):
                work = rig.launch(f"a{number}", "echo once\nsleep 600")
                seen = await asyncio.gather(rig.engine.start(work), other.start(work))
                assert {each.seen for each in seen} == {ObservedState.RUNNING}
            for number in range(10):
                log = rig.log(f"a{number}")
                await log.wait_for_growth(0, TIMEOUT)
                await rig.engine.stop(f"a{number}", 0)
                await rig.end_of(f"a{number}")
                assert await read_all(log) == b"once\n"

        self.play(scenario)

    # --- stopping -------------------------------------------------------------------------------------------------

    def test_stop_ends_a_task_that_listens(self) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.start_and_wait_for(b"up", "a", "echo up\nsleep 600")
            await rig.engine.stop("a", TIMEOUT * 10)
            assert (await rig.end_of("a")).code == 143

        self.play(scenario)

    def test_stop_kills_a_task_that_does_not_listen(self) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.start_and_wait_for(b"up", "a", "trap '' TERM\necho up\nsleep 600")
            await rig.engine.stop("a", 0.2)
            assert (await rig.end_of("a")).code == 137

        self.play(scenario)

    def test_a_second_stop_can_only_shorten_the_grace(self) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.start_and_wait_for(b"up", "a", "trap '' TERM\necho up\nsleep 600")
            await rig.engine.stop("a", TIMEOUT * 10)
            await rig.engine.stop("a", 0.1)
            await rig.engine.stop("a", TIMEOUT * 10)
            assert (await rig.end_of("a")).code == 137

        self.play(scenario)

    def test_stopping_what_does_not_run_is_harmless(self) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.engine.stop("never", 1)
            await rig.run("a", "exit 4")
            await rig.engine.stop("a", 0)
            assert (await rig.look("a")).code == 4

        self.play(scenario)

    def test_a_task_can_be_stopped_the_moment_it_starts(self) -> None:
        async def scenario(rig: Rig) -> None:
            for number in range(5):
                await rig.engine.start(rig.launch(f"a{number}", "sleep 600"))
                await rig.engine.stop(f"a{number}", TIMEOUT if number % 2 else 0)
            for number in range(5):
                assert (await rig.end_of(f"a{number}")).seen in (ObservedState.EXITED, ObservedState.LOST)

        self.play(scenario)

    # --- what it uses ---------------------------------------------------------------------------------------------

    def test_what_runs_or_is_held_is_measured_and_nothing_else(self) -> None:
        async def scenario(rig: Rig) -> None:
            if not isinstance(rig.engine, SupportsMetrics):
                pytest.skip("this engine does not measure")
            await rig.start_and_wait_for(b"up", "runs", "echo up\nsleep 600")
            await rig.run("held", "exit 3", hold=True)
            await rig.run("ended", "exit 0")
            for name in ("runs", "held", "ended"):
                self.use(rig.engine, name)
            everyone = ["runs", "held", "ended", "never", "../odd"]
            first = await rig.engine.measure_tasks(everyone)
            assert set(first) == {"runs", "held"}
            assert all(reading.processes > 0 for reading in first.values())
            again = await rig.engine.measure_tasks(everyone)
            assert again["runs"].at >= first["runs"].at
            assert again["runs"].cpu >= first["runs"].cpu
            assert await rig.engine.measure_tasks([]) == {}
            await rig.reopen()
            assert isinstance(rig.engine, SupportsMetrics)
            await rig.engine.observe(everyone)
            later = await rig.engine.measure_tasks(everyone)
            assert set(later) == {"runs", "held"}
            assert later["runs"].cpu >= first["runs"].cpu

        self.play(scenario)

    # --- the server goes away and comes back ----------------------------------------------------------------------

    def test_a_new_server_takes_up_what_runs(self) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.start_and_wait_for(b"up", "a", "echo up\nsleep 600")
            await rig.reopen()
            seen = await rig.look("a")
            assert seen.seen is ObservedState.RUNNING
            assert seen.elapsed is not None
            assert not await rig.log("a").is_complete()
            await rig.engine.stop("a", TIMEOUT)
            assert (await rig.end_of("a")).code == 143

        self.play(scenario)

    def test_a_new_server_learns_how_things_ended_meanwhile(self) -> None:
        async def scenario(rig: Rig) -> None:
            for number in range(5):
                await rig.engine.start(rig.launch(f"a{number}", f"echo {number}\nexit {number}"))
            await rig.reopen()
            for number in range(5):
                seen = await rig.look(f"a{number}")
                if seen.seen is ObservedState.RUNNING:
                    seen = await rig.end_of(f"a{number}")
                assert (seen.seen, seen.code) == (ObservedState.EXITED, number), seen
                assert await read_all(rig.log(f"a{number}", LogStream.MERGED)) == f"{number}\n".encode()

        self.play(scenario)

    def test_a_new_server_can_start_by_stopping(self) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.start_and_wait_for(b"up", "a", "echo up\nsleep 600")
            await rig.reopen()
            await rig.engine.stop("a", TIMEOUT)
            assert (await rig.end_of("a")).code == 143

        self.play(scenario)

    # --- logs -----------------------------------------------------------------------------------------------------

    def test_streams_are_kept_apart_and_together(self) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.run("a", "echo out\necho err >&2\necho more\nexit 1")
            assert await read_all(rig.log("a", LogStream.STDOUT)) == b"out\nmore\n"
            assert await read_all(rig.log("a", LogStream.STDERR)) == b"err\n"
            merged = await read_all(rig.log("a", LogStream.MERGED))
            assert sorted(merged.splitlines()) == [b"err", b"more", b"out"]
            assert merged.index(b"out") < merged.index(b"more")

        self.play(scenario)

    @pytest.mark.parametrize("stream", [LogStream.STDOUT, LogStream.MERGED])
    def test_a_log_is_read_by_ranges(self, stream: LogStream) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.run("a", "echo 0123456789")
            log = rig.log("a", stream)
            assert await log.get_size() == 11
            assert await log.find_first_offset() == 0
            assert await log.read(2, 3) == b"234"
            assert await log.read(8, 100) == b"89\n"
            assert await log.read(11, 10) == b""
            assert await log.read(1000, 10) == b""

        self.play(scenario)

    @pytest.mark.parametrize("stream", list(LogStream))
    def test_a_reader_is_woken_when_a_log_grows(self, stream: LogStream) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.engine.start(rig.launch("a", "echo up\necho up >&2\nsleep 600"))
            log = rig.log("a", stream)
            assert await log.wait_for_growth(0, TIMEOUT)
            size = await log.get_size()
            assert not await log.is_complete()
            waiting = asyncio.create_task(log.wait_for_growth(size + 100, TIMEOUT * 10))
            await rig.engine.stop("a", 0)
            assert not await waiting  # the end wakes it too
            assert await log.is_complete()
            assert not await log.wait_for_growth(await log.get_size(), TIMEOUT * 10)

        self.play(scenario)

    @pytest.mark.parametrize("stream", [LogStream.STDOUT, LogStream.MERGED])
    def test_one_who_follows_a_log_from_its_first_moment_misses_nothing(self, stream: LogStream) -> None:
        async def scenario(rig: Rig) -> None:
            for attempt_id in ("a", "b", "c"):
                starting = asyncio.create_task(rig.engine.start(rig.launch(attempt_id, "echo hello")))
                while (log := rig.engine.open_log(attempt_id, stream)) is None:
                    await asyncio.sleep(0)
                assert b"".join([data async for _, data in follow_source(log, 0)]) == b"hello\n"
                await starting

        self.play(scenario)

    @pytest.mark.parametrize("stream", [LogStream.STDOUT, LogStream.MERGED])
    def test_after_a_restart_a_log_is_not_complete_while_its_task_runs(self, stream: LogStream) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.start_and_wait_for(b"up", "a", "echo up\nsleep 600")
            await rig.reopen()
            log = rig.log("a", stream)
            assert not await log.is_complete()  # though nobody has looked yet for what runs
            assert not await log.wait_for_growth(len(b"up\n"), 0.05)
            waiting = asyncio.create_task(
                log.wait_for_growth(10_000, TIMEOUT * 10)
            )  # a shell may say that it was killed
            await rig.engine.stop("a", 0)
            assert not await waiting
            assert await log.is_complete()
            assert (await read_all(log)).startswith(b"up\n")

        self.play(scenario)

    def test_a_log_knows_what_was_written_when(self) -> None:
        async def scenario(rig: Rig) -> None:
            long_ago = datetime.now(UTC) - timedelta(hours=1)
            await rig.run("a", "echo first\necho second")
            for stream in (LogStream.STDOUT, LogStream.MERGED):
                log = rig.log("a", stream)
                assert await log.find_offset(long_ago) == 0
                later = await log.find_offset(datetime.now(UTC) + timedelta(hours=1))
                assert 0 <= later <= await log.get_size()

        self.play(scenario)

    @pytest.mark.parametrize("stream", list(LogStream))
    def test_a_log_tells_when_its_bytes_were_written(self, stream: LogStream) -> None:
        async def scenario(rig: Rig) -> None:
            began = datetime.now(UTC) - timedelta(minutes=1)
            await rig.run("a", "echo first\necho odd >&2\necho second\necho even >&2")
            log = rig.log("a", stream)
            size = await log.get_size()
            pieces = await log.list_write_times(0, size, 1000)
            assert b"".join([await log.read(start, end - start) for start, end, _ in pieces]) == await read_all(log)
            assert [piece.at for piece in pieces] == sorted(piece.at for piece in pieces)
            assert all(began < piece.at < datetime.now(UTC) + timedelta(minutes=1) for piece in pieces)
            assert [(piece.start, piece.end) for piece in await log.list_write_times(2, 4, 1000)] == [(2, 4)]
            assert await log.list_write_times(0, size, 1) == pieces[:1]
            assert not await log.list_write_times(size, size + 1000, 1000)
            assert not await log.list_write_times(5, 5, 1000)

        self.play(scenario)

    # --- artifacts (for engines that keep them) -------------------------------------------------------------------

    @pytest.mark.parametrize(("last", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137)])
    def test_artifacts_are_there_after_any_end_until_it_is_removed(self, last: str, code: int) -> None:
        script = f"""
            mkdir -p ~/artifacts
            echo one > ~/artifacts/b
            echo two > ~/artifacts/a
            echo no > ~/artifacts/.hidden
            {last}
        """

        async def scenario(rig: Rig) -> None:
            if not isinstance(rig.engine, SupportsArtifacts):
                pytest.skip(f"{rig.engine.name} keeps no artifacts")
            seen = await rig.run("a", script)
            assert (seen.seen, seen.code, seen.artifacts) == (ObservedState.EXITED, code, True)
            for _ in range(2):
                found = collect(rig.engine, "a")
                assert list(found.files.items()) == [(b"a", b"two\n"), (b"b", b"one\n")]
                await rig.reopen()
                assert (await rig.look("a")).artifacts
            await sweep(rig.engine, ["a"])
            assert collect(rig.engine, "a").files
            await rig.engine.remove("a")
            assert not collect(rig.engine, "a").files

        self.play(scenario)

    def test_a_task_that_leaves_none_says_so(self) -> None:
        async def scenario(rig: Rig) -> None:
            if not isinstance(rig.engine, SupportsArtifacts):
                pytest.skip(f"{rig.engine.name} keeps no artifacts")
            assert not (await rig.run("a", "echo hello")).artifacts
            assert not collect(rig.engine, "a").files
            assert not collect(rig.engine, "unknown").files

        self.play(scenario)

    # --- cleaning up ----------------------------------------------------------------------------------------------

    def test_remove_keeps_the_logs_and_the_end(self) -> None:
        async def scenario(rig: Rig) -> None:
            ended = await rig.run("a", "echo kept\nexit 2")
            for _ in range(2):
                await rig.engine.remove("a")
                assert await read_all(rig.log("a")) == b"kept\n"
                assert without_figures(await rig.look("a")) == without_figures(ended)
            await rig.reopen()
            assert await read_all(rig.log("a", LogStream.MERGED)) == b"kept\n"
            for _ in range(2):
                await rig.engine.remove_logs("a")
                assert rig.engine.open_log("a", LogStream.STDOUT) is None

        self.play(scenario)

    def test_everything_that_was_not_removed_is_listed(self) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.start_and_wait_for(b"up", "known", "echo up\nsleep 600")
            await rig.start_and_wait_for(b"up", "stray", "echo up\nsleep 600")
            await rig.run("over", "echo over")
            await rig.reopen()
            assert set(await rig.engine.list_attempts()) == {"known", "stray", "over"}
            assert set(await sweep(rig.engine, ["known"])) == {"stray", "over"}
            assert (await rig.look("known")).seen is ObservedState.RUNNING
            assert (await rig.look("stray")).seen is not ObservedState.RUNNING
            assert await read_all(rig.log("over")) == b"over\n"
            assert await rig.engine.list_attempts() == ["known"]

        self.play(scenario)

    def test_engines_describe_themselves(self) -> None:
        async def scenario(rig: Rig) -> None:
            health = rig.engine.get_health()
            assert health.name == rig.engine.name
            nodes = rig.engine.list_nodes()
            assert nodes
            assert all(node.cpu > 0 and node.memory > 0 and node.port_start < node.port_end for node in nodes)
            assert rig.image in {image.name for image in await rig.engine.list_images()}

        self.play(scenario)


async def _as_coroutine(work: Awaitable[None]) -> None:
    await work

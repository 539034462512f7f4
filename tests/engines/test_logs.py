"""Logs as files with a timeline: order, offsets that keep their meaning, the size cap, and tasks that tamper."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.attempt import ObservedState
from holdfast.core.job import MIB, Mount
from holdfast.core.volumes import HostFolder
from holdfast.engines.base import LogStream
from holdfast.engines.embedded import EmbeddedOptions
from holdfast.engines.embedded.lifecycle import logs, recorder
from holdfast.engines.embedded.lifecycle.logs import MAX_LOG_READERS, FileLog, MergedLog
from holdfast.engines.embedded.lifecycle.recorder import LogRecorder
from holdfast.engines.embedded.lifecycle.timeline import RECORD_FORMAT
from holdfast.engines.embedded.task_folder import TaskFolder
from holdfast.services.logs.reading import follow_source
from tests.contracts.engine_contract import TIMEOUT, Rig, launch, read_all
from tests.longer import examples

from .scenarios import folder_of, play


class Shelf:
    """A folder of logs and, while its task `runs`, the recorder."""

    def __init__(self, path: Path, cap: int = 1 << 40) -> None:
        path.mkdir(exist_ok=True)
        self.folder = TaskFolder(str(path))
        self.log_readers = asyncio.Semaphore(MAX_LOG_READERS)
        self.live: LogRecorder | None = LogRecorder(self.folder, cap)
        for name in ("stdout", "stderr"):
            Path(self.folder[name]).touch()

    def find_log_folder(self, attempt_id: str) -> TaskFolder:
        return self.folder

    def get_followed_recorder(self, attempt_id: str) -> LogRecorder | None:
        return self.live

    def is_in_transition(self, attempt_id: str) -> bool:
        return False

    def write(self, name: str, data: bytes) -> None:
        with open(self.folder[name], "ab") as file:
            file.write(data)

    def finish(self) -> None:
        assert self.live is not None
        self.live.finish_recording()
        self.live = None

    def merged(self) -> MergedLog:
        return MergedLog(self, "a")

    def stream(self, stream: LogStream) -> FileLog:
        return FileLog(self, "a", stream)


def read(log: MergedLog | FileLog, start: int = 0, count: int = 1 << 24) -> bytes:
    return asyncio.run(log.read(start, count))


def test_what_was_written_first_comes_first(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "a")
    assert shelf.live is not None
    for name, line in [("stdout", b"1\n"), ("stderr", b"2\n"), ("stderr", b"3\n"), ("stdout", b"4\n")]:
        shelf.write(name, line)
        shelf.live.record_sizes()
    assert read(shelf.merged()) == b"1\n2\n3\n4\n"
    assert read(shelf.merged(), 3, 4) == b"\n3\n4"


def test_lines_are_not_torn_apart(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "a")
    assert shelf.live is not None
    shelf.write("stdout", b"whole\nhal")
    shelf.write("stderr", b"oth")
    shelf.live.record_sizes()
    assert shelf.live.has_partial_line
    shelf.write("stderr", b"er\n")
    shelf.live.record_sizes()
    shelf.write("stdout", b"f\n")
    assert read(shelf.merged()) == b"whole\nother\nhalf\n"
    assert not shelf.live.has_partial_line


def test_an_unfinished_line_is_shown_in_the_end(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "a")
    shelf.write("stdout", b"prompt> ")
    assert read(shelf.merged()) == b""
    shelf.finish()
    assert read(shelf.merged()) == b"prompt> "


def test_an_unfinished_line_is_shown_after_a_moment(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.engine.start(launch("a", "printf prompt; sleep 600"))
        log = rig.log("a", LogStream.MERGED)
        assert await log.wait_for_growth(0, TIMEOUT)
        assert await read_all(log) == b"prompt"

    play(tmp_path, scenario)


def held_until(seen: Callable[[], bool]) -> None:
    """Hold the event loop up; what threads do meanwhile is not taken up."""
    end = time.monotonic() + TIMEOUT
    while not seen():
        assert time.monotonic() < end


@pytest.mark.parametrize("stream", list(LogStream))
@pytest.mark.parametrize("isolation", ["auto", "off"])
def test_a_log_is_not_complete_before_its_task_is_taken_up(tmp_path: Path, stream: LogStream, isolation: str) -> None:
    async def scenario(rig: Rig) -> None:
        starting = asyncio.create_task(rig.engine.start(launch("a", "sleep 600")))
        await asyncio.sleep(0)
        held_until(lambda: rig.engine.open_log("a", stream) is not None)
        log = rig.log("a", stream)
        assert not await log.is_complete()
        await starting
        assert not await log.is_complete()
        await rig.engine.stop("a", 0)
        await rig.end_of("a")
        assert await log.is_complete()

    play(tmp_path, scenario, EmbeddedOptions(isolation=isolation))


@pytest.mark.parametrize("stream", [LogStream.STDOUT, LogStream.MERGED])
@pytest.mark.parametrize("isolation", ["auto", "off"])
def test_a_task_that_ends_before_it_is_taken_up_is_followed_to_its_end(
    tmp_path: Path, stream: LogStream, isolation: str
) -> None:
    async def scenario(rig: Rig) -> None:
        starting = asyncio.create_task(rig.engine.start(launch("a", "echo whole\nprintf unfinished")))
        await asyncio.sleep(0)
        held_until(lambda: folder_of(tmp_path, "a").read_claim().code is not None)
        log = rig.log("a", stream)
        assert not await log.is_complete()  # the last processes may still be going
        assert await log.read(0, 5) in (b"", b"whole")
        assert b"".join([data async for _, data in follow_source(log, 0)]) == b"whole\nunfinished"
        await starting

    play(tmp_path, scenario, EmbeddedOptions(isolation=isolation))


def test_without_a_sandbox_a_log_is_complete_when_the_last_process_is_killed(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.engine.start(launch("a", "setsid sh -c 'while :; do echo more; done' &\nexit 0"))
        log = rig.log("a", LogStream.STDOUT)
        while not await log.is_complete():
            await log.wait_for_growth(await log.get_size(), TIMEOUT)
        size = await log.get_size()
        await rig.end_of("a")
        assert await log.get_size() == size

    play(tmp_path, scenario, EmbeddedOptions(isolation="off"))


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.binary(max_size=9), st.booleans()), max_size=20),
    st.integers(0, 40),
    st.integers(0, 40),
)
def test_merged_offsets_never_change_their_meaning(
    tmp_path_factory: pytest.TempPathFactory, writes: list[tuple[str, bytes, bool]], start: int, count: int
) -> None:
    shelf = Shelf(tmp_path_factory.mktemp("log") / "a")
    assert shelf.live is not None
    seen = b""
    for name, data, look in writes:
        shelf.write(name, data)
        if look:
            now = read(shelf.merged())
            assert now.startswith(seen)
            seen = now
    shelf.finish()
    merged = read(shelf.merged())
    assert merged.startswith(seen)
    out, err = (read(shelf.stream(stream)) for stream in (LogStream.STDOUT, LogStream.STDERR))
    assert sorted(merged) == sorted(out + err)
    assert len(merged) == asyncio.run(shelf.merged().get_size())
    assert read(shelf.merged(), start, count) == merged[start : start + count]


def test_the_end_a_dead_server_did_not_record_is_recorded_later(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "a")
    assert shelf.live is not None
    shelf.write("stdout", b"1\n")
    shelf.live.record_sizes()
    shelf.write("stderr", b"2\n")
    shelf.write("stdout", b"3\n")
    shelf.live = None  # the server is gone, and so is the task
    assert read(shelf.merged()) == b"1\n3\n2\n"
    assert read(shelf.merged()) == b"1\n3\n2\n"


@pytest.mark.parametrize("damage", [b"\x01" * 7, b"\0" * 24, b"\0" * 60])
def test_a_damaged_timeline_is_mended(tmp_path: Path, damage: bytes) -> None:
    shelf = Shelf(tmp_path / "a")
    assert shelf.live is not None
    shelf.write("stdout", b"1\n")
    shelf.live.record_sizes()
    with open(shelf.folder["timeline"], "ab") as file:
        file.write(damage)
    shelf.write("stdout", b"2\n")
    shelf.live = LogRecorder(shelf.folder, 1 << 40)
    assert read(shelf.merged()) == b"1\n2\n"
    assert Path(shelf.folder["timeline"]).stat().st_size == 2 * RECORD_FORMAT.size


def test_offsets_by_time(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "a")
    shelf.write("stdout", b"a\nb\nc\n")
    shelf.write("stderr", b"x\n")
    start = datetime(2026, 1, 1, tzinfo=UTC)
    marks = [(0, 2, 0), (10, 4, 0), (20, 4, 2), (30, 6, 2)]
    with open(shelf.folder["timeline"], "wb") as file:
        for seconds, out, err in marks:
            at = int((start + timedelta(seconds=seconds)).timestamp() * 1000)
            file.write(RECORD_FORMAT.pack(at, out, err))
    shelf.live = None

    def at(log: MergedLog | FileLog, seconds: float) -> int:
        return asyncio.run(log.find_offset(start + timedelta(seconds=seconds)))

    assert [at(shelf.merged(), seconds) for seconds in (-5, 5, 15, 25, 99)] == [0, 2, 4, 6, 8]
    assert [at(shelf.stream(LogStream.STDOUT), seconds) for seconds in (-5, 5, 15, 25, 99)] == [0, 2, 4, 4, 6]
    assert [at(shelf.stream(LogStream.STDERR), seconds) for seconds in (-5, 15, 25)] == [0, 0, 2]


def test_the_cap_drops_the_oldest_and_gives_the_disk_back(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "a", cap=64 * 1024)
    assert shelf.live is not None
    line = b"0123456789abcde\n"
    for number in range(100):
        shelf.write("stdout", line * 1024)
        if number == 50:
            shelf.write("stderr", b"once\n")
        shelf.live.record_sizes()
    out = shelf.stream(LogStream.STDOUT)
    size, first = asyncio.run(out.get_size()), asyncio.run(out.find_first_offset())
    assert size == 100 * 1024 * 16
    assert size - 2 * 64 * 1024 < first <= size - 64 * 1024
    assert read(out, first, 16) == line
    assert Path(shelf.folder["stdout"]).stat().st_blocks * 512 < 4 * 64 * 1024
    merged = shelf.merged()
    kept = asyncio.run(merged.find_first_offset())
    assert kept >= first
    assert set(read(merged, kept).splitlines()) == {line.strip()}
    shelf.live = LogRecorder(shelf.folder, 64 * 1024)  # a restarted server knows it too
    assert shelf.live.first_offsets == (first, 0)


def test_a_task_that_tampers_with_its_log_breaks_nothing(tmp_path: Path) -> None:
    script = """
    echo one; echo two >&2; sleep 0.2
    python3 - <<'END'
import os
os.ftruncate(1, 2)
os.write(1, b"three\\n")
os.ftruncate(2, 1 << 43)
END
    sleep 0.2; echo four; echo five >&2
    """

    async def scenario(rig: Rig) -> None:
        seen = await rig.run("a", script)
        assert (seen.seen, seen.code) == (ObservedState.EXITED, 0)
        for stream in LogStream:
            log = rig.log("a", stream)
            size, first = await log.get_size(), await log.find_first_offset()
            assert 0 <= first <= size
            await log.read(first, 1000)
            await log.read(max(first, size - 1000), 1000)
            await log.find_offset(datetime.now(UTC))
        assert b"four" in await read_all(rig.log("a"))
        assert b"five\n" in await rig.log("a", LogStream.STDERR).read((1 << 43), 100)

    play(tmp_path, scenario, EmbeddedOptions(log_cap=16 * MIB))


def test_a_log_replaced_by_a_link_is_not_followed(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "a")
    secret = tmp_path / "secret"
    secret.write_text("secret")
    Path(shelf.folder["stdout"]).unlink()
    Path(shelf.folder["stdout"]).symlink_to(secret)
    shelf.finish()
    assert read(shelf.stream(LogStream.STDOUT)) == b""
    assert b"secret" not in read(shelf.merged())


def test_a_five_gigabyte_log_costs_no_memory(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "a")
    size = 5 << 30
    os.truncate(shelf.folder["stdout"], size)
    shelf.write("stdout", b"\nlast line\n")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    shelf.finish()
    for log in (shelf.stream(LogStream.STDOUT), shelf.merged()):
        end = asyncio.run(log.get_size())
        assert end == size + 11
        assert read(log, end - 10) == b"last line\n"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 * 1024


def test_no_byte_of_a_busy_log_is_lost(tmp_path: Path) -> None:
    lines = 20_000
    script = f"for i in $(seq {lines}); do echo out $i; [ $((i % 7)) = 0 ] && echo err $i >&2; done; true"

    async def scenario(rig: Rig) -> None:
        await rig.engine.start(launch("a", script))
        log = rig.log("a", LogStream.MERGED)
        got = b""
        while await log.wait_for_growth(len(got), TIMEOUT):
            got += await log.read(len(got), 1 << 16)
        assert await log.is_complete()
        got += await log.read(len(got), 1 << 24)
        out = [line for line in got.splitlines() if line.startswith(b"out")]
        err = [line for line in got.splitlines() if line.startswith(b"err")]
        assert out == [b"out %d" % number for number in range(1, lines + 1)]
        assert err == [b"err %d" % number for number in range(7, lines + 1, 7)]

    play(tmp_path, scenario)


def test_a_follower_takes_up_again_after_a_restart(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.mkdir()
    mount = Mount(volume=HostFolder(str(gate)), target=str(gate))
    script = f"echo one; echo two >&2; while [ ! -e {gate}/go ]; do sleep 0.01; done; echo three"

    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"one", "a", script, mounts=(mount,))
        assert await rig.log("a", LogStream.STDERR).wait_for_growth(0, TIMEOUT)
        before = await read_all(rig.log("a", LogStream.MERGED))
        await rig.reopen()
        assert (await rig.look("a")).seen is ObservedState.RUNNING
        log = rig.log("a", LogStream.MERGED)
        (gate / "go").touch()
        await rig.end_of("a")
        after = await read_all(log)
        assert after.startswith(before)
        assert sorted(after.split()) == [b"one", b"three", b"two"]
        assert folder_of(tmp_path / "home", "a").exists()

    play(tmp_path / "home", scenario)


@pytest.mark.parametrize("stream", list(LogStream))
def test_a_log_that_is_put_away_while_it_is_read(
    tmp_path: Path, stream: LogStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = TaskFolder(str(tmp_path / "tasks")), TaskFolder(str(tmp_path / "logs"))
    Path(before.path).mkdir()
    Path(before["stdout"]).write_bytes(b"hello\n")
    Path(before["stderr"]).write_bytes(b"alas\n")

    class Host:
        log_readers = asyncio.Semaphore(MAX_LOG_READERS)

        def find_log_folder(self, attempt_id: str) -> TaskFolder | None:
            return before if before.exists() else after

        def get_followed_recorder(self, attempt_id: str) -> None:
            return None

        def is_in_transition(self, attempt_id: str) -> bool:
            return False

    def read_late(path: str, start: int, count: int) -> bytes:
        if before.exists():
            Path(before.path).rename(after.path)
        return recorder.read_file_range(path, start, count)

    monkeypatch.setattr(logs, "read_file_range", read_late)
    log = MergedLog(Host(), "a") if stream is LogStream.MERGED else FileLog(Host(), "a", stream)
    expected = {LogStream.STDOUT: b"hello\n", LogStream.STDERR: b"alas\n", LogStream.MERGED: b"hello\nalas\n"}[stream]
    assert asyncio.run(log.read(0, 100)) == expected
    assert asyncio.run(log.get_size()) == len(expected)


@pytest.mark.parametrize("stream", list(LogStream))
def test_few_logs_are_read_at_the_same_time(tmp_path: Path, stream: LogStream) -> None:
    async def use() -> bytes:
        shelf = Shelf(tmp_path / "a")
        shelf.write("stdout", b"hello\n")
        shelf.write("stderr", b"alas\n")
        log = MergedLog(shelf, "a") if stream is LogStream.MERGED else FileLog(shelf, "a", stream)
        for _ in range(MAX_LOG_READERS):
            await shelf.log_readers.acquire()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await log.read(0, 100)
        shelf.log_readers.release()
        return await log.read(0, 5)

    assert asyncio.run(use()) in (b"hello", b"alas\n")

"""Logs: ranges, streams, growth, write times, every byte."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.engines.base import LogStream
from holdfast.services.logs.reading import follow_source

from .engine_rig import TIMEOUT, EngineHarness, Rig, read_all


class LogContract(EngineHarness):
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
            await rig.wait_until_running("a")
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

    # --- every byte ---------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("stream", [LogStream.STDOUT, LogStream.STDERR])
    def test_output_is_kept_byte_for_byte(self, stream: LogStream) -> None:
        self.need_programs()
        redirect = ">&2" if stream is LogStream.STDERR else ""
        written = r"\000\001\377\376 a\r\n\033[1mbold\n\nno newline at the end"
        expected = b"\x00\x01\xff\xfe a\r\n\x1b[1mbold\n\nno newline at the end"

        async def scenario(rig: Rig) -> None:
            await rig.run("a", f"printf '{written}' {redirect}")
            assert await read_all(rig.log("a", stream)) == expected
            assert await read_all(rig.log("a", LogStream.MERGED)) == expected
            other = LogStream.STDERR if stream is LogStream.STDOUT else LogStream.STDOUT
            assert await read_all(rig.log("a", other)) == b""
            await rig.engine.remove("a")
            await rig.reopen()
            assert await read_all(rig.log("a", stream)) == expected

        self.play(scenario)

    def test_ten_megabytes_of_output_are_complete(self) -> None:
        self.need_programs()
        expected = b"".join(b"%d\n" % number for number in range(1, 1_450_001))

        async def scenario(rig: Rig) -> None:
            await rig.run("a", "seq 1 1450000\necho done >&2")
            assert len(expected) > 10_000_000
            assert await read_all(rig.log("a")) == expected
            merged = await read_all(rig.log("a", LogStream.MERGED))
            assert merged.replace(b"done\n", b"", 1) == expected

        self.play(scenario)

    def test_streams_that_alternate_are_merged_without_loss(self) -> None:
        self.need_programs()
        script = "i=0\nwhile [ $i -lt 500 ]; do i=$((i+1)); echo out $i; echo err $i >&2; done"

        async def scenario(rig: Rig) -> None:
            await rig.run("a", script)
            lines = {word: [f"{word} {number}" for number in range(1, 501)] for word in ("out", "err")}
            assert (await read_all(rig.log("a"))).decode().splitlines() == lines["out"]
            assert (await read_all(rig.log("a", LogStream.STDERR))).decode().splitlines() == lines["err"]
            merged = (await read_all(rig.log("a", LogStream.MERGED))).decode().splitlines()
            assert len(merged) == 1000
            for word, expected in lines.items():
                assert [line for line in merged if line.startswith(word)] == expected

        self.play(scenario)

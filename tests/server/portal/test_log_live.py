"""A log as it grows, told to a page: what comes, from where, and to whom it does not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.core.states import JobState
from holdfast.engines.base import LogStream
from holdfast.server.portal import sockets
from holdfast.server.portal.pages import log_live
from holdfast.server.portal.pages.log_live import FRAME_SIZE, MAX_BACKLOG_SIZE, MAX_IN_FLIGHT_SIZE
from holdfast.store.jobs import records as job_rows
from tests.server.rig import Rig

from .page_client import PASSWORD, Desk, open_desk
from .socket_client import Wire, open_wire

pytestmark = pytest.mark.anyio

PATH = "/live/log"
SLEEPER = "name: sleeper\ncommand: sleep 100\n"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_live, "FRAME_INTERVAL", 0.0)
    monkeypatch.setattr(log_live, "SKIP_INTERVAL", 0.0)


@pytest.fixture
async def sleeper(rig: Rig) -> str:
    job = await rig.house.submit(SLEEPER)
    return (await rig.house.until(job.id, JobState.RUNNING)).id


def write(rig: Rig, job_id: str, data: bytes, stream: LogStream = LogStream.STDOUT) -> None:
    rig.house.engine.write_log(f"{job_id}.0.main-0.0", data, stream)


def offset_of(frame: bytes) -> tuple[int, bytes]:
    return int.from_bytes(frame[:8], "big"), frame[8:]


async def closed(wire: Wire) -> int | None:
    await wire.until(lambda: wire.code is not None)
    return wire.code


async def test_lines_come_as_they_are_written_and_then_the_end(rig: Rig, sleeper: str) -> None:
    async with open_desk(rig) as desk, open_wire(desk, PATH, query=f"job={sleeper}") as wire:
        write(rig, sleeper, b"one\n")
        assert offset_of(await wire.next()) == (0, b"one\n")
        write(rig, sleeper, b"two \xe4\xb8")
        write(rig, sleeper, b"\xad\n", LogStream.STDERR)
        got = b""
        while not got.endswith(b"\n"):
            got += offset_of(await wire.next())[1]
        assert got == "two 中\n".encode()
        await rig.house.services.jobs.stop(rig.house.admin, sleeper)
        end = await wire.next()
        assert (end["kind"], end["task"]) == ("end", "Stopped")
        assert await closed(wire) == 1000


async def test_it_goes_on_from_an_offset_in_the_chosen_stream(rig: Rig, sleeper: str) -> None:
    write(rig, sleeper, b"out\n")
    write(rig, sleeper, b"first\nsecond\n", LogStream.STDERR)
    query = f"job={sleeper}&task=main-0&attempt=0&try=0&stream=stderr&start=6"
    async with open_desk(rig) as desk, open_wire(desk, PATH, query=query) as wire:
        assert offset_of(await wire.next()) == (6, b"second\n")


async def test_a_log_that_has_not_started_begins_by_itself(rig: Rig) -> None:
    big = await rig.house.submit("name: big\ncommand: sleep 9\nresources: {cpu: 4}\n")
    job = await rig.house.submit("name: later\ncommand: |\n  echo hello\n")
    async with open_desk(rig) as desk, open_wire(desk, PATH, query=f"job={job.id}") as wire:
        assert await wire.next() == {"kind": "waiting"}
        await rig.house.services.jobs.stop(rig.house.admin, big.id)
        assert offset_of(await wire.next()) == (0, b"hello\n")
        wire.say({"seen": 6})
        end = await wire.next()
        assert (end["kind"], end["job"], end["final"], end["exit_code"]) == ("end", "Succeeded", True, 0)


async def test_what_nobody_can_read_is_left_out(rig: Rig, sleeper: str) -> None:
    write(rig, sleeper, b"x" * 99 + b"\n")
    async with open_desk(rig) as desk, open_wire(desk, PATH, query=f"job={sleeper}") as wire:
        await wire.next()
        flood = b"".join(b"%099d\n" % n for n in range(5 * MAX_BACKLOG_SIZE // 100))
        write(rig, sleeper, flood)
        skip = await wire.next()
        assert (skip["kind"], skip["start"]) == ("skip", 100)
        assert 100 + len(flood) - FRAME_SIZE <= skip["end"] <= 100 + len(flood)
        wire.say({"seen": skip["end"]})
        start, data = offset_of(await wire.next())
        assert start == skip["end"]
        assert flood.endswith(b"\n" + data)  # from the beginning of a line


async def test_a_page_that_shows_nothing_gets_no_more(rig: Rig, sleeper: str) -> None:
    write(rig, sleeper, b"y" * (MAX_IN_FLIGHT_SIZE + 3 * FRAME_SIZE))
    async with open_desk(rig) as desk, open_wire(desk, PATH, query=f"job={sleeper}") as wire:
        await wire.until(lambda: len(wire.received) * FRAME_SIZE >= MAX_IN_FLIGHT_SIZE)
        for _ in range(50):
            await asyncio.sleep(0)
        assert sum(len(frame) - 8 for frame in wire.received) == MAX_IN_FLIGHT_SIZE
        wire.say({"seen": MAX_IN_FLIGHT_SIZE})
        await wire.until(lambda: sum(len(frame) - 8 for frame in wire.received) == MAX_IN_FLIGHT_SIZE + 3 * FRAME_SIZE)


async def test_another_groups_log_is_not_there(rig: Rig, sleeper: str) -> None:
    await rig.house.user("eve", "others", password=PASSWORD)
    async with open_desk(rig, "eve") as desk:
        for ref in (sleeper, "sleeper", "nothing", ""):
            async with open_wire(desk, PATH, query=f"job={ref}") as wire:
                assert (await closed(wire), wire.received) == (sockets.REFUSED_CODE, [])


async def test_whoever_leaves_the_group_sees_no_more(rig: Rig, sleeper: str) -> None:
    await rig.house.user("eve", "default", password=PASSWORD)
    async with open_desk(rig, "eve") as desk, open_wire(desk, PATH, query=f"job={sleeper}") as wire:
        write(rig, sleeper, b"seen\n")
        await wire.next()
        await rig.house.services.groups.remove_member(rig.house.admin, "default", "eve")
        write(rig, sleeper, b"unseen\n")
        assert (await closed(wire), wire.received) == (sockets.REFUSED_CODE, [])


async def test_only_our_own_pages_of_a_login_get_it(rig: Rig, sleeper: str) -> None:
    async with open_desk(rig) as desk:
        async with open_wire(desk, PATH, query=f"job={sleeper}", origin="http://evil.example") as wire:
            assert (wire.accepted, wire.code) == (False, sockets.REFUSED_CODE)
        desk.client.cookies.clear()
        async with open_wire(desk, PATH, query=f"job={sleeper}") as wire:
            assert (await closed(wire), wire.received) == (sockets.LOGGED_OUT_CODE, [])


async def test_logging_out_ends_it_before_another_line(rig: Rig, sleeper: str) -> None:
    async with open_desk(rig) as desk, open_wire(desk, PATH, query=f"job={sleeper}") as wire:
        await log_out(desk)
        write(rig, sleeper, b"secret\n")
        assert (await closed(wire), wire.received) == (sockets.LOGGED_OUT_CODE, [])


async def log_out(desk: Desk) -> None:
    await desk.post("/logout")


@pytest.mark.parametrize("said", ["nonsense", [], {"see": 1}, 7, None])
async def test_a_page_that_talks_nonsense_is_sent_away(rig: Rig, sleeper: str, said: Any) -> None:
    async with open_desk(rig) as desk, open_wire(desk, PATH, query=f"job={sleeper}") as wire:
        wire.say(said)
        assert await closed(wire) == sockets.REFUSED_CODE


async def test_an_expired_log_is_refused(rig: Rig) -> None:
    job = await rig.house.run("name: talker\ncommand: |\n  echo one\n")
    await rig.house.store.write(job_rows.mark_logs_removed, [f"{job.id}.0.main-0.0"], rig.house.clock.now())
    async with open_desk(rig) as desk, open_wire(desk, PATH, query=f"job={job.id}") as wire:
        assert await closed(wire) == sockets.REFUSED_CODE

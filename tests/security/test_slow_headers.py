"""Requests that never become whole do not hold the server's connections, and those that do are left alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast.core.states import JobState
from holdfast.server import slow_clients
from tests.server.rig import Rig, open_rig
from tests.server.test_http import TIMEOUT, client, serving
from tests.services.house import open_house

pytestmark = pytest.mark.anyio

SOON = 0.2  # seconds, in place of those that users have
HEALTH = b"GET /api/v1/health HTTP/1.1\r\nHost: test\r\n\r\n"
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_house(tmp_path / "home") as house, open_rig(house) as opened:
        yield opened


@asynccontextmanager
async def connected(port: int, sends: bytes = b"") -> AsyncIterator[Connection]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sends)
        yield reader, writer
    finally:
        writer.close()


async def closed(reader: asyncio.StreamReader) -> bytes:
    """What came before the server closed."""
    try:
        return await asyncio.wait_for(reader.read(), TIMEOUT)
    except ConnectionResetError:
        return b""


@pytest.mark.release_after(2)
@pytest.mark.parametrize(
    "sends",
    [
        b"",
        b"GET /api/v1/health HTTP/1.1\r\nHost: te",
        b"\r\n\r\n",
        HEALTH + b"GET /api/v1/hea",
        b"POST /api/v1/login HTTP/1.1\r\nHost: test\r\nContent-Length: 100\r\n\r\n{",
    ],
    ids=["nothing", "half the headers", "empty lines", "half a second request", "half a body"],
)
async def test_a_request_that_does_not_go_on_is_closed(rig: Rig, monkeypatch: pytest.MonkeyPatch, sends: bytes) -> None:
    monkeypatch.setattr(slow_clients, "HEADERS_TIMEOUT", SOON)
    monkeypatch.setattr(slow_clients, "SMALL_BODY_TIMEOUT", SOON)
    async with serving(rig) as port, connected(port, sends) as (reader, _):
        await closed(reader)
    assert not slow_clients._waiting_connections
    assert not slow_clients._unfinished_connections


async def test_headers_that_come_byte_by_byte_get_no_more_time(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_clients, "HEADERS_TIMEOUT", SOON)

    async def drip(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"X: y\r\n")
            await asyncio.sleep(SOON / 10)

    async with serving(rig) as port, connected(port, b"GET / HTTP/1.1\r\n") as (reader, writer):
        dripping = asyncio.create_task(drip(writer))
        try:
            assert await closed(reader) == b""
        finally:
            dripping.cancel()


async def test_an_answer_that_takes_long_is_not_cut(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_clients, "HEADERS_TIMEOUT", SOON)
    monkeypatch.setattr(slow_clients, "BODY_TIMEOUT", SOON)
    job = await rig.house.submit("name: sleeper\ncommand: sleep 1000\n")
    await rig.house.until(job.id, JobState.RUNNING)
    async with serving(rig) as port, client(rig, port) as http:
        reply = await http.get(f"/jobs/{job.id}/wait", params={"timeout": 4 * SOON})
        assert reply.status_code == 200
        assert (await http.get("/health")).status_code == 200  # the same connection, kept open between


async def test_one_address_has_only_so_many_that_wait(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_clients, "MAX_WAITING_CONNECTIONS", 5)
    async with serving(rig) as port:
        waiting = [await asyncio.open_connection("127.0.0.1", port) for _ in range(8)]
        try:
            for _, writer in waiting:
                writer.write(b"GET /api/v1/health HTTP/1.1\r\n")
            for reader, _ in waiting[:3]:
                await closed(reader)
            for reader, writer in waiting[3:]:
                writer.write(b"Host: test\r\nConnection: close\r\n\r\n")
                assert b" 200 " in await closed(reader)
        finally:
            for _, writer in waiting:
                writer.close()


async def test_a_socket_lasts_longer_than_a_request_may_take(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_clients, "HEADERS_TIMEOUT", SOON)
    monkeypatch.setattr(slow_clients, "BODY_TIMEOUT", SOON)
    upgrade = (
        "GET /live/jobs HTTP/1.1\r\nHost: test\r\nOrigin: http://test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nCookie: holdfast={}\r\n\r\n"
    )
    token = rig.client.headers["authorization"].removeprefix("Bearer ")
    async with serving(rig) as port, connected(port, upgrade.format(token).encode()) as (reader, _):
        assert b" 101 " in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), TIMEOUT)
        assert not slow_clients._waiting_connections
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 3 * SOON)

"""Bodies that never become whole do not hold the server's connections, and uploads of users are left alone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from holdfast.server import slow_clients
from holdfast.services.client_network import get_network_or_loopback
from tests.server.rig import Rig, open_rig
from tests.server.test_http import TIMEOUT, serving
from tests.services.house import open_house

from .test_slow_headers import HEALTH, SOON, Connection, closed

pytestmark = pytest.mark.anyio

LOGIN = b"POST /api/v1/login HTTP/1.1\r\nHost: test\r\nContent-Length: 1000\r\n\r\n{"
LARGE = 2 * 1024 * 1024  # bytes


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_house(tmp_path / "home") as house, open_rig(house) as opened:
        await house.add_group("red")
        yield opened


@asynccontextmanager
async def connections(port: int) -> AsyncIterator[Callable[..., asyncio.Future[Connection]]]:
    """Opens a connection of the loopback, from an address of its own if asked to."""
    async with AsyncExitStack() as stack:

        async def connect(sends: bytes, host: str = "127.0.0.1") -> Connection:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(host, 0))
            stack.callback(writer.close)
            writer.write(sends)
            return reader, writer

        yield connect  # type: ignore[misc]


async def until(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT):
        while not is_true():
            await asyncio.sleep(0.01)


def upload_head(rig: Rig, size: int) -> bytes:
    head = f"PUT /api/v1/groups/red/files/big HTTP/1.1\r\nHost: test\r\nContent-Length: {size}\r\nConnection: close\r\n"
    return f"{head}Authorization: {rig.client.headers['authorization']}\r\n\r\n".encode()


@pytest.mark.parametrize(
    "length", [b"Content-Length: 1000", b"Content-Length: 100000000", b"Transfer-Encoding: chunked"]
)
async def test_a_strangers_body_that_drips_gets_no_more_time(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, length: bytes
) -> None:
    monkeypatch.setattr(slow_clients, "SMALL_BODY_TIMEOUT", SOON)

    async def drip(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"1\r\nx\r\n" if b"chunked" in length else b"x")
            await asyncio.sleep(SOON / 10)

    async with serving(rig) as port, connections(port) as connect:
        reader, writer = await connect(b"POST /api/v1/images?name=a HTTP/1.1\r\nHost: test\r\n" + length + b"\r\n\r\n")
        dripping = asyncio.create_task(drip(writer))
        try:
            await closed(reader)
        finally:
            dripping.cancel()


async def test_the_loopback_has_only_so_many_unfinished_bodies(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_clients, "get_max_unfinished_per_network", lambda: 3)
    async with serving(rig) as port, connections(port) as connect:
        slow = []
        for number in range(6):
            slow.append(await connect(LOGIN, f"127.0.0.{number + 1}"))
            await until(lambda number=number: len(slow_clients._unfinished_connections) == min(number + 1, 3))  # type: ignore[misc]
            if number >= 3:
                await closed(slow[number - 3][0])
        reader, writer = slow[-1]
        writer.write(b" " * 998 + b"}")
        assert b" 400 " in await asyncio.wait_for(reader.readline(), TIMEOUT)


async def test_a_users_upload_is_not_closed_for_strangers(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_clients, "get_max_unfinished_per_network", lambda: 1)
    monkeypatch.setattr(slow_clients, "SMALL_BODY_TIMEOUT", SOON)
    async with serving(rig) as port, connections(port) as connect:
        reader, writer = await connect(upload_head(rig, LARGE) + b"x" * (LARGE // 2))
        await until(
            lambda: (
                (rig.house.services.shared.get_files_folder("red")).exists()
                and not slow_clients._unfinished_connections
            )
        )
        for _ in range(3):
            stranger, _ = await connect(LOGIN)
        await closed(stranger)  # its time was over, and that of the upload would have been
        writer.write(b"x" * (LARGE // 2))
        assert b" 200 " in await closed(reader)


@pytest.mark.parametrize("sends", [b"", LOGIN, HEALTH], ids=["no headers", "half a body", "nothing after an answer"])
async def test_all_connections_together_are_bounded(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, sends: bytes
) -> None:
    monkeypatch.setattr(slow_clients, "get_max_connections", lambda: 6)
    monkeypatch.setattr(slow_clients, "get_max_unfinished_per_network", lambda: 100)
    monkeypatch.setattr(slow_clients, "_overload_log", slow_clients._OverloadLog())
    states = (slow_clients._waiting_connections, slow_clients._unfinished_connections, slow_clients._idle_connections)
    with caplog.at_level(logging.WARNING, "holdfast.server.slow_clients"):
        async with serving(rig) as port, connections(port) as connect:
            opened = []
            for number in range(10):
                opened.append(await connect(sends))
                if sends == HEALTH:
                    await opened[-1][0].readuntil(b"}")
                await until(lambda number=number: sum(map(len, states)) == min(number + 1, 6))  # type: ignore[misc]
            for reader, _ in opened[:4]:
                await closed(reader)
            reader, _ = await connect(HEALTH)
            assert b" 200 " in await asyncio.wait_for(reader.readline(), TIMEOUT)
    assert len(caplog.records) == 1


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.2"])
def test_the_loopback_is_one_neighbourhood(address: str) -> None:
    assert get_network_or_loopback(address) == "loopback"


def test_other_addresses_are_told_apart() -> None:
    assert get_network_or_loopback("10.0.0.1") != get_network_or_loopback("10.0.0.2")
    assert get_network_or_loopback("2001:db8::1") == get_network_or_loopback("2001:db8::2")

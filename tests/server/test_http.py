"""The real HTTP server on a real socket: what only goes wrong on the wire."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from holdfast.core.states import JobState
from holdfast.sdk import ApiError
from holdfast.sdk.address import Address
from holdfast.sdk.inside import open_exec
from holdfast.server import websocket_protocol
from holdfast.server.http import run_http_server

from .rig import Rig

pytestmark = pytest.mark.anyio

TIMEOUT = 20


@asynccontextmanager
async def serving(rig: Rig, *, most_unsent: int | None = None) -> AsyncIterator[int]:
    """The port of a server around the rig's application; stopped by a signal, as in life. `most_unsent`: bytes that the
    kernel keeps for those who do not read."""
    listener = socket.socket()
    if most_unsent is not None:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, most_unsent)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    ready = asyncio.Event()
    server = asyncio.create_task(run_http_server(rig.app, [listener], on_ready=ready.set, last_requests=1))
    await asyncio.wait_for(ready.wait(), TIMEOUT)
    try:
        yield listener.getsockname()[1]
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(server, TIMEOUT)


def client(rig: Rig, port: int) -> httpx.AsyncClient:
    headers = {"Authorization": rig.client.headers["authorization"]}
    return httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/api/v1", headers=headers, timeout=TIMEOUT)


async def raw(port: int, request: bytes) -> bytes:
    """Send these bytes and read until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        await writer.drain()
        return await asyncio.wait_for(reader.read(), TIMEOUT)
    finally:
        writer.close()


async def test_jobs_over_the_wire(rig: Rig) -> None:
    async with serving(rig) as port, client(rig, port) as http:
        job = (await http.post("/jobs", content="name: w\ncommand: echo over the wire\n")).json()
        ended = (await http.get(f"/jobs/{job['id']}/wait", params={"timeout": 20})).json()
        assert ended["state"] == "Succeeded"
        assert (await http.get(f"/jobs/{job['id']}/log")).text == "over the wire\n"
        assert (await http.head(f"/jobs/{job['id']}/log")).headers["x-log-size"] == "14"


async def test_a_body_without_end_is_cut_off(rig: Rig) -> None:
    """Chunks come for ever; the answer comes before their end, and the connection is closed."""
    head = "POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
    head += f"Authorization: {rig.client.headers['authorization']}\r\n\r\n"
    chunk = b"1000\r\n" + b" " * 0x1000 + b"\r\n"
    async with serving(rig) as port:
        answer = await raw(port, head.encode() + chunk * 40)
        assert answer.startswith(b"HTTP/1.1 413")
        assert b'"too_large"' in answer


async def test_a_length_that_is_too_large_is_refused_before_the_body(rig: Rig) -> None:
    async with serving(rig) as port:
        answer = await raw(port, b"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 413")


NO_REQUESTS = [
    b"\x00\x01\x02\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /api/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"GET /api/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"GET /api/v1/jobs HTTP/1.1\r\nHost: x\r\nX-Bad\x00Header: 1\r\n\r\n",
]


async def test_what_is_no_request_harms_nobody(rig: Rig) -> None:
    async with serving(rig) as port, client(rig, port) as http:
        for request in NO_REQUESTS:
            assert not (await raw(port, request)).startswith(b"HTTP/1.1 2")
            assert (await http.get("/version")).status_code == 200


async def test_a_follower_that_hangs_up_is_let_go(rig: Rig) -> None:
    job = await rig.house.submit("name: s\ncommand: sleep 9\n")
    await rig.house.until(job.id, JobState.RUNNING)
    async with serving(rig) as port, client(rig, port) as http:
        await http.get("/version")
        before = len(asyncio.all_tasks())
        async with http.stream("GET", f"/jobs/{job.id}/log/follow") as response:
            assert await anext(response.aiter_raw())
            assert len(asyncio.all_tasks()) > before
        async with asyncio.timeout(TIMEOUT):
            while len(asyncio.all_tasks()) > before:
                await asyncio.sleep(0.01)


async def test_an_open_follower_does_not_keep_the_server_from_stopping(rig: Rig) -> None:
    job = await rig.house.submit("name: s\ncommand: sleep 9\n")
    await rig.house.until(job.id, JobState.RUNNING)
    async with serving(rig) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"GET /api/v1/jobs/{job.id}/log/follow HTTP/1.1\r\nHost: x\r\n"
        writer.write(f"{head}Authorization: {rig.client.headers['authorization']}\r\n\r\n".encode())
        await asyncio.wait_for(reader.readuntil(b"retry: 1000"), TIMEOUT)
    writer.close()


async def open_page_socket(port: int, login: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host = f"127.0.0.1:{port}"
    head = f"GET /live/jobs HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n"
    head += f"Cookie: holdfast_{port}={login}\r\n"
    head += "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    head += "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    reader, writer = await asyncio.open_connection(sock=connection, limit=4096)
    writer.write(head.encode())
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
    return reader, writer


async def test_nonsense_through_a_socket_ends_it_and_is_counted(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    login = await rig.house.services.tokens.login_authenticated_user("admin", "test")
    async with serving(rig) as port:
        reader, writer = await open_page_socket(port, login.text)
        writer.write(b"\x81\x82\0\0\0\0\xff\xfe")  # a text that is none
        answer = await asyncio.wait_for(reader.read(), TIMEOUT)
        writer.close()
    assert answer.endswith(b"\x88\x02" + (1007).to_bytes(2, "big"))
    (line,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert line.__dict__["invalid_text"] == 1


async def test_pings_that_nobody_reads_the_answers_of_fill_no_memory(rig: Rig) -> None:
    login = await rig.house.services.tokens.login_authenticated_user("admin", "test")
    pings = [b"\x89\xfd\0\0\0\0" + f"{number:0125}".encode() for number in range(20_000)]
    async with serving(rig, most_unsent=8192) as port:
        reader, writer = await open_page_socket(port, login.text)
        for at in range(0, len(pings), 500):
            writer.write(b"".join(pings[at : at + 500]))
            await asyncio.wait_for(writer.drain(), TIMEOUT)
        answered = b""
        async with asyncio.timeout(TIMEOUT):
            while not answered.endswith(pings[-1][6:]):  # the newest is answered, once there is room
                answered += await reader.read(65536)
        writer.close()
    assert len(answered) < len(pings) * 127 / 2


async def test_a_socket_that_was_closed_does_not_wait_for_one_who_reads_nothing(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websocket_protocol, "CLOSE_TIMEOUT", 0.3)
    pings = b"\x89\xfd\0\0\0\0" + b"x" * 125
    async with serving(rig, most_unsent=8192) as port:
        _, writer = await open_page_socket(port, "nobody")  # which is told so, and closed
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(send_for_ever(writer, pings * 500), TIMEOUT)
        writer.close()


async def send_for_ever(writer: asyncio.StreamWriter, data: bytes) -> None:
    while True:
        writer.write(data)
        await writer.drain()


async def test_a_line_into_a_task_is_refused_before_it_is_a_socket(rig: Rig) -> None:
    async with serving(rig) as port:
        address = Address(f"http://127.0.0.1:{port}", "hf_nonsense", "given")
        with pytest.raises(ApiError) as caught:
            await asyncio.to_thread(open_exec, address, "train")
        assert (caught.value.code, caught.value.status) == ("not_logged_in", 401)

"""Receivers that answer what no receiver should: read no further than needed, and never told twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from holdfast.services.notifications.delivery import DeliveryAttempt, DeliveryResult, WebhookRequest
from holdfast.services.notifications.webhook_request import MAX_HEAD_LENGTH, post_webhook
from holdfast.services.notifications.webhook_targets import WebhookHost, WebhookHostResolver

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 3, 1, tzinfo=UTC)
EARLY = b"HTTP/1.1 103 Early Hints\r\n\r\n"


@asynccontextmanager
async def receiver(answer: Callable[[asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[int]:
    """Takes a whole request, then does as it is told."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(2)
        try:
            await answer(writer)
            writer.close()
        except ConnectionError:
            return

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def told(port: int) -> DeliveryAttempt:
    async def claim() -> bool:
        return True

    request = WebhookRequest(f"http://127.0.0.1:{port}/", [(b"Host", b"x"), (b"Content-Length", b"2")], b"{}")
    return await post_webhook(WebhookHost("127.0.0.1", port, ("127.0.0.1",)), request, claim, 30, NOW)


async def test_hints_without_end_are_not_listened_to() -> None:
    sent = 0

    async def flood(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        while True:
            writer.write(EARLY * 1000)
            sent += 1000 * len(EARLY)
            await writer.drain()

    async with receiver(flood) as port:
        attempt = await told(port)
    assert attempt.result is DeliveryResult.UNCONFIRMED
    assert sent < 1000 * MAX_HEAD_LENGTH  # what the kernel takes, and no more


@pytest.mark.parametrize("said", [b"garbage\r\n\r\n", b"HTTP/1.1 99999999 x\r\n\r\n", b"SSH-2.0-x\r\n"])
async def test_what_is_no_answer_is_not_told_again(said: bytes) -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        await writer.drain()

    async with receiver(answer) as port:
        assert (await told(port)).result is DeliveryResult.UNCONFIRMED


async def test_who_hangs_up_without_a_word_is_told_again() -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        return

    async with receiver(answer) as port:
        assert (await told(port)).result is DeliveryResult.DEFERRED


async def test_some_hints_and_then_an_answer_are_fine() -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(EARLY * 3 + b"HTTP/1.1 204 No Content\r\n\r\n")
        await writer.drain()

    async with receiver(answer) as port:
        assert (await told(port)).result is DeliveryResult.SENT


async def test_every_port_of_this_machine_is_refused_by_any_spelling() -> None:
    from holdfast.services.notifications.webhook_targets import WebhookHostNotAllowed, _get_own_addresses

    mine = sorted(address for address in _get_own_addresses() if "." in address and not address.startswith("127."))
    if not mine:
        pytest.skip("this machine has no address but its loopback ones")
    for host in (mine[0], f"[::ffff:{mine[0]}]"):
        for port in (8080, 8081, 25):
            with pytest.raises(WebhookHostNotAllowed):
                await WebhookHostResolver().resolve_webhook_host(f"http://{host}:{port}/x")
        assert (await WebhookHostResolver().resolve_webhook_host(f"http://{host}:8081/x", anywhere=True)).port == 8081
        assert (await WebhookHostResolver(allow=[mine[0]]).resolve_webhook_host(f"http://{host}:8081/x")).port == 8081

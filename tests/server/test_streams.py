"""Answers that are sent as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from holdfast.server.streams import StreamedResponse

pytestmark = pytest.mark.anyio


async def letters() -> AsyncGenerator[bytes, None]:
    """At hand: nothing has to be waited for."""
    for letter in (b"a", b"b", b"c"):
        yield letter


class Forever:
    """Access that does not end."""

    async def wait_for_revocation(self) -> None:
        await asyncio.Event().wait()


async def test_two_that_are_sent_at_the_same_time_take_turns() -> None:
    sent: list[tuple[str, bytes]] = []

    async def stay() -> Any:
        await asyncio.Event().wait()

    def sender(name: str) -> Any:
        async def send(message: Any) -> None:
            if message.get("body"):
                sent.append((name, message["body"]))

        return send

    answers = [
        StreamedResponse(letters(), guard=Forever(), media_type="text/plain")({"type": "http"}, stay, sender(name))
        for name in "xy"
    ]
    await asyncio.gather(*answers)
    assert sent == [("x", b"a"), ("y", b"a"), ("x", b"b"), ("y", b"b"), ("x", b"c"), ("y", b"c")]

"""A line into a task by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from holdfast.core.access import Actor
from holdfast.core.records import JobSummary
from holdfast.core.states import JobState
from tests.server.portal.socket_client import TIMEOUT, Wire
from tests.server.rig import Rig

SLEEPER = "name: train\ncommand: sleep 1000\n"


async def running(rig: Rig, text: str = SLEEPER, actor: Actor | None = None) -> JobSummary:
    job = await rig.house.submit(text, actor)
    return await rig.house.until(job.id, JobState.RUNNING)


class TaskWire(Wire):
    status: int | None = None  # of the answer that it got instead of a socket
    _answer = b""

    async def _send(self, message: dict[str, Any]) -> None:
        if not message["type"].startswith("websocket.http.response"):
            await super()._send(message)
            return
        async with self._news:
            self.status = message.get("status", self.status)
            self._answer += message.get("body", b"")
            self._news.notify_all()

    def denial(self) -> tuple[str, int]:
        """What it was told instead of being let in, and the HTTP status."""
        assert not self.accepted
        assert self.status is not None
        return json.loads(self._answer)["error"]["message"], self.status

    def give(self, data: bytes) -> None:
        self._to_server.put_nowait({"type": "websocket.receive", "bytes": data})

    async def words(self, key: str) -> Any:
        """The value of the next words that have this key; what came before is dropped."""
        while True:
            message = await self.next()
            if isinstance(message, dict) and key in message:
                return message[key]

    async def output(self) -> tuple[bytes, bytes, int]:
        """Of a command without a terminal: stdout, stderr and exit status."""
        found: dict[int, bytes] = {1: b"", 2: b""}
        while True:
            message = await self.next()
            if isinstance(message, bytes):
                found[message[0]] += message[1:]
            elif "exit" in message:
                return found[1], found[2], message["exit"]
            else:
                assert "error" not in message, message

    async def refusal(self) -> tuple[str, int]:
        """What it was told, and the code that it was closed with."""
        said = await self.words("error")
        await self.until(lambda: self.code is not None)
        assert self.code is not None
        return said, self.code


@asynccontextmanager
async def open_line(
    rig: Rig, path: str, *, query: str = "", headers: Mapping[str, str] | None = None
) -> AsyncIterator[TaskWire]:
    """With the admin's token, unless headers are given."""
    given = {"host": "test", **(headers if headers is not None else dict(rig.client.headers))}
    whole = f"/api/v1/jobs/{path}"
    scope = {
        "type": "websocket",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "scheme": "ws",
        "path": whole,
        "raw_path": whole.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 1234),
        "server": ("test", 80),
        "subprotocols": [],
        "extensions": {"websocket.http.response": {}},
    }
    wire = TaskWire()
    task = asyncio.create_task(rig.app(scope, wire._to_server.get, wire._send))  # type: ignore[arg-type]
    try:
        await wire.until(lambda: wire.accepted or wire.code or wire._answer)
        yield wire
    finally:
        wire.leave()
        await asyncio.wait_for(task, TIMEOUT)

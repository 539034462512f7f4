"""A house with an HTTP client in the same process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from fastapi import FastAPI

from holdfast.server.app import create_app
from tests.services.house import House

from .shapes import check_answers


@dataclass
class Rig:
    house: House
    app: FastAPI
    client: httpx.AsyncClient  # with an admin's token

    async def get(self, path: str, **more: Any) -> httpx.Response:
        return await self.client.get(f"/api/v1{path}", **more)

    async def post(self, path: str, **more: Any) -> httpx.Response:
        return await self.client.post(f"/api/v1{path}", **more)

    async def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        return await self.client.request(method, f"/api/v1{path}", **more)

    async def token_of(self, name: str, *groups: str) -> dict[str, str]:
        """A new user's headers."""
        actor = await self.house.user(name, *groups)
        made = await self.house.services.tokens.create(actor, name="test")
        return {"Authorization": f"Bearer {made.text}"}


@asynccontextmanager
async def open_rig(house: House) -> AsyncIterator[Rig]:
    app = create_app(house.services)
    token = await house.services.tokens.create_machine_token()
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    headers = {"Authorization": f"Bearer {token}"}
    hooks = {"response": [check_answers(app)]}
    async with httpx.AsyncClient(
        transport=transport, base_url="http://test", headers=headers, event_hooks=hooks
    ) as client:
        yield Rig(house, app, client)


def error_of(response: httpx.Response, status: int) -> dict[str, Any]:
    """The error; its shape is checked with every answer."""
    assert response.status_code == status, response.text
    body = response.json()
    assert set(body) == {"error"}
    error: dict[str, Any] = body["error"]
    assert error["request_id"] == response.headers["x-request-id"]
    assert error["message"]
    return error


@dataclass
class Exchange:
    """One request by hand, so that its answer can be watched as it comes, and its client can leave."""

    app: FastAPI
    scope: dict[str, Any]
    body: list[bytes] = field(default_factory=list)
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    received: bytes = b""
    ended: bool = False
    left: asyncio.Event = field(default_factory=asyncio.Event)
    news: asyncio.Condition = field(default_factory=asyncio.Condition)
    task: asyncio.Task[None] | None = None

    async def receive(self) -> dict[str, Any]:
        if self.body:
            part = self.body.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(self.body)}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        async with self.news:
            if message["type"] == "http.response.start":
                self.status = message["status"]
                self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            else:
                self.received += message.get("body", b"")
                self.ended = not message.get("more_body", False)
            self.news.notify_all()

    async def until(self, text: bytes) -> None:
        async with asyncio.timeout(20), self.news:
            await self.news.wait_for(lambda: text in self.received)

    async def finish(self) -> None:
        assert self.task is not None
        await asyncio.wait_for(self.task, 20)


def begin(
    rig: Rig,
    path: str,
    *,
    method: str = "GET",
    query: str = "",
    body: list[bytes] | None = None,
    headers: dict[str, str] | None = None,
) -> Exchange:
    given = {**dict(rig.client.headers), **(headers or {})}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": f"/api/v1{path}",
        "raw_path": f"/api/v1{path}".encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 1234),
        "server": ("test", 80),
    }
    exchange = Exchange(rig.app, scope, body if body is not None else [b""])
    exchange.task = asyncio.create_task(rig.app(scope, exchange.receive, exchange.send))  # type: ignore[arg-type]
    return exchange

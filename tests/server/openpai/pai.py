"""A house with clients of OpenPAI's REST server: an admin's, a user's and a guest's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from holdfast.core.access import Actor
from holdfast.server.app import create_app
from tests.services.house import House, open_house

PASSWORD = "long enough for alice"
API = "/rest-server/api"


@dataclass
class Pai:
    """The clients ask below /rest-server/api: `await pai.user.get("/v2/jobs")`."""

    house: House
    app: FastAPI
    admin: httpx.AsyncClient  # logged in
    user: httpx.AsyncClient  # logged in as alice, of group default
    guest: httpx.AsyncClient  # without a token
    alice: Actor
    _stack: AsyncExitStack

    async def client(self, token: str | None = None) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        made = httpx.AsyncClient(transport=transport, base_url=f"http://test{API}", headers=headers)
        return await self._stack.enter_async_context(made)

    async def login(self, name: str, password: str) -> httpx.AsyncClient:
        made = await self.house.services.tokens.login(name, password, "127.0.0.1")
        return await self.client(made.text)

    async def new_user(self, name: str, *groups: str) -> httpx.AsyncClient:
        """A user of these groups (none: of default), logged in."""
        password = f"the password of {name}"
        await self.house.user(name, *(groups or ("default",)), password=password)
        return await self.login(name, password)

    async def application(self, actor: Actor | None = None) -> httpx.AsyncClient:
        """With an application token, of alice unless said otherwise."""
        made = await self.house.services.tokens.create(actor or self.alice, name="application")
        return await self.client(made.text)


@asynccontextmanager
async def open_pai(home: Path, settings: Mapping[str, Any] | None = None, **more: Any) -> AsyncIterator[Pai]:
    """`more` goes to the house."""
    async with AsyncExitStack() as stack:
        house = await stack.enter_async_context(open_house(home, settings=settings, **more))
        alice = await house.user("alice", "default", password=PASSWORD)
        unset: Any = None
        pai = Pai(house, create_app(house.services), unset, unset, unset, alice, stack)
        pai.admin = await pai.client(await house.services.tokens.create_machine_token())
        pai.user = await pai.login("alice", PASSWORD)
        pai.guest = await pai.client()
        yield pai


def refused(response: httpx.Response, status: int, code: str, message: str | None = None) -> str:
    """The message of a refusal, held to its shape."""
    assert response.status_code == status, response.text
    body = response.json()
    assert set(body) == {"code", "message"}
    assert body["code"] == code, body
    assert body["message"]
    if message is not None:
        assert body["message"] == message
    return str(body["message"])

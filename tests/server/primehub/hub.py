"""A house with clients of PrimeHub's GraphQL server: an admin's, a user's and a stranger's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from holdfast.core.access import Actor
from holdfast.server.app import create_app
from tests.server.rig import Exchange
from tests.services.house import House, open_house

JOB = {"displayName": "demo", "instanceType": "cpu-1", "image": "host", "command": "echo hi", "groupId": "red"}


@dataclass
class Caller:
    """Asks as the SDK does: a form, its variables as JSON text."""

    http: httpx.AsyncClient
    actor: Actor

    async def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """The whole answer."""
        form = {"variables": json.dumps(variables), "query": query}
        return dict((await self.http.post("/api/graphql", data=form)).json())

    async def data(self, query: str, **variables: Any) -> Any:
        """What is there under the only name asked for."""
        answered = await self.ask(query, **variables)
        assert "errors" not in answered, answered
        (found,) = answered["data"].values()
        return found

    async def refused(self, query: str, **variables: Any) -> tuple[str, str]:
        """The code and the message of the only error."""
        answered = await self.ask(query, **variables)
        (error,) = answered["errors"]
        assert {"message", "extensions"} <= set(error) <= {"message", "locations", "path", "extensions"}
        return error["extensions"]["code"], error["message"]

    async def submit(self, **more: Any) -> str:
        """The id of a new job."""
        made = await self.data(
            "mutation ($data: PhJobCreateInput!) { createPhJob(data: $data) { id } }", data={**JOB, **more}
        )
        return str(made["id"])

    async def run(self, hub: Hub, **more: Any) -> str:
        """The same, once it is over."""
        id = await self.submit(**more)
        await hub.house.until(id)
        return id

    async def job(self, id: str, *fields: str) -> Any:
        """One field of a job, or several."""
        found = await self.data(
            f"query ($where: PhJobWhereUniqueInput!) {{ phJob(where: $where) {{ {' '.join(fields)} }} }}",
            where={"id": id},
        )
        return found if len(fields) > 1 else found[fields[0].partition("{")[0].strip()]


@dataclass
class Hub:
    house: House
    app: FastAPI
    admin: Caller
    ann: Caller  # of the group red
    bob: Caller  # of the group blue
    _stack: AsyncExitStack

    async def caller(self, actor: Actor, token: str | None = None) -> Caller:
        text = token if token is not None else (await self.house.services.tokens.create(actor, name="test")).text
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        headers = {"Authorization": f"Bearer {text}"} if text else {}
        made = httpx.AsyncClient(transport=transport, base_url="http://hub.example", headers=headers)
        return Caller(await self._stack.enter_async_context(made), actor)


@dataclass
class Watched(Exchange):
    """An answer as it comes, piece by piece."""

    pieces: list[bytes] = field(default_factory=list)

    async def send(self, message: dict[str, Any]) -> None:
        if message.get("body"):
            self.pieces.append(message["body"])
        await super().send(message)


def watch(hub: Hub, caller: Caller, path: str, query: str = "") -> Watched:
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in caller.http.headers.items()],
        "client": ("127.0.0.1", 1234),
        "server": ("hub.example", 80),
    }
    watched = Watched(hub.app, scope, [b""])
    watched.task = asyncio.create_task(hub.app(scope, watched.receive, watched.send))  # type: ignore[arg-type]
    return watched


@asynccontextmanager
async def open_hub(home: Path, settings: Mapping[str, Any] | None = None, **more: Any) -> AsyncIterator[Hub]:
    """`more` goes to the house."""
    async with AsyncExitStack() as stack:
        house = await stack.enter_async_context(open_house(home, settings=settings, **more))
        unset: Any = None
        hub = Hub(house, create_app(house.services), unset, unset, unset, stack)
        hub.admin = await hub.caller(house.admin)
        hub.ann = await hub.caller(await house.user("ann", "red"))
        hub.bob = await hub.caller(await house.user("bob", "blue"))
        yield hub

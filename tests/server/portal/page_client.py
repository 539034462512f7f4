"""A browser without a screen: keeps cookies, follows forms, sends their proof. For pages as the server makes them."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from tests.server.rig import Rig

_PROOF = re.compile(r'<meta name="csrf" content="([0-9a-f]+)">')
PASSWORD = "correct horse battery"


@dataclass
class Desk:
    rig: Rig
    client: httpx.AsyncClient

    async def get(self, path: str, **more: Any) -> httpx.Response:
        return await self.client.get(path, **more)

    async def part(self, path: str, **more: Any) -> httpx.Response:
        """As a script asks for a piece of a page."""
        return await self.client.get(path, headers={"HX-Request": "true"}, **more)

    async def post(self, path: str, fields: dict[str, Any] | None = None, **more: Any) -> httpx.Response:
        """A form of ours, with its proof."""
        return await self.client.post(path, data={"csrf": await self.proof(), **(fields or {})}, **more)

    async def proof(self) -> str:
        found = _PROOF.search((await self.client.get("/me")).text)
        assert found, "not logged in"
        return found.group(1)


@asynccontextmanager
async def open_desk(rig: Rig, user: str = "admin", password: str | None = None) -> AsyncIterator[Desk]:
    """Logged in as `user`. One with `PASSWORD` can be made by `rig.house.user(name, group, password=PASSWORD)`."""
    chosen = password or (rig.house.admin_password if user == "admin" else PASSWORD)
    transport = httpx.ASGITransport(rig.app, raise_app_exceptions=False)
    headers = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}
    async with httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers) as client:
        answer = await client.post("/login", data={"user": user, "password": chosen})
        assert answer.status_code == 303, answer.text
        yield Desk(rig, client)


def text_of(page: str) -> str:
    """What is read on a page: without tags, blanks folded."""
    bare = re.sub(r"<(script|style|template)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", bare)).split())

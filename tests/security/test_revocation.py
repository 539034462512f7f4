"""Open streams, waits and links end as soon as their user loses access, over a real server's sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from holdfast.core.access import Actor
from holdfast.core.states import JobState
from holdfast.services.logs.search import MAX_TEXT_SEARCHES
from holdfast.services.people.tokens import NewToken
from tests.server.rig import Rig, error_of, open_rig
from tests.server.test_http import TIMEOUT, serving
from tests.services.house import open_house

pytestmark = pytest.mark.anyio

FILE_SIZE = 64 * 1024 * 1024  # bytes; more than the buffers of a connection hold


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass
class Scene:
    """Mallory, a member of red, and alice's job there, which runs."""

    rig: Rig
    port: int
    mallory: Actor
    token: NewToken
    job: str

    def write(self, text: bytes) -> None:
        self.rig.house.engine.write_log(f"{self.job}.0.main-0.0", text)

    def client(self) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {self.token.text}"}
        return httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.port}", headers=headers, timeout=TIMEOUT)

    async def leave_group(self) -> None:
        await self.rig.house.services.groups.remove_member(self.rig.house.admin, "red", "mallory")


async def remove_from_group(scene: Scene) -> None:
    await scene.leave_group()


async def revoke_token(scene: Scene) -> None:
    await scene.rig.house.services.tokens.delete(scene.rig.house.admin, scene.token.token.id)


async def disable_user(scene: Scene) -> None:
    await scene.rig.house.services.users.change(scene.rig.house.admin, "mallory", disabled=True)


async def delete_user(scene: Scene) -> None:
    await scene.rig.house.services.users.delete(scene.rig.house.admin, "mallory")


async def expire_token(scene: Scene) -> None:
    scene.rig.house.clock.forward(2)


Revoke = Callable[[Scene], Awaitable[None]]
WAYS: dict[Revoke, tuple[int, str]] = {  # -> what a new request is refused with
    remove_from_group: (404, "not_found"),
    revoke_token: (401, "not_logged_in"),
    disable_user: (401, "not_logged_in"),
    delete_user: (401, "not_logged_in"),
    expire_token: (401, "not_logged_in"),
}
ways = pytest.mark.parametrize("revoke", list(WAYS), ids=lambda each: each.__name__)


@pytest.fixture
async def scene(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Scene]:
    async with open_house(tmp_path / "home") as house, open_rig(house) as rig, serving(rig) as port:
        alice, mallory = await house.user("alice", "red"), await house.user("mallory", "red")
        revoke = getattr(request.node, "callspec", None) and request.node.callspec.params.get("revoke")
        lasts = timedelta(seconds=1) if revoke is expire_token else None
        token = await house.services.tokens.create(mallory, name="test", expires_in=lasts)
        job = await house.submit("name: talker\ngroup: red\ncommand: sleep 1000\n", alice)
        await house.until(job.id, JobState.RUNNING)
        yield Scene(rig, port, mallory, token, job.id)


@asynccontextmanager
async def reading(scene: Scene, path: str) -> AsyncIterator[AsyncIterator[bytes]]:
    """A stream that has answered, with one line read of it."""
    scene.write(b"before\n")
    async with scene.client() as client, client.stream("GET", path) as response:
        assert response.status_code == 200
        chunks = response.aiter_raw()
        received = b""
        while b"before" not in received:
            received += await anext(chunks)
        yield chunks


async def read_to_end(chunks: AsyncIterator[bytes]) -> tuple[bytes, bool]:
    """What came until the end, and whether the answer was whole."""
    received = b""
    try:
        async with asyncio.timeout(TIMEOUT):
            async for chunk in chunks:
                received += chunk
    except httpx.RemoteProtocolError:
        return received, False
    return received, True


@pytest.mark.release_after(2)
@ways
async def test_server_sent_events_end_with_the_reason(scene: Scene, revoke: Revoke) -> None:
    async with reading(scene, f"/api/v1/jobs/{scene.job}/log/follow") as chunks:
        await revoke(scene)
        scene.write(b"secret\n")
        received, whole = await read_to_end(chunks)
    assert whole
    assert b"event: refused\n" in received
    assert f'"code": "{WAYS[revoke][1]}"'.encode() in received
    assert b"secret" not in received.partition(b"event: refused")[2]


@pytest.mark.release_after(2)
@ways
async def test_plain_following_is_cut(scene: Scene, revoke: Revoke) -> None:
    async with reading(scene, f"/api/v1/jobs/{scene.job}/log?follow=true") as chunks:
        await revoke(scene)
        _, whole = await read_to_end(chunks)
    assert not whole


@pytest.mark.release_after(2)
@ways
async def test_primehubs_log_is_cut(scene: Scene, revoke: Revoke) -> None:
    async with reading(scene, f"/api/logs/namespaces/hub/phjobs/{scene.job}?follow=true") as chunks:
        await revoke(scene)
        _, whole = await read_to_end(chunks)
    assert not whole


@pytest.mark.release_after(2)
@ways
async def test_a_wait_is_refused_as_a_new_request(scene: Scene, revoke: Revoke) -> None:
    async with scene.client() as client:
        waiting = asyncio.create_task(client.get(f"/api/v1/jobs/{scene.job}/wait?timeout=60"))
        await watched(scene)
        await revoke(scene)
        error = error_of(await asyncio.wait_for(waiting, TIMEOUT), WAYS[revoke][0])
    assert error["code"] == WAYS[revoke][1]


@pytest.mark.release_after(2)
@ways
async def test_a_search_that_waits_is_refused_as_a_new_request(scene: Scene, revoke: Revoke) -> None:
    scene.write(b"before\n")
    async with AsyncExitStack() as slots, scene.client() as client:
        for number in range(MAX_TEXT_SEARCHES):
            searches = scene.rig.house.services.logs._searches
            await slots.enter_async_context(searches._text_limiter.use_slot(f"user-{number}"))
        searching = asyncio.create_task(client.get(f"/api/v1/jobs/{scene.job}/log/search?q=before"))
        await watched(scene)
        await revoke(scene)
        error = error_of(await asyncio.wait_for(searching, TIMEOUT), WAYS[revoke][0])
    assert error["code"] == WAYS[revoke][1]


@pytest.mark.parametrize("revoke", [revoke_token, disable_user, delete_user, expire_token])
async def test_only_tokens_in_use_are_proved_to_be_known(scene: Scene, revoke: Revoke) -> None:
    async with scene.client() as client:
        asked = {"token": scene.token.token.id, "nonce": "n" * 32}
        assert (await client.get("/api/v1/identity", params=asked)).status_code == 200
        await revoke(scene)
        ended = await client.get("/api/v1/identity", params=asked)
        unknown = await client.get("/api/v1/identity", params={**asked, "token": "a234567a234567"})
    assert _without_id(error_of(ended, 401)) == _without_id(error_of(unknown, 401))


def _without_id(error: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in error.items() if name != "request_id"}


async def watched(scene: Scene) -> None:
    """Once somebody waits for a change of access."""
    access = scene.rig.house.services.tokens._access
    async with asyncio.timeout(TIMEOUT):
        while not access._changed._waiters:  # type: ignore[attr-defined]
            await asyncio.sleep(0)


@pytest.mark.parametrize("path", ["/api/v1/groups/red/files/big", "/api/files/groups/red/big"])
async def test_a_download_of_a_shared_file_is_cut(scene: Scene, path: str) -> None:
    folder = scene.rig.house.services.shared.create_files_folder("red")
    with open(folder / "big", "wb") as file:
        file.truncate(FILE_SIZE)
    async with scene.client() as client, client.stream("GET", path) as response:
        assert response.status_code == 200
        chunks = response.aiter_raw()
        first = await anext(chunks)
        await scene.leave_group()
        received, whole = await read_to_end(chunks)
    assert not whole
    assert len(first) + len(received) < FILE_SIZE


@pytest.mark.parametrize(
    ("method", "path"), [("PUT", "/api/v1/groups/red/files/new"), ("POST", "/api/files/groups/red/new")]
)
async def test_an_upload_is_given_up(scene: Scene, method: str, path: str) -> None:
    head = f"{method} {path} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {scene.token.text}\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", scene.port)
    try:
        writer.write(head.encode() + b"Content-Length: 1000\r\n\r\nthe first part")
        await watched(scene)
        await scene.leave_group()
        answer = await asyncio.wait_for(reader.readline(), TIMEOUT)
    finally:
        writer.close()
    assert b" 403 " in answer
    assert not (scene.rig.house.services.shared.get_files_folder("red") / "new").exists()


# -- links to logs, which open without a login


async def link_of(scene: Scene) -> str:
    path = "/rest-server/api/v2/jobs/alice~talker/attempts/0/taskRoles/main/taskIndex/0/attempts/0/logs"
    scene.write(b"before\n")
    async with scene.client() as client:
        listed = await client.get(path)
    assert listed.status_code == 200, listed.text
    return next(each["uri"] for each in listed.json()["locations"] if each["name"] == "all")


@pytest.mark.release_after(2)
@pytest.mark.parametrize(
    ("revoke", "status"),
    [(remove_from_group, 404), (revoke_token, 403), (disable_user, 403), (delete_user, 403), (expire_token, 403)],
    ids=lambda each: getattr(each, "__name__", ""),
)
async def test_a_log_link_is_worth_what_its_maker_may(scene: Scene, revoke: Revoke, status: int) -> None:
    link = await link_of(scene)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{scene.port}", timeout=TIMEOUT) as anyone:
        assert (await anyone.get(link)).text == "before\n"
        await revoke(scene)
        refused = await anyone.get(link)
    assert refused.status_code == status, refused.text
    assert "before" not in refused.text


async def test_a_log_link_names_the_login_it_depends_on_and_no_secret(scene: Scene) -> None:
    link = await link_of(scene)
    secret = scene.token.text.split("_", 2)[2]  # it may hold underscores itself
    assert len(secret) > 30
    assert secret not in urlsplit(link).query


async def test_changes_elsewhere_leave_a_stream_alone(scene: Scene) -> None:
    async with reading(scene, f"/api/v1/jobs/{scene.job}/log?follow=true") as chunks:
        await scene.rig.house.user("carol", "blue")
        scene.write(b"after\n")
        received = b""
        while b"after" not in received:
            received += await anext(chunks)

"""A request does what its sender may do when its body is complete, not what they might when it began."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from holdfast.engines.base import ImageSummary
from tests.fake_engine import FakeEngine
from tests.server.openpai.job_files import job as openpai_job
from tests.server.portal.page_client import PASSWORD, open_desk
from tests.server.primehub.hub import JOB as PRIMEHUB_JOB
from tests.server.rig import Rig, open_rig
from tests.services.house import open_house

pytestmark = pytest.mark.anyio

TIMEOUT = 20  # seconds
JOB = b"name: late\ngroup: red\ncommand: echo late\n"
CREATE = "mutation ($data: PhJobCreateInput!) { createPhJob(data: $data) { id } }"
GRAPHQL = json.dumps({"query": CREATE, "variables": {"data": PRIMEHUB_JOB}}).encode()
USER = json.dumps({"username": "puppet", "password": "a long enough one", "admin": True}).encode()
JSON = {"Content-Type": "application/json"}


class ImageEngine(FakeEngine):
    """Takes any file as an image."""

    imported: list[str]

    async def import_image(self, name: str, file: Path) -> ImageSummary:
        self.imported.append(name)
        return ImageSummary(name=name, size=1, created_at=None, source="")

    async def remove_image(self, name: str) -> bool:
        return True


@dataclass
class HeldBody:
    """All but the last byte is sent at once, that one after `rest` is set."""

    data: bytes
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    rest: asyncio.Event = field(default_factory=asyncio.Event)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self.data[:-1]
        self.begun.set()  # the first part was read
        await self.rest.wait()
        yield self.data[-1:]


Change = Callable[[Rig], Awaitable[object]]


async def remove_member(rig: Rig) -> None:
    await rig.house.services.groups.remove_member(rig.house.admin, "red", "mallory")


async def delete_user(rig: Rig) -> None:
    await rig.house.services.users.delete(rig.house.admin, "mallory")


async def demote(rig: Rig) -> None:
    await rig.house.services.users.change(rig.house.admin, "mallory", admin=False)


async def disable(rig: Rig) -> None:
    await rig.house.services.users.change(rig.house.admin, "mallory", disabled=True)


async def no_change(rig: Rig) -> None:
    pass


@dataclass(frozen=True)
class Surface:
    path: str
    body: bytes
    headers: dict[str, str]
    done: int  # the status where access is kept
    admin: bool = False

    def __str__(self) -> str:
        return self.path


REST_JOB = Surface("/api/v1/jobs", JOB, {}, 201)
REST_PLAN = Surface("/api/v1/jobs/plan", JOB, {}, 200)
REST_USER = Surface("/api/v1/users", b'{"name": "puppet", "admin": true}', JSON, 201, admin=True)
REST_IMAGE = Surface("/api/v1/images?name=late:1", b"a tar", {}, 201, admin=True)
PAI_JOB = Surface(
    "/rest-server/api/v2/jobs",
    openpai_job("late", defaults={"virtualCluster": "red"}).encode(),
    {"Content-Type": "text/yaml"},
    202,
)
PAI_USER = Surface("/rest-server/api/v2/users", USER, JSON, 201, admin=True)
PRIMEHUB = Surface("/api/graphql", GRAPHQL, JSON, 200)
SURFACES = [REST_JOB, REST_PLAN, REST_USER, REST_IMAGE, PAI_JOB, PAI_USER, PRIMEHUB]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def engine() -> ImageEngine:
    made = ImageEngine()
    made.imported = []
    return made


@pytest.fixture
async def rig(tmp_path: Path, engine: ImageEngine) -> AsyncIterator[Rig]:
    async with open_house(tmp_path / "home", engine=engine) as house, open_rig(house) as opened:
        yield opened


async def send(rig: Rig, surface: Surface, change: Change) -> httpx.Response:
    """The answer to mallory's request, during whose body `change` happened."""
    await rig.house.user("mallory", "red")
    login = await rig.house.services.tokens.login_authenticated_user("mallory", "test")
    if surface.admin:
        await rig.house.services.users.change(rig.house.admin, "mallory", admin=True)
    body = HeldBody(surface.body)
    given = {"Authorization": f"Bearer {login.text}", **surface.headers}
    asking = asyncio.create_task(rig.client.post(surface.path, content=body, headers=given))
    async with asyncio.timeout(TIMEOUT):
        await body.begun.wait()
        await change(rig)
        body.rest.set()
        return await asking


@pytest.mark.release_after(3)
@pytest.mark.parametrize("surface", SURFACES, ids=str)
async def test_a_held_body_is_taken_of_whoever_keeps_access(rig: Rig, surface: Surface) -> None:
    answer = await send(rig, surface, no_change)
    assert answer.status_code == surface.done, answer.text
    assert "errors" not in answer.text


@pytest.mark.release_after(3)
@pytest.mark.parametrize("change", [delete_user, disable], ids=lambda each: each.__name__)
@pytest.mark.parametrize("surface", SURFACES, ids=str)
async def test_a_removed_user_finishes_no_request(
    rig: Rig, engine: ImageEngine, surface: Surface, change: Change
) -> None:
    answer = await send(rig, surface, change)
    assert answer.status_code == 401 or "UNAUTHENTICATED" in answer.text, answer.text
    await expect_nothing_done(rig, engine)


@pytest.mark.parametrize("surface", [each for each in SURFACES if each.admin], ids=str)
async def test_a_demoted_admin_finishes_no_request(rig: Rig, engine: ImageEngine, surface: Surface) -> None:
    answer = await send(rig, surface, demote)
    assert answer.status_code == 403, answer.text
    await expect_nothing_done(rig, engine)


@pytest.mark.parametrize("surface", [REST_JOB, PAI_JOB, PRIMEHUB], ids=str)
async def test_a_removed_member_submits_nothing(rig: Rig, engine: ImageEngine, surface: Surface) -> None:
    answer = await send(rig, surface, remove_member)
    assert answer.status_code in (403, 404) or "errors" in answer.json(), answer.text
    await expect_nothing_done(rig, engine)


async def test_a_removed_member_finishes_no_form(rig: Rig, engine: ImageEngine) -> None:
    await rig.house.user("mallory", "red", password=PASSWORD)
    async with open_desk(rig, "mallory") as desk:
        body = HeldBody(f"csrf={await desk.proof()}&name=late&group=red&command=true".encode())
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        asking = asyncio.create_task(desk.client.post("/jobs/new", content=body, headers=headers))
        async with asyncio.timeout(TIMEOUT):
            await body.begun.wait()
            await delete_user(rig)
            body.rest.set()
            answer = await asking
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    await expect_nothing_done(rig, engine)


async def test_an_image_upload_is_given_up_while_it_is_held(rig: Rig, engine: ImageEngine) -> None:
    """Not only when the sender likes to finish it."""
    async with asyncio.timeout(TIMEOUT):
        answer = await send(rig, REST_IMAGE, demote_and_wait_for_refusal)
    assert answer.status_code == 403, answer.text
    await expect_nothing_done(rig, engine)


async def demote_and_wait_for_refusal(rig: Rig) -> None:
    await demote(rig)
    uploads = rig.house.home / "uploads"
    while list(uploads.iterdir()):
        await asyncio.sleep(0.01)


async def expect_nothing_done(rig: Rig, engine: ImageEngine) -> None:
    assert (await rig.get("/jobs")).json()["items"] == []
    assert (await rig.get("/users/puppet")).status_code == 404
    assert engine.imported == []

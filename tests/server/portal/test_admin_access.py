"""Admin pages are for admins: to others they are not there. Whatever changes something needs the proof of a form."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.routing import Route

from holdfast.server.portal.pages import admin, groups
from tests.server.rig import Rig

from .page_client import PASSWORD, open_desk

pytestmark = pytest.mark.anyio
NAMES = {
    "name": "default",
    "kind": "volume",
    "year": "2026",
    "month": "3",
    "rest": "user",
    "group": "red",
    "path": "a",
    "id": "x",
}


def _paths(method: str) -> Iterator[str]:
    for route in [*admin.routes, *groups.routes]:
        assert isinstance(route, Route)
        if method in (route.methods or ()):
            path = route.path
            for name, value in NAMES.items():
                path = path.replace(f"{{{name}}}", value).replace(f"{{{name}:any}}", value)
            yield path


def _is_admins(path: str) -> bool:
    return path.startswith(("/admin", "/console/admin", "/user-view", "/batch-register"))


async def test_to_others_admin_pages_are_not_there(rig: Rig) -> None:
    await rig.house.user("bob", "red", password=PASSWORD)
    await rig.house.add_group("blue")
    async with open_desk(rig, "bob") as desk:
        for path in filter(_is_admins, _paths("GET")):
            assert (await desk.get(path)).status_code == 404, path
        for path in filter(_is_admins, _paths("POST")):
            assert (await desk.post(path)).status_code == 404, path
        proof = {"csrf": await desk.proof()}
        for rest in ("/settings", "/settings/mlflow", "/images/new", "/images/host/edit", "/images/host/delete"):
            assert (await desk.get(f"/groups/red{rest}")).status_code == 404, rest
            assert (await desk.get(f"/groups/blue{rest}")).status_code == 404, rest
        for rest in ("/members/add", "/members/change", "/time-limit", "/hold", "/mlflow", "/mlflow/remove"):
            answer = await desk.client.post(f"/groups/red/settings{rest}", data=proof | {"user": "bob"})
            assert answer.status_code == 404, rest
        assert (await desk.get("/groups/blue")).status_code == 404
        assert (await desk.get("/groups/blue/files")).status_code == 404


async def test_without_its_proof_no_form_does_anything(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        for path in _paths("POST"):
            assert (await desk.client.post(path, data={"name": "x"})).status_code == 403, path


async def test_who_is_not_logged_in_is_led_to_the_login(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        desk.client.cookies.clear()
        for path in _paths("GET"):
            answer = await desk.get(path)
            assert answer.status_code == 303, path
            assert answer.headers["location"].startswith("/login"), path

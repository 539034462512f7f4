"""A part of the routes is loaded at the first request for one of them."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys

import pytest
from starlette.routing import Match, WebSocketRoute

from holdfast.server import lazy_routes
from holdfast.server.portal.app import list_portal_routes
from holdfast.server.rest.lazy_modules import list_routes

from .rig import Rig

pytestmark = pytest.mark.anyio


@pytest.mark.release
def test_a_server_begins_without_it() -> None:
    late = {"jinja2", "holdfast.server.rest.datasets", "sqlalchemy.dialects.postgresql"}
    script = f"import sys, holdfast.bootstrap, holdfast.server.app; sys.exit(bool({late} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


async def test_all_who_come_first_get_their_page(rig: Rig) -> None:
    before = len(rig.app.router.routes)
    replies = await asyncio.gather(*(rig.client.get("/login") for _ in range(5)))
    assert [reply.status_code for reply in replies] == [200] * 5
    added = len(rig.app.router.routes) - before
    assert added > 100
    assert not await rig.app.state.lazy_routes.load_stage_for("/login")
    assert len(rig.app.router.routes) == before + added


async def test_only_the_part_that_is_asked_for_is_loaded(rig: Rig) -> None:
    before = len(rig.app.router.routes)
    assert (await rig.get("/jobs")).status_code == 200
    assert len(rig.app.router.routes) == before
    assert (await rig.get("/groups")).status_code == 200
    rest = len(rig.app.router.routes) - before
    assert rest == len(list_routes())
    assert (await rig.client.get("/login")).status_code == 200
    assert len(rig.app.router.routes) == before + rest + len(list_portal_routes())


async def test_both_parts_at_once(rig: Rig) -> None:
    before, loads = len(rig.app.router.routes), 0

    def count() -> None:
        nonlocal loads
        loads += 1

    rig.app.state.lazy_routes.on_load = count
    replies = await asyncio.gather(rig.client.get("/login"), rig.get("/groups"), rig.client.get("/login"))
    assert [reply.status_code for reply in replies] == [200] * 3
    assert len(rig.app.router.routes) == before + len(list_routes()) + len(list_portal_routes())
    assert loads == 2


async def test_no_route_of_the_start_answers_for_a_late_one(rig: Rig) -> None:
    first = list(rig.app.router.routes)
    late = list_routes() + list_portal_routes()
    assert len(late) > 150
    for route in late:
        path = re.sub(r"{[^}]*}", "x", route.path)  # type: ignore[attr-defined]
        kind = "websocket" if isinstance(route, WebSocketRoute) else "http"
        scope = {"type": kind, "method": "GET", "path": path, "headers": [], "root_path": ""}
        assert all(each.matches(dict(scope))[0] is Match.NONE for each in first), path


def test_every_late_route_is_found_by_its_path() -> None:
    rest, portal = lazy_routes.ROUTE_STAGES
    assert all(rest.serves(route.path) for route in list_routes())  # type: ignore[attr-defined]
    assert all(portal.serves(route.path) for route in list_portal_routes())  # type: ignore[attr-defined]


async def test_an_address_of_nothing_is_none_of_the_portals_either(rig: Rig) -> None:
    assert (await rig.client.get("/no-such-page")).status_code == 404
    assert (await rig.client.get("/api/v1/no-such-thing")).status_code == 404


async def test_methods_are_known_before_and_after(rig: Rig) -> None:
    for _ in range(2):
        reply = await rig.client.request("PATCH", "/api/v1/jobs")
        assert (reply.status_code, reply.headers["allow"]) == (405, "GET, HEAD, OPTIONS, POST")
        await rig.app.state.lazy_routes.load_stage_for("/api/v1/jobs")
    reply = await rig.client.request("DELETE", "/login")
    assert (reply.status_code, reply.headers["allow"]) == (405, "GET, HEAD, OPTIONS, POST")


async def test_a_failure_to_load_it_is_not_the_last_word(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str, package: str) -> None:
        raise OSError("too many open files")

    with monkeypatch.context() as failing:
        failing.setattr(lazy_routes, "import_module", fail)
        assert (await rig.client.get("/login")).status_code == 500
        assert (await rig.get("/jobs")).status_code == 200
    assert (await rig.client.get("/login")).status_code == 200

"""The admin's pages about the place: audit, settings, machines and health."""

from __future__ import annotations

import re

import pytest

from holdfast.core.audit import AuditAction, AuditKind
from holdfast.core.conditions import Condition, ConditionKind
from holdfast.server.portal.pages.audit import ACTION_TEXTS, KIND_LABELS
from holdfast.settings import load_settings
from tests.server.rig import Rig, open_rig
from tests.services.house import open_house

from .page_client import PASSWORD, open_desk, text_of

pytestmark = pytest.mark.anyio

ADMIN_PAGES = ("/admin/audit", "/admin/settings", "/admin/installation")


@pytest.mark.parametrize("path", ADMIN_PAGES)
async def test_whoever_is_no_admin_does_not_know_of_it(rig: Rig, path: str) -> None:
    await rig.house.user("ann", password=PASSWORD)
    async with open_desk(rig, "ann") as desk:
        assert (await desk.get(path)).status_code == 404
        assert path not in (await desk.get("/me")).text


async def test_what_was_done_is_listed_with_who_and_from_where(rig: Rig) -> None:
    await rig.post("/users", json={"name": "bob", "email": "<b>@x", "password": "long enough 1"})
    async with open_desk(rig) as desk:
        page = (await desk.get("/admin/audit")).text
        text = text_of(page)
        assert "user created" in text
        assert "logged in" in text
        assert "&lt;b&gt;@x" in page
        assert "long enough" not in page
        assert "127.0.0.1" in text


async def test_filters_are_in_the_address_and_pages_follow_each_other(rig: Rig) -> None:
    for number in range(60):
        await rig.house.services.users.create(rig.house.admin, name=f"u{number}")
    async with open_desk(rig) as desk:
        first = (await desk.get("/admin/audit?kind=user")).text
        assert first.count("user created") == 50
        older = re.search(r'href="([^"]+)" rel="next"', first)
        assert older
        second = (await desk.get(older[1].replace("&amp;", "&"))).text
        assert second.count("user created") == 10
        assert 'rel="next"' not in second
        assert (await desk.get("/admin/audit?subject=u7")).text.count("user created") == 1
        assert (await desk.get("/admin/audit?user=nobody")).text.count("<tbody") == 0
        assert (await desk.get("/admin/audit?since=2026-03-02")).text.count("user created") == 0
        assert (await desk.get("/admin/audit?since=2026-03-01&until=2026-03-01&kind=user")).text.count(
            "user created"
        ) == 50


@pytest.mark.parametrize(
    "query", ["before=x", "before=99999999999999999999999", "since=never", "kind=zebra", "user=%00", "until=9999-12-31"]
)
async def test_strange_filters_break_nothing(rig: Rig, query: str) -> None:
    async with open_desk(rig) as desk:
        assert (await desk.get(f"/admin/audit?{query}")).status_code == 200


def test_every_kind_has_words() -> None:
    assert set(KIND_LABELS) == set(AuditKind)
    assert {kind for kind, _ in ACTION_TEXTS} == set(AuditKind)
    assert {act for _, act in ACTION_TEXTS} == set(AuditAction)


async def test_settings_show_where_they_come_from_and_no_password(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "holdfast.toml").write_text("[logs]\nkeep_days = 3\n")
    environ = {"HOLDFAST_STORE_URL": "postgresql://me:hunter2@db/holdfast?sslpassword=hunter3"}
    settings = load_settings(tmp_path, environ, {"server.port": 1234})
    async with open_house(tmp_path / "home") as house:
        object.__setattr__(house.services.configuration, "_settings", settings)
        async with open_rig(house) as rig, open_desk(rig) as desk:
            page = (await desk.get("/admin/settings")).text
    text = text_of(page)
    assert "hunter" not in page
    assert "postgresql://me:***@db/holdfast" in text
    assert re.search(r"keep_days keep_days = 3(\.0)? file", text)
    assert "port port = 1234 command option" in text
    assert "HOLDFAST_STORE_URL" in text
    assert "audit_days" in text


async def test_the_place_tells_how_it_is(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        page = await desk.get("/admin/installation")
        text = text_of(page.text)
        for word in ("No problems found.", "SQLite", "Isolation", "CPU", "Memory", str(rig.house.home)):
            assert word in text
        part = (await desk.part("/admin/installation")).text
        assert part.lstrip().startswith('<div id="installation"')


async def test_trouble_in_the_background_is_told(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    away = Condition(kind=ConditionKind.DATABASE, message="The engine is not responding.")
    monkeypatch.setattr(rig.house.controller, "list_conditions", lambda: (away,))
    async with open_desk(rig) as desk:
        assert "The engine is not responding." in text_of((await desk.get("/admin/installation")).text)

"""Shared files over plain HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from .hub import Hub

pytestmark = pytest.mark.anyio

AT = "/api/files/groups/red"


async def nothing() -> AsyncIterator[bytes]:
    """Sent in chunks, as clients send an empty file."""
    for _ in range(0):
        yield b""


async def test_what_was_sent_comes_back(hub: Hub) -> None:
    sent = await hub.ann.http.post(f"{AT}/a/b c.bin", content=b"\x00\xff" * 5000)
    assert (sent.status_code, sent.json()) == (200, {"success": True})
    got = await hub.ann.http.get(f"{AT}/a/b c.bin", params={"download": "1"})
    assert (got.status_code, got.content) == (200, b"\x00\xff" * 5000)
    assert got.headers["content-disposition"].startswith("attachment")
    assert got.headers["content-length"] == "10000"


async def test_an_empty_file_comes_in_chunks(hub: Hub) -> None:
    assert (await hub.ann.http.post(f"{AT}/empty", content=nothing())).json() == {"success": True}
    got = await hub.ann.http.get(f"{AT}/empty")
    assert (got.status_code, got.content) == (200, b"")


async def test_the_group_is_written_as_in_paths(hub: Hub) -> None:
    dora = await hub.caller(await hub.house.user("dora", "Team_A"))
    assert (await dora.http.post("/api/files/groups/team-a/x", content=b"1")).json() == {"success": True}
    assert (await dora.http.get("/api/files/groups/Team_A/x")).content == b"1"


async def test_what_is_not_there_is_404_and_no_member_is_403(hub: Hub) -> None:
    await hub.ann.http.post(f"{AT}/x", content=b"1")
    missing = await hub.ann.http.get(f"{AT}/none")
    assert (missing.status_code, missing.json()["code"]) == (404, "RESOURCE_NOT_FOUND")
    for answered in (await hub.bob.http.get(f"{AT}/x"), await hub.bob.http.post(f"{AT}/y", content=b"1")):
        assert (answered.status_code, answered.json()["code"]) == (403, "NOT_AUTH")
    stranger = await hub.caller(hub.ann.actor, token="")
    assert (await stranger.http.get(f"{AT}/x")).status_code in (401, 403)


async def test_pages_are_never_shown_as_pages(hub: Hub) -> None:
    for name in ("x.html", "x.svg", "x.xhtml", "x.js"):
        await hub.ann.http.post(f"{AT}/{name}", content=b"<script>alert(1)</script>")
        got = await hub.ann.http.get(f"{AT}/{name}")
        assert got.headers["content-disposition"].startswith("attachment"), name
        assert got.headers["content-type"] == "application/octet-stream", name
        assert got.headers["x-content-type-options"] == "nosniff"
    await hub.ann.http.post(f"{AT}/x.txt", content=b"plain")
    assert (await hub.ann.http.get(f"{AT}/x.txt")).headers["content-disposition"].startswith("inline")


@pytest.mark.parametrize("path", ["%2e%2e/x", "a/%2e%2e/%2e%2e/x", "a%00b", "a//b", "%2fetc%2fpasswd", ""])
async def test_hostile_paths_are_refused(hub: Hub, path: str) -> None:
    for method in ("GET", "POST"):
        answered = await hub.ann.http.request(method, f"{AT}/{path}", content=b"1")
        assert 400 <= answered.status_code < 500, (method, answered.text)
        assert set(answered.json()) == {"code", "message"}


async def test_other_methods_are_told_which_ones_are_taken(hub: Hub) -> None:
    await hub.ann.http.post(f"{AT}/x", content=b"1")
    for method in ("PUT", "PATCH", "DELETE"):
        answered = await hub.ann.http.request(method, f"{AT}/x")
        assert (answered.status_code, answered.headers["allow"]) == (405, "GET, HEAD, OPTIONS, POST")
        assert set(answered.json()) == {"code", "message"}
    assert (await hub.ann.http.options(f"{AT}/x")).status_code == 204
    assert (await hub.ann.http.get(f"{AT}/x")).content == b"1"


async def test_nothing_is_shared_by_link(hub: Hub) -> None:
    assert (await hub.ann.http.get("/api/share/0123456789")).status_code == 404

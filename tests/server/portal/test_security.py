"""The frame of every page, as somebody hostile meets it. Routes and templates are walked, so new ones are covered."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.routing import Route, WebSocketRoute

from holdfast.core.errors import NotLoggedIn
from holdfast.server.portal import sockets
from holdfast.server.portal.app import list_portal_routes
from holdfast.server.portal.static_files import STATIC_FOLDER, STATIC_PREFIX
from holdfast.server.portal.visit import Visit, sanitize_path
from holdfast.server.sessions import check_csrf_token, create_csrf_token
from tests.server.rig import Rig

from .page_client import PASSWORD, Desk, open_desk, text_of

pytestmark = pytest.mark.anyio

TEMPLATES = sorted((STATIC_FOLDER.with_name("templates")).rglob("*.html"))
SCRIPTS = sorted(path for path in (STATIC_FOLDER / "js").rglob("*.js") if "vendor" not in path.parts)
# Pages for whoever is not logged in, and forms of theirs. Nothing else is.
PUBLIC_PAGES = {"/login", "/oidc/auth-flow/login", "/console/oidc/auth-flow/login"}
PUBLIC_FORMS = PUBLIC_PAGES | {"/login/link", "/me/preferences"}


def _paths(method: str) -> list[str]:
    found = [
        re.sub(r"\{[^}]*\}", "x", route.path)
        for route in list_portal_routes()
        if isinstance(route, Route) and method in (route.methods or ()) and not route.path.startswith(STATIC_PREFIX)
    ]
    return sorted(set(found))


def _sockets() -> list[str]:
    return sorted({re.sub(r"\{[^}]*\}", "x", r.path) for r in list_portal_routes() if isinstance(r, WebSocketRoute)})


def stranger(rig: Rig, base: str = "http://test", **headers: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(rig.app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url=base, headers={"Accept": "text/html", **headers})


def is_our_policy(header: str) -> bool:
    return "script-src 'self';" in header and "unsafe" not in header and "default-src 'none'" in header


# -- who may come in


async def test_no_page_is_shown_without_a_login(rig: Rig) -> None:
    assert len(_paths("GET")) > 15
    async with stranger(rig) as client:
        for path in _paths("GET"):
            answer = await client.get(path)
            if path in PUBLIC_PAGES:
                assert answer.status_code == 200, path
            else:
                assert answer.status_code == 303, path
                assert answer.headers["location"].startswith("/login"), path


async def test_no_form_does_anything_without_a_login_or_a_proof(rig: Rig) -> None:
    assert len(_paths("POST")) > 15
    async with stranger(rig) as client:
        for path in set(_paths("POST")) - PUBLIC_FORMS:
            answer = await client.post(path, data={"x": "y"})
            assert (answer.status_code, answer.headers["location"]) == (303, "/login"), path
    async with open_desk(rig) as desk:
        for path in _paths("POST"):
            assert (await desk.client.post(path, data={"x": "y"})).status_code == 403, path
            assert (await desk.client.post(path, data={"csrf": "00" * 64})).status_code == 403, path


async def test_every_page_has_a_strict_policy_and_is_kept_by_nobody(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        for path in _paths("GET"):
            answer = await desk.get(path)
            assert answer.status_code < 500, path
            assert answer.headers["cache-control"] in ("no-store", "private, no-store"), path
            if answer.headers.get("content-type", "").startswith("text/html"):
                assert is_our_policy(answer.headers["content-security-policy"]), path
                assert not re.search(r"<script(?![^>]* src=)|<style| style=| on[a-z]+=", answer.text), path


async def test_a_form_of_another_login_or_another_site_is_refused(rig: Rig) -> None:
    await rig.house.user("ann", "red", password=PASSWORD)
    async with open_desk(rig) as desk, open_desk(rig, "ann") as other:
        theirs, mine = await other.proof(), await desk.proof()
        fields = {"email": "evil@example.org"}
        for headers in (
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Origin": "http://test.evil.example"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
        ):
            answer = await desk.client.post("/me/email", data={"csrf": mine, **fields}, headers=headers)
            assert answer.status_code == 403, headers
        assert (await desk.client.post("/me/email", data={"csrf": theirs, **fields})).status_code == 403
        assert (await rig.house.services.users.get(rig.house.admin, "admin")).email == ""
        ours = {"Origin": "http://test", "X-CSRF-Token": mine}
        assert (await desk.client.post("/me/email", data=fields, headers=ours)).status_code == 303


def test_a_proof_is_another_text_each_time_and_good_for_one_login() -> None:
    proofs = {create_csrf_token("hf_one") for _ in range(20)}
    assert len(proofs) == 20
    for proof in proofs:
        check_csrf_token("hf_one", proof)
        with pytest.raises(Exception, match="before you logged in"):
            check_csrf_token("hf_two", proof)


# -- the cookie


@pytest.mark.parametrize(("scheme", "secure"), [("http", False), ("https", True)])
async def test_the_cookie_is_for_us_alone(rig: Rig, scheme: str, secure: bool) -> None:
    fields = {"user": "admin", "password": rig.house.admin_password}
    async with stranger(rig, f"{scheme}://test:8080") as client:
        answer = await client.post("/login", data=fields)
        (cookie,) = [line for line in answer.headers.get_list("set-cookie") if line.startswith("holdfast_8080=hf_l")]
        flags = {part.strip().lower() for part in cookie.split(";")[1:]}
        assert {"httponly", "samesite=lax", "path=/"} <= flags
        assert ("secure" in flags) is secure
        assert not any(flag.startswith("domain") for flag in flags)


async def test_a_cookie_that_somebody_planted_is_not_kept(rig: Rig) -> None:
    """Session fixation: whoever logs in gets a token that nobody knew before."""
    planted = await rig.house.services.tokens.login("admin", rig.house.admin_password, "evil")
    async with stranger(rig) as client:
        client.cookies.set("holdfast", planted.text)
        page = (await client.get("/me")).text
        proof = re.search(r'<meta name="csrf" content="([0-9a-f]+)">', page)
        assert proof
        fields = {"user": "admin", "password": rig.house.admin_password, "csrf": proof[1]}
        answer = await client.post("/login", data=fields)
        assert answer.status_code == 303
        assert planted.text not in answer.headers["set-cookie"]
    with pytest.raises(NotLoggedIn):
        await rig.house.services.tokens.resolve_actor(planted.text)


async def test_logout_ends_the_token_itself(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        token = desk.client.cookies["holdfast"]
        assert (await desk.post("/logout")).headers["location"] == "/login"
        assert "holdfast" not in desk.client.cookies
        with pytest.raises(NotLoggedIn):
            await rig.house.services.tokens.resolve_actor(token)


async def test_an_ended_login_is_forgotten_by_the_browser(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        await rig.house.services.tokens.delete_logins(rig.house.admin)
        answer = await desk.get("/me")
        assert answer.headers["location"] == "/login?next=/me"
        assert "holdfast" not in desk.client.cookies


async def test_the_cookie_opens_our_own_api_and_no_other(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        client, proof = desk.client, await desk.proof()
        assert (await client.get("/api/v1/me")).status_code == 200
        body = {"name": "t"}
        assert (await client.post("/api/v1/tokens", json=body)).status_code == 403
        assert (await client.post("/api/v1/tokens", json=body, headers={"X-CSRF-Token": "00"})).status_code == 403
        foreign = {"X-CSRF-Token": proof, "Origin": "http://evil.example"}
        assert (await client.post("/api/v1/tokens", json=body, headers=foreign)).status_code == 403
        assert (await client.post("/api/v1/tokens", json=body, headers={"X-CSRF-Token": proof})).status_code == 201
        assert (await client.get("/api/v1/me", headers={"Sec-Fetch-Site": "cross-site"})).status_code == 401
        assert (await client.get("/rest-server/api/v2/users")).status_code in (401, 403)
        query = {"query": "{ me { username } }"}
        for headers in ({}, {"X-CSRF-Token": proof}):
            told = (await client.post("/api/graphql", json=query, headers=headers)).text
            assert "admin" not in told
            assert "UNAUTHENTICATED" in told or "nauthor" in told or "ogin" in told or "oken" in told


# -- where one is sent


@pytest.mark.parametrize(
    "path",
    [
        "//evil.example",
        "https://evil.example",
        "http:evil.example",
        "javascript:alert(1)",
        "/\\evil.example",
        "\\\\evil.example",
        "/\t/evil.example",
        "/\n/evil.example",
        "///evil.example",
        "evil.example",
        "",
        "/ok\x00",
        "/\u202eok",
    ],
)
async def test_nobody_is_sent_elsewhere(rig: Rig, path: str) -> None:
    assert sanitize_path(path) == "/"
    async with stranger(rig) as client:
        fields = {"user": "admin", "password": rig.house.admin_password, "next": path}
        answer = await client.post("/login", data=fields)
        assert answer.headers["location"] == "/"
        assert (await client.get("/login", params={"next": path})).headers["location"] == "/"


@pytest.mark.parametrize("path", ["/", "/jobs?group=a,b&text=x%20y", "/jobs/a~b", "/groups/名", "/@evil.example"])
def test_our_own_pages_are_gone_to(path: str) -> None:
    assert sanitize_path(path).startswith(path[:2])


# -- files


def _lines(paths: list[Path], pattern: str) -> Iterator[str]:
    for path in paths:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if re.search(pattern, line):
                yield f"{path.name}:{number}: {line.strip()}"


def test_no_template_has_inline_scripts_styles_or_unescaped_text() -> None:
    assert TEMPLATES
    assert list(_lines(TEMPLATES, r"<script(?![^>]* src=)|<style\b|\sstyle=|\son[a-z]+=[\"']|javascript:")) == []
    assert list(_lines(TEMPLATES, r"\|\s*safe\b|autoescape false|Markup\(|hx-on|hx-vals=.js:|hx-headers=.js:")) == []
    assert list(_lines(TEMPLATES, r"(?:src|href|action)=[\"'](?:https?:)?//")) == []


def test_every_form_that_posts_has_its_proof() -> None:
    for path in TEMPLATES:
        for form in re.findall(r"<form\b[^>]*method=\"post\".*?</form>", path.read_text(), re.DOTALL):
            assert re.search(r"proof\(|name=\"csrf\"", form), f"{path.name}: {form[:120]}"


def test_no_script_makes_code_of_text() -> None:
    assert list(_lines(SCRIPTS, r"\beval\(|new Function\(|document\.write|insertAdjacentHTML")) == []


# -- errors


class Boom(Exception):
    pass


async def _fail(*_: Any) -> Any:
    raise Boom("secret detail <b>")


async def test_our_mistakes_are_a_page_with_their_id(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_desk(rig) as desk:
        monkeypatch.setattr(rig.house.services.keys, "list", _fail)
        answer = await desk.get("/me/keys")
        assert answer.status_code == 500
        assert answer.headers["x-request-id"] in answer.text
        assert "secret detail" not in answer.text
        assert is_our_policy(answer.headers["content-security-policy"])
        part = await desk.part("/me/keys")
        assert part.headers["hx-retarget"] == "#messages"
        assert "<html" not in part.text
        assert (
            "application/json"
            in (await desk.client.get("/api/v1/me/keys", headers={"Accept": "*/*"})).headers["content-type"]
        )


async def test_a_template_that_fails_is_no_loop(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> str:
        raise Boom

    monkeypatch.setattr(Visit, "render", fail)
    async with open_desk(rig) as desk:
        monkeypatch.setattr(Visit, "render_response", _fail)
        answer = await desk.get("/me")
        assert answer.status_code == 500
        assert answer.headers["x-request-id"] in answer.text


async def test_too_large_a_form_and_a_wrong_method_are_pages(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        large = await desk.client.post("/me/email", content=b"x" * 2_000_000)
        assert (large.status_code, "; the limit is" in text_of(large.text)) == (413, True)
        wrong = await desk.client.post("/me", data={})
        assert (wrong.status_code, "does not support this HTTP method" in text_of(wrong.text)) == (405, True)
        assert "GET" in wrong.headers["allow"]


async def test_nothing_at_an_address_leads_on(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        page = (await desk.get("/nowhere", headers={"Referer": "http://test/jobs?text=x"})).text
        assert 'href="/jobs?text=x"' in page
        assert 'action="/jobs"' in page
        evil = (await desk.get("/nowhere", headers={"Referer": "http://evil.example/jobs"})).text
        assert "evil.example" not in evil
    async with stranger(rig) as client:
        assert (await client.get("/nowhere")).status_code == 404


# -- sockets


class Wire:
    """A WebSocket by hand."""

    def __init__(self, rig: Rig, path: str, headers: dict[str, str]) -> None:
        self.sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.scope = {
            "type": "websocket",
            "asgi": {"version": "3.0"},
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(k.lower().encode(), v.encode()) for k, v in {"host": "test", **headers}.items()],
            "client": ("127.0.0.1", 1),
            "server": ("test", 80),
            "scheme": "ws",
            "subprotocols": [],
        }
        self._connected = False
        self.task = asyncio.create_task(rig.app(self.scope, self._receive, self.sent.put))  # type: ignore[arg-type]

    async def _receive(self) -> dict[str, Any]:
        if not self._connected:
            self._connected = True
            return {"type": "websocket.connect"}
        await asyncio.Event().wait()
        raise AssertionError

    async def until_closed(self) -> int:
        async with asyncio.timeout(20):
            while True:
                message = await self.sent.get()
                if message["type"] == "websocket.close":
                    return int(message["code"])

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


def _cookie(desk: Desk) -> dict[str, str]:
    return {"cookie": f"holdfast={desk.client.cookies['holdfast']}", "origin": "http://test"}


async def test_no_other_site_opens_a_socket(rig: Rig) -> None:
    assert _sockets()
    async with open_desk(rig) as desk:
        cookie = {"cookie": _cookie(desk)["cookie"]}
        for path in _sockets():
            for headers in (cookie, {**cookie, "origin": "http://evil.example"}, {**cookie, "origin": "null"}):
                wire = Wire(rig, path, headers)
                assert await wire.until_closed() == sockets.REFUSED_CODE, (path, headers)
                await wire.end()
            nobody = Wire(rig, path, {"origin": "http://test"})
            assert await nobody.until_closed() == sockets.LOGGED_OUT_CODE, path
            await nobody.end()


@pytest.mark.parametrize("how", ["logout", "password"])
async def test_a_login_that_ends_closes_its_sockets(rig: Rig, how: str) -> None:
    await rig.house.user("ann", "red", password=PASSWORD)
    async with open_desk(rig, "ann") as desk:
        wire = Wire(rig, "/live/jobs", _cookie(desk))
        async with asyncio.timeout(20):
            assert (await wire.sent.get())["type"] == "websocket.accept"
        if how == "logout":
            await desk.post("/logout")
        else:
            await rig.house.services.users.set_password(rig.house.admin, "ann", "another good one")
        assert await wire.until_closed() == sockets.LOGGED_OUT_CODE
        await wire.end()


@pytest.mark.parametrize(
    "text", ["//[", "http://[", "/a\ud800", "//evil.example", "/\\evil.example", "javascript:alert(1)"]
)
async def test_an_address_that_is_none_of_ours_leads_home(rig: Rig, text: str) -> None:
    assert sanitize_path(text) == "/"
    async with open_desk(rig) as desk:
        answer = await desk.client.get("/login", params={"next": text.encode("utf-8", "replace")})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        answer = await desk.get("/jobs/job-none", headers={"Referer": "http://["})
        assert answer.status_code == 404


@pytest.mark.parametrize(
    "cookie", ["[" * 3900, '["\\ud800", ""]', '["a", "//["]', "{}", '{"a": 1, "b": 2}', "[1, 2]", '[["x"], "/"]']
)
async def test_a_message_that_another_server_of_the_host_set_stops_no_page(rig: Rig, cookie: str) -> None:
    async with open_desk(rig) as desk:
        answer = await desk.get("/me", headers={"Cookie": _also(desk, f"holdfast_said={cookie.encode().hex()}")})
        assert answer.status_code == 200
        assert "x" not in re.findall(r'class="notification good">([^<]*)', answer.text)


def _also(desk: Desk, cookie: str) -> str:
    return "; ".join([*(f"{each.name}={each.value}" for each in desk.client.cookies.jar), cookie])

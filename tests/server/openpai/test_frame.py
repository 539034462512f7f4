"""What holds for every address of OpenPAI's REST server."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import Response

from holdfast.server.openpai import endpoints
from holdfast.server.openpai.call import Call
from holdfast.server.openpai.endpoints import AccessLevel, Endpoint, Support, endpoint
from holdfast.server.openpai.errors import PaiError
from holdfast.server.openpai.forms import MAX_FIELDS, parse_form
from holdfast.server.openpai.rate_limits import MAX_WINDOWS, FixedWindowCounter, RateLimitedAction
from holdfast.server.openpai.routes import EndpointRoutes, accepts_job_file
from holdfast.server.responses import respond_json
from holdfast.services.client_network import get_client_network
from holdfast.store.errors import StoreError

from .job_files import job
from .pai import Pai, open_pai, refused

pytestmark = pytest.mark.anyio


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses that only these tests have."""
    monkeypatch.setattr(endpoints, "ENDPOINTS", [])

    @endpoint("GET", "/v2/try/{name}", who=AccessLevel.USER)
    @endpoint("GET", "/v2/try/reader/{name}", who=AccessLevel.READER)
    @endpoint("GET", "/v2/try/person/{name}", who=AccessLevel.PERSON)
    @endpoint("GET", "/v2/try/admin/{name}", who=AccessLevel.ADMIN)
    @endpoint("GET", "/v2/try/list/{name}", limited=RateLimitedAction.LIST)
    async def tell(call: Call) -> Response:
        return respond_json({"name": call.get_path_text("name"), "actor": call.actor.name})

    @endpoint("POST", "/v2/try/body", who=AccessLevel.ANYONE)
    async def echo(call: Call) -> Response:
        return respond_json(await call.read_json_object())

    @endpoint("GET", "/v2/try/large/{size}", who=AccessLevel.ANYONE)
    async def much(call: Call) -> Response:
        return Response("x" * (call.get_path_number("size") or 0), media_type="text/plain")

    @endpoint("GET", "/v2/try/fail/{how}", who=AccessLevel.ANYONE)
    async def fail(call: Call) -> Response:
        raise StoreError("the disk is full") if call.get_path_text("how") == "store" else RuntimeError("secret inside")

    monkeypatch.setattr("holdfast.server.openpai.app.ENDPOINTS", endpoints.ENDPOINTS)


@pytest.fixture
async def trying(tried: None, tmp_path: Path) -> Any:
    async with open_pai(tmp_path / "home") as opened:
        yield opened


# -- who asks


@pytest.mark.parametrize("kind", ["", "reader/", "person/", "admin/"])
async def test_without_a_token_one_is_a_guest_and_with_a_wrong_one_nobody(trying: Pai, kind: str) -> None:
    text = "Guest is not allowed to do this operation."
    refused(await trying.guest.get(f"/v2/try/{kind}x"), 401, "UnauthorizedUserError", text)
    basic = base64.b64encode(b"alice:secret").decode()
    for header in ("Bearer nonsense", "Bearer undefined", f"Basic {basic}", "Basic ???", "Digest x"):
        answered = await trying.guest.get(f"/v2/try/{kind}x", headers={"Authorization": header})
        refused(answered, 401, "UnauthorizedUserError", "Your token is invalid.")


async def test_who_may_ask(trying: Pai) -> None:
    program = await trying.application()
    applications = "Applications are not allowed to do this operation."
    for path in ("person/x", "admin/x"):
        refused(await program.get(f"/v2/try/{path}"), 403, "ForbiddenUserError", applications)
    others = "Non-admin is not allow to do this operation."
    refused(await trying.user.get("/v2/try/admin/x"), 403, "ForbiddenUserError", others)
    for client, paths in (
        (program, ("x", "reader/x")),
        (trying.user, ("x", "reader/x", "person/x")),
        (trying.admin, ("x", "reader/x", "person/x", "admin/x")),
    ):
        for path in paths:
            assert (await client.get(f"/v2/try/{path}")).status_code == 200, path


async def test_a_user_with_an_application_token_as_password(trying: Pai) -> None:
    token = (await trying.house.services.tokens.create(trying.alice, name="application")).text
    for user, status in (("alice", 200), ("admin", 401), ("", 401)):
        pair = base64.b64encode(f"{user}:{token}".encode()).decode()
        answered = await trying.guest.get("/v2/try/x", headers={"Authorization": f"Basic {pair}"})
        assert answered.status_code == status, user


async def test_a_user_with_a_token_as_password_sends_large_jobs(pai: Pai) -> None:
    token = (await pai.house.services.tokens.create(pai.alice, name="application")).text
    text = job(description="and more " * 3_000)
    for password, status in ((token, 202), ("wrong", 401)):
        pair = base64.b64encode(f"alice:{password}".encode()).decode()
        headers = {"Authorization": f"Basic {pair}", "Content-Type": "text/yaml"}
        answered = await pai.guest.post("/v2/jobs", content=text, headers=headers)
        assert answered.status_code == status, answered.text


async def test_anyone_reads_where_the_admin_says_so(tried: None, tmp_path: Path) -> None:
    async with open_pai(tmp_path / "home", {"access": {"reading": "anyone"}}) as pai:
        assert (await pai.guest.get("/v2/try/reader/x")).json() == {"name": "x", "actor": ""}
        refused(await pai.guest.get("/v2/try/x"), 401, "UnauthorizedUserError")
        bad = await pai.guest.get("/v2/try/reader/x", headers={"Authorization": "Bearer nonsense"})
        refused(bad, 401, "UnauthorizedUserError", "Your token is invalid.")


# -- addresses


async def test_unknown_addresses_and_methods(pai: Pai) -> None:
    for method, path in (("GET", "/v2/nothing?a=b"), ("GET", "/v3/jobs"), ("PATCH", "/v2/info"), ("POST", "/v2/info")):
        text = f"API /api{path} is not found."
        refused(await pai.user.request(method, path), 404, "NoApiError", text)
    elsewhere = (await pai.user.post("/v1/jobs", json={})).json()
    assert elsewhere["code"] == "NoApiError"
    assert elsewhere["message"].endswith("POST /api/v1/user/<user>/jobs.")
    outside = await pai.user.get("http://test/rest-server/elsewhere")
    refused(outside, 404, "NoApiError", "API /elsewhere is not found.")


async def test_trailing_slashes_and_names_decoded_once(trying: Pai) -> None:
    for path, name in (("x/", "x"), ("a%20b", "a b"), ("a%252Fb", "a%2Fb"), ("a%2Fb", "a/b"), ("%C3%A9", "é")):
        assert (await trying.user.get(f"/v2/try/{path}")).json()["name"] == name


async def test_heads_and_options(pai: Pai) -> None:
    head = await pai.guest.head("/v2/info")
    assert (head.status_code, head.content) == (200, b"")
    options = await pai.guest.options("/v2/info")
    assert options.status_code == 204


async def test_the_gateway_says_it_is_ready(pai: Pai) -> None:
    found = await pai.guest.get("http://test/healthz")
    assert (found.status_code, found.text) == (200, "Pylon ready.")
    assert found.headers["content-type"].startswith("text/plain")


def test_plain_words_come_before_names() -> None:
    async def nothing(call: Call) -> Response:
        raise NotImplementedError

    def made(path: str) -> Endpoint:
        return Endpoint(
            method="GET", path=path, access_level=AccessLevel.USER, support=Support.SUPPORTED, note="", handler=nothing
        )

    routes = EndpointRoutes([made("/t/{token}"), made("/t/check"), made("/g/{group}/more/{rest:path}")])

    def find(path: str) -> tuple[str, dict[str, str]] | None:
        found = routes.find_endpoint("GET", path)
        return None if found is None else (found[0].path, found[1])

    assert find("/api/t/check") == ("/t/check", {})
    assert find("/api/t/x") == ("/t/{token}", {"token": "x"})
    assert find("/api/g/a/more/b/c") == ("/g/{group}/more/{rest:path}", {"group": "a", "rest": "b/c"})
    assert find("/api/g/a/more") is None
    assert find("/api/t//") is None


# -- what went wrong


async def test_our_mistakes_stay_inside(trying: Pai) -> None:
    answered = await trying.guest.get("/v2/try/fail/any")
    said = refused(answered, 500, "UnknownError")
    assert answered.headers["x-request-id"] in said
    assert "secret" not in answered.text
    assert answered.headers["access-control-allow-origin"] == "*"


async def test_a_store_that_fails(trying: Pai) -> None:
    assert "disk" not in refused(await trying.guest.get("/v2/try/fail/store"), 503, "UnknownError")


# -- bodies


@pytest.mark.parametrize(
    ("kind", "sent", "read"),
    [
        ("application/json", '{"a": [1]}', {"a": [1]}),
        ("text/plain", '{"a": [1]}', {"a": [1]}),
        ("text/plain;charset=UTF-8", '{"a": [1]}', {"a": [1]}),
        ("application/x-www-form-urlencoded", "a[0]=1&b=x+y%21", {"a": ["1"], "b": "x y!"}),
        ("application/x-www-form-urlencoded", '{"a": 1}', {"a": 1}),
        ("application/json", "", {}),
        ("", '{"a": 1}', {"a": 1}),
    ],
)
async def test_bodies(trying: Pai, kind: str, sent: str, read: Any) -> None:
    headers = {"Content-Type": kind} if kind else {}
    assert (await trying.guest.post("/v2/try/body", content=sent, headers=headers)).json() == read


@pytest.mark.parametrize("sent", [b"{", b"[1]", b"3", b'{"a": NaN}', b"\xff", b"[" * 10_000, b'{"a":' + b"9" * 9999])
async def test_bodies_that_are_none(trying: Pai, sent: bytes) -> None:
    refused(await trying.guest.post("/v2/try/body", content=sent), 400, "InvalidParametersError")


async def test_bodies_that_are_too_large(trying: Pai) -> None:
    async def pieces() -> Any:
        for _ in range(3):
            yield b" " * 1024 * 1024

    for content in (b" " * (1024 * 1024 + 1), pieces()):
        answered = await trying.guest.post("/v2/try/body", content=content)
        refused(answered, 413, "InvalidParametersError")
        assert answered.headers["access-control-allow-origin"] == "*"


def test_where_a_job_may_be_sent() -> None:
    for method, path in (
        ("POST", "/v2/jobs"), ("POST", "/v2/jobs/"), ("POST", "/v1/user/a/jobs"), ("PUT", "/v1/user/a/jobs/b"),
    ):  # fmt: skip
        assert accepts_job_file(method, f"/rest-server/api{path}")
    for method, path in (("PUT", "/v2/users"), ("POST", "/v2/jobs/a~b"), ("PUT", "/v1/user/a/jobs/b/executionType")):
        assert not accepts_job_file(method, f"/rest-server/api{path}")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("", {}),
        ("a=1&b=2", {"a": "1", "b": "2"}),
        ("a[b][c]=x&a[b][d]=y", {"a": {"b": {"c": "x", "d": "y"}}}),
        ("data[virtualCluster][]=a&data[virtualCluster][]=b", {"data": {"virtualCluster": ["a", "b"]}}),
        ("a[1]=y&a[0]=x", {"a": ["x", "y"]}),
        ("a[999999999]=x", {"a": ["x"]}),
        ("a[99999999999999999999]=x", {"a": {"99999999999999999999": "x"}}),
        ("a=1&a=2", {"a": ["1", "2"]}),
        ("a[b=1", {"a[b": "1"}),
        ("a%5Bb%5D=%26", {"a": {"b": "&"}}),
        ("a", {"a": ""}),
    ],
)
def test_forms(text: str, read: Any) -> None:
    assert parse_form(text) == read


@pytest.mark.parametrize("text", ["a" + "[b]" * 30 + "=x", "a=1&" * (MAX_FIELDS + 1), "a=1&a[b][c]=2"])
def test_forms_beyond_reason(text: str) -> None:
    with pytest.raises(PaiError):
        parse_form(text)


# -- other origins


async def test_pages_of_any_origin_may_ask_without_cookies(pai: Pai) -> None:
    asked = await pai.guest.options(
        "/v2/users",
        headers={
            "Origin": "http://elsewhere",
            "Access-Control-Request-Method": "PUT",
            "Access-Control-Request-Headers": "authorization,x-mine",
        },
    )
    assert asked.status_code == 204
    assert asked.headers["access-control-allow-origin"] == "*"
    assert "PUT" in asked.headers["access-control-allow-methods"]
    assert asked.headers["access-control-allow-headers"] == "authorization,x-mine"
    found = await pai.guest.get("/v2/info", headers={"Origin": "http://elsewhere"})
    assert found.headers["access-control-allow-origin"] == "*"
    assert not [name for name in (*asked.headers, *found.headers) if name.endswith("allow-credentials")]


async def test_our_own_api_is_not_opened(pai: Pai) -> None:
    found = await pai.guest.get("http://test/api/v1/health", headers={"Origin": "http://elsewhere"})
    assert "access-control-allow-origin" not in found.headers


# -- size


@pytest.mark.parametrize(("size", "smaller"), [(500, False), (5000, True), (300_000, True)])
async def test_large_answers_are_made_smaller(trying: Pai, size: int, smaller: bool) -> None:
    found = await trying.guest.get(f"/v2/try/large/{size}", headers={"Accept-Encoding": "gzip"})
    assert found.text == "x" * size
    assert (found.headers.get("content-encoding") == "gzip") is smaller
    plain = await trying.guest.get(f"/v2/try/large/{size}", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert len(plain.content) == size


# -- how often


async def test_too_many_requests(tried: None, tmp_path: Path) -> None:
    settings = {"openpai": {"requests_per_minute": 4, "lists_per_minute": 1}}
    async with open_pai(tmp_path / "home", settings) as pai:
        first = await pai.user.get("/v2/try/x")
        assert (first.headers["x-ratelimit-limit"], first.headers["x-ratelimit-remaining"]) == ("4", "3")
        assert int(first.headers["x-ratelimit-reset"]) > 0
        listed = await pai.user.get("/v2/try/list/x")
        assert (listed.headers["x-ratelimit-limit"], listed.headers["x-ratelimit-remaining"]) == ("1", "0")
        _too_many(await pai.user.get("/v2/try/list/x"))
        assert (await pai.user.get("/v2/try/x")).status_code == 200
        _too_many(await pai.user.get("/v2/try/x"))
        assert (await pai.admin.get("/v2/try/list/x")).status_code == 200  # counted by user


def _too_many(answered: httpx.Response) -> None:
    assert answered.status_code == 429
    assert answered.text == "Too many requests, please try again later."
    assert answered.headers["content-type"].startswith("text/plain")
    assert answered.headers["x-ratelimit-remaining"] == "0"
    assert int(answered.headers["retry-after"]) >= 1


async def test_no_limit(tried: None, tmp_path: Path) -> None:
    settings = {"openpai": {"requests_per_minute": 0, "lists_per_minute": 0}}
    async with open_pai(tmp_path / "home", settings) as pai:
        found = await pai.user.get("/v2/try/list/x")
        assert found.status_code == 200
        assert "x-ratelimit-limit" not in found.headers


def test_a_window_ends_and_another_begins() -> None:
    now = [1000.0]
    windows = FixedWindowCounter(2, 60.0, lambda: now[0])
    assert [windows.count_hit("a").remaining for _ in range(3)] == [1, 0, -1]  # type: ignore[union-attr]
    assert windows.count_hit("b").remaining == 1  # type: ignore[union-attr]
    now[0] += 59
    assert windows.count_hit("a").remaining == -2  # type: ignore[union-attr]
    now[0] += 1
    assert windows.count_hit("a").remaining == 1  # type: ignore[union-attr]
    now[0] -= 500  # somebody set the clock back
    assert windows.count_hit("a").remaining == 1  # type: ignore[union-attr]


def test_many_addresses_do_not_fill_the_memory() -> None:
    windows = FixedWindowCounter(2, 60.0, lambda: 1000.0)
    for number in range(MAX_WINDOWS + 50):
        windows.count_hit(str(number))
    assert len(windows._windows) == MAX_WINDOWS
    assert get_client_network("2001:db8::1") == get_client_network("2001:db8::ffff")
    assert get_client_network("2001:db8::1") != get_client_network("2001:db8:0:1::1")
    assert get_client_network("10.0.0.1") != get_client_network("10.0.0.2")
    assert get_client_network("::ffff:10.0.0.1") != get_client_network("::ffff:10.0.0.2")

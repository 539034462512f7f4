from __future__ import annotations

import logging
import re

import pytest

from holdfast.server.request_middleware import MAX_HEADERS_SIZE
from holdfast.services.installation.status import Installation

from .rig import Rig, begin, error_of

pytestmark = pytest.mark.anyio

HELLO = b"name: hello\ncommand: echo hello\n"


async def test_every_answer_has_an_id_and_safe_headers(rig: Rig) -> None:
    for path in ("/", "/api/docs", "/api/v1/version", "/api/v1/jobs", "/nowhere", "/api/v1/jobs/none"):
        response = await rig.client.get(path)
        assert re.fullmatch(r"[0-9a-f]{16}", response.headers["x-request-id"])
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["x-frame-options"] == "DENY"
        assert response.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in response.headers["content-security-policy"]


async def test_sane_request_ids_are_kept(rig: Rig) -> None:
    assert (await rig.get("/me", headers={"X-Request-Id": "abc-1.2:3_x"})).headers["x-request-id"] == "abc-1.2:3_x"
    for odd in ("", "x" * 65, "a b", "<script>", "a\tb"):
        assert (await rig.get("/me", headers={"X-Request-Id": odd})).headers["x-request-id"] != odd


async def test_unknown_addresses_and_methods_have_the_one_shape(rig: Rig) -> None:
    assert error_of(await rig.get("/nowhere"), 404)["code"] == "not_found"
    assert error_of(await rig.client.get("/api/v1/jobs/"), 404)["code"] == "not_found"
    response = await rig.ask("DELETE", "/jobs")
    error_of(response, 405)
    assert set(response.headers["allow"].split(", ")) == {"GET", "HEAD", "OPTIONS", "POST"}
    error_of(await rig.ask("BREW", "/jobs"), 405)
    error_of(await rig.client.request("POST", "/"), 405)


async def test_options_says_what_is_allowed(rig: Rig) -> None:
    response = await rig.ask("OPTIONS", "/jobs/x/stop")
    assert (response.status_code, response.content) == (204, b"")
    assert response.headers["allow"] == "OPTIONS, POST"
    error_of(await rig.ask("OPTIONS", "/nowhere"), 404)


async def test_head_is_get_without_the_body(rig: Rig) -> None:
    for path in ("/version", "/jobs", "/me"):
        got, headed = await rig.get(path), await rig.ask("HEAD", path)
        assert (headed.status_code, headed.content) == (got.status_code, b"")
        assert headed.headers["content-length"] == got.headers["content-length"]


async def test_long_headers_are_refused_before_they_are_looked_through(rig: Rig) -> None:
    for path in ("/version", "/jobs", "/nowhere"):
        response = await rig.get(path, headers={"Cookie": "a=b; " * (MAX_HEADERS_SIZE // 5)})
        assert error_of(response, 413)["code"] == "too_large"
    assert (await rig.get("/version", headers={"Cookie": "a=b; " * (MAX_HEADERS_SIZE // 10)})).status_code == 200


async def test_large_bodies_are_refused_by_what_they_say(rig: Rig) -> None:
    response = await rig.post("/jobs", content=b"x" * (64 * 1024 + 1))
    assert error_of(response, 413)["code"] == "too_large"
    assert response.headers["connection"] == "close"


async def test_large_bodies_are_refused_as_they_come(rig: Rig) -> None:
    """Without a length, or with one that lies."""
    for path in ("/jobs", "/jobs/plan", "/login", "/jobs/stop", "/users"):
        for headers in ({}, {"content-length": "5"}, {"content-length": "-5"}, {"content-length": "9" * 50}):
            parts = [b" " * 1_000_000 for _ in range(30)]
            given = {"content-type": "application/json", **headers}
            exchange = begin(rig, path, method="POST", body=parts, headers=given)
            await exchange.finish()
            assert exchange.status == 413, exchange.received
            assert len(parts) > 10  # it did not read on to the end


@pytest.mark.parametrize("token", ["", "Bearer hf_nobody_has_it"])
@pytest.mark.parametrize(
    "path", ["/api/v1/login", "/api/v1/schedules", "/oidc/auth-flow/login", "/oidc/auth-flow/exchange"]
)
async def test_little_is_read_of_whoever_is_not_logged_in(rig: Rig, path: str, token: str) -> None:
    """Many could send much at once, and slowly."""
    parts = [b" " * 10_000 for _ in range(5)]
    headers = {"content-type": "application/json", "authorization": token}
    exchange = begin(rig, "", method="POST", body=parts, headers=headers)
    exchange.scope["path"] = path
    await exchange.finish()
    assert exchange.status == 413, exchange.received
    assert b"without a login" in exchange.received


async def test_much_is_read_of_whoever_is_logged_in(rig: Rig) -> None:
    asked = {"job": HELLO.decode() + "# and more\n" * 3_000, "recurrence": {"kind": "daily"}}
    assert (await rig.post("/schedules", json=asked)).status_code == 201


async def test_a_client_that_asks_before_it_sends_is_answered_at_once(rig: Rig) -> None:
    parts = [b" " * 100_000]
    headers = {"content-length": "100000", "expect": "100-continue"}
    exchange = begin(rig, "/jobs", method="POST", body=parts, headers=headers)
    await exchange.finish()
    assert (exchange.status, len(parts)) == (413, 1)


async def test_large_images_are_refused_as_they_come(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(name: str, file: object) -> None:
        raise AssertionError("a body that is too large was handed on")

    monkeypatch.setattr(rig.house.engine, "import_image", never, raising=False)
    monkeypatch.setattr(rig.house.engine, "remove_image", never, raising=False)
    parts = [b" " * 100_000 for _ in range(30)]
    exchange = begin(rig, "/images", query="name=big", method="POST", body=parts)
    await exchange.finish()
    assert exchange.status == 413
    assert list((rig.house.home / "uploads").iterdir()) == []


async def test_a_client_that_leaves_while_sending_submits_nothing(rig: Rig) -> None:
    exchange = begin(rig, "/jobs", method="POST", body=[HELLO, b""])
    exchange.body = [HELLO, b"more", b"even more"]
    original = exchange.receive

    async def torn() -> dict[str, object]:
        if len(exchange.body) == 1:
            return {"type": "http.disconnect"}
        return await original()

    exchange.task.cancel()  # type: ignore[union-attr]
    await rig.app(exchange.scope, torn, exchange.send)  # type: ignore[arg-type]
    assert exchange.status == 0
    assert (await rig.get("/jobs")).json()["items"] == []


async def test_our_mistakes_stay_in_our_log(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(self: Installation) -> None:
        raise RuntimeError("a secret detail")

    monkeypatch.setattr(Installation, "check_health", broken)
    with caplog.at_level(logging.ERROR):
        response = await rig.get("/health", headers={"X-Request-Id": "find-me"})
    error = error_of(response, 500)
    assert (error["code"], error["message"]) == ("internal", "Internal server error")
    assert "secret" not in response.text
    (record,) = [record for record in caplog.records if record.name.startswith("holdfast.server")]
    assert record.request_id == "find-me"  # type: ignore[attr-defined]
    assert record.exc_info is not None


async def test_query_tricks_do_no_harm(rig: Rig) -> None:
    for query in ("a=1&" * 5000, "%", "%zz=%zz", "=&=&", "limit=1&limit=2", "\u00e9=1", "text=%00"):
        response = await rig.client.get(f"/api/v1/jobs?{query}")
        assert response.status_code in (200, 400)
        response = await rig.client.post(f"/api/v1/jobs?{query}", content=b"name: x\n")
        error_of(response, 400)

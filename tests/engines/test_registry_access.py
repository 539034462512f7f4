"""Access to registries: tokens, passwords, TLS, redirects, mirrors; and that credentials stay where they belong."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest

from holdfast.engines.base import PullError, PullFailure, RegistryCredentials
from holdfast.engines.embedded.images import registry as registry_module
from holdfast.engines.embedded.images.image_store import ImageStore
from holdfast.engines.embedded.images.pulling import ImagePuller
from holdfast.engines.embedded.images.registry_http import parse_retry_time
from holdfast.engines.embedded.images.registry_options import RegistryOptions

from .pulls import ALICE, BASE, expect_failure
from .registries import PASSWORD, USERNAME, FakeRegistry, RealRegistry, Reply, Request, build_image, start_registry

BOB = RegistryCredentials(username="bob", password="wrong")
BASIC = "Basic " + base64.b64encode(f"{USERNAME}:{PASSWORD}".encode()).decode()


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "_RETRY_INTERVAL", 0.01)


Scenario = Callable[[FakeRegistry, FakeRegistry, Callable[..., Awaitable[Any]]], Awaitable[None]]


def run_scenario(tmp_path: Path, scenario: Scenario, *, insecure: bool = True, **options: Any) -> None:
    """Run it with two registries in memory; the first has an image `app:1`. Its last argument pulls."""

    async def run() -> None:
        async with FakeRegistry().serve() as first, FakeRegistry().serve() as second:
            first.add_image("app:1", build_image([BASE]))
            hosts = frozenset({first.host, second.host}) if insecure else frozenset[str]()
            mirrors = {first.host: (second.host,)} if options.pop("mirrored", False) else {}
            puller = ImagePuller(ImageStore(tmp_path / "images"), RegistryOptions(insecure=hosts, mirrors=mirrors))

            async def pull(credentials: RegistryCredentials | None = None, name: str = "app:1") -> Any:
                return await puller.pull_image(f"{first.host}/{name}", credentials)

            try:
                await scenario(first, second, pull)
            finally:
                await puller.close()

    asyncio.run(run())


# -- the real registry


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRegistry]:
    with start_registry(tmp_path_factory.mktemp("registry") / "secured", tls=True, password=True) as started:
        started.push_image("team/app:1", build_image([BASE]))
        yield started


def pull_from_real(
    tmp_path: Path, registry: RealRegistry, credentials: RegistryCredentials | None, insecure: bool
) -> None:
    async def run() -> None:
        options = RegistryOptions(insecure=frozenset({registry.host}) if insecure else frozenset())
        puller = ImagePuller(ImageStore(tmp_path / "images"), options)
        try:
            await puller.pull_image(f"{registry.host}/team/app:1", credentials)
        finally:
            await puller.close()

    asyncio.run(run())


def test_a_password_and_a_trusted_certificate_give_access(
    tmp_path: Path, secured: RealRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(secured.certificate))
    pull_from_real(tmp_path, secured, ALICE, insecure=False)


def test_an_untrusted_certificate_is_refused_unless_a_setting_allows_it(tmp_path: Path, secured: RealRegistry) -> None:
    with pytest.raises(PullError, match="certificate") as caught:
        pull_from_real(tmp_path, secured, ALICE, insecure=False)
    assert caught.value.kind == PullFailure.UNREACHABLE
    pull_from_real(tmp_path, secured, ALICE, insecure=True)


@pytest.mark.parametrize("credentials", [None, BOB])
def test_no_access_is_told_apart(
    tmp_path: Path, secured: RealRegistry, credentials: RegistryCredentials | None
) -> None:
    with pytest.raises(PullError) as caught:
        pull_from_real(tmp_path, secured, credentials, insecure=True)
    assert caught.value.kind == PullFailure.DENIED
    assert not caught.value.is_transient
    assert ("your secret" in caught.value.message) == (credentials is not None)
    assert PASSWORD not in repr(ALICE)


# -- tokens


def ask_for_token(registry: FakeRegistry, tokens: FakeRegistry) -> None:
    """Let `registry` accept tokens of `tokens`, which gives one to Alice and a useless one to others."""

    def answer(request: Request) -> Reply | None:
        if request.headers.get("authorization") == "Bearer good":
            return None
        header = f'Bearer realm="http://{tokens.host}/token",service="test",scope="repository:other:push"'
        return Reply(401, {"WWW-Authenticate": header})

    def give_token(request: Request) -> Reply | None:
        good = request.headers.get("authorization") == BASIC
        return Reply(200, {}, json.dumps({"token": "good" if good else "anonymous"}).encode())

    registry.hook, tokens.hook = answer, give_token


def test_a_token_is_fetched_once_with_the_credentials_and_for_this_repository_only(tmp_path: Path) -> None:
    async def scenario(first: FakeRegistry, second: FakeRegistry, pull: Callable[..., Awaitable[Any]]) -> None:
        ask_for_token(first, second)
        await pull(ALICE)
        assert [parse_qs(request.query) for request in second.requests] == [
            {"service": ["test"], "scope": ["repository:app:pull"]}
        ]
        assert BASIC not in {request.headers.get("authorization") for request in first.requests}

    run_scenario(tmp_path, scenario)


def test_a_token_without_access_is_denied(tmp_path: Path) -> None:
    async def scenario(first: FakeRegistry, second: FakeRegistry, pull: Callable[..., Awaitable[Any]]) -> None:
        ask_for_token(first, second)
        await expect_failure(pull(), PullFailure.DENIED)
        await expect_failure(pull(BOB), PullFailure.DENIED)

    run_scenario(tmp_path, scenario)


@pytest.mark.parametrize("body", [b"", b"[]", b'{"token": 5}', b'{"token": "a\\nb"}', b"{" * 5000, b"x" * 2_000_000])
def test_a_hostile_token_server_is_refused(tmp_path: Path, body: bytes) -> None:
    async def scenario(first: FakeRegistry, second: FakeRegistry, pull: Callable[..., Awaitable[Any]]) -> None:
        ask_for_token(first, second)
        second.hook = lambda request: Reply(200, {}, body)
        await expect_failure(pull(ALICE), PullFailure.INVALID)

    run_scenario(tmp_path, scenario)


@pytest.mark.parametrize("realm", ["http://127.0.0.1:1/token", "file:///etc/passwd", "", "http://[", "//x"])
def test_a_token_server_must_be_safe_to_ask(tmp_path: Path, realm: str) -> None:
    async def scenario(first: FakeRegistry, second: FakeRegistry, pull: Callable[..., Awaitable[Any]]) -> None:
        first.hook = lambda request: Reply(401, {"WWW-Authenticate": f'Bearer realm="{realm}",service="x"'})
        await expect_failure(pull(ALICE), PullFailure.UNREACHABLE)

    run_scenario(tmp_path, scenario)


# -- where credentials go


def test_a_blob_store_gets_the_redirect_but_not_the_credentials(tmp_path: Path) -> None:
    async def scenario(first: FakeRegistry, second: FakeRegistry, pull: Callable[..., Awaitable[Any]]) -> None:
        def answer(request: Request) -> Reply | None:
            if request.headers.get("authorization") != BASIC:
                return Reply(401, {"WWW-Authenticate": 'Basic realm="x"'})
            if "/blobs/" in request.path:
                return Reply(307, {"Location": f"http://user:pw@{second.host}{request.path}?signature=1"})
            return None

        first.hook = answer
        second.blobs = first.blobs
        await pull(ALICE)
        assert second.count("GET", "/blobs/") == 2
        assert not any("authorization" in request.headers for request in second.requests)

    run_scenario(tmp_path, scenario)


def test_a_blob_store_that_asks_for_the_password_does_not_get_it(tmp_path: Path) -> None:
    async def scenario(first: FakeRegistry, second: FakeRegistry, pull: Callable[..., Awaitable[Any]]) -> None:
        first.hook = lambda request: Reply(302, {"Location": f"http://{second.host}{request.path}"})
        second.hook = lambda request: Reply(401, {"WWW-Authenticate": 'Basic realm="x"'})
        await expect_failure(pull(ALICE), PullFailure.DENIED)
        assert not any("authorization" in request.headers for request in second.requests)

    run_scenario(tmp_path, scenario)


@pytest.mark.parametrize("location", ["http://127.0.0.1:1/x", "file:///etc/passwd", "ftp://x/", "@loop"])
def test_a_redirect_to_an_unsafe_address_is_refused(tmp_path: Path, location: str) -> None:
    async def scenario(first: FakeRegistry, second: FakeRegistry, pull: Callable[..., Awaitable[Any]]) -> None:
        first.hook = lambda request: Reply(302, {"Location": location.replace("@loop", request.path)})
        await expect_failure(pull(), PullFailure.UNREACHABLE)

    run_scenario(tmp_path, scenario)


def test_plain_http_is_never_used_for_other_registries(tmp_path: Path) -> None:
    async def scenario(first: FakeRegistry, second: FakeRegistry, pull: Callable[..., Awaitable[Any]]) -> None:
        await expect_failure(pull(ALICE), PullFailure.UNREACHABLE)
        assert first.requests == []

    run_scenario(tmp_path, scenario, insecure=False)


def test_cookies_of_a_registry_are_not_sent_back(tmp_path: Path) -> None:
    async def scenario(first: FakeRegistry, second: FakeRegistry, pull: Callable[..., Awaitable[Any]]) -> None:
        def answer(request: Request) -> Reply:
            reply = first.reply_normally(request)
            reply.headers["Set-Cookie"] = "session=alice; Path=/"
            return reply

        first.hook = answer
        await pull(ALICE)
        assert not any("cookie" in request.headers for request in first.requests)

    run_scenario(tmp_path, scenario)


# -- mirrors


def test_a_mirror_is_asked_first_and_without_credentials(tmp_path: Path) -> None:
    async def scenario(first: FakeRegistry, second: FakeRegistry, pull: Callable[..., Awaitable[Any]]) -> None:
        second.manifests, second.blobs = first.manifests, first.blobs
        await pull(ALICE)
        assert first.requests == []
        assert not any("authorization" in request.headers for request in second.requests)

    run_scenario(tmp_path, scenario, mirrored=True)


@pytest.mark.parametrize("status", [401, 404, 429, 500, 302])
def test_the_registry_itself_serves_what_its_mirror_does_not(tmp_path: Path, status: int) -> None:
    async def scenario(first: FakeRegistry, second: FakeRegistry, pull: Callable[..., Awaitable[Any]]) -> None:
        second.hook = lambda request: Reply(status)
        await pull()
        assert first.count("GET", "/blobs/") == 2

    run_scenario(tmp_path, scenario, mirrored=True)


def test_a_mirror_that_sends_other_data_is_dropped(tmp_path: Path) -> None:
    async def scenario(first: FakeRegistry, second: FakeRegistry, pull: Callable[..., Awaitable[Any]]) -> None:
        second.manifests = first.manifests
        layer = build_image([BASE]).layers[0]
        second.blobs = {key: bytes(len(data)) if key[1] == layer else data for key, data in first.blobs.items()}
        await pull()
        assert first.count("GET", layer) == 1

    run_scenario(tmp_path, scenario, mirrored=True)


# -- limits and errors


def test_a_rate_limit_says_when_it_ends(tmp_path: Path) -> None:
    async def scenario(first: FakeRegistry, second: FakeRegistry, pull: Callable[..., Awaitable[Any]]) -> None:
        headers = {"Retry-After": "3600", "RateLimit-Limit": "100;w=21600", "RateLimit-Remaining": "0;w=21600"}
        first.hook = lambda request: Reply(429, headers)
        error = await expect_failure(pull(), PullFailure.RATE_LIMITED)
        assert error.is_transient
        assert error.retry_at is not None
        assert timedelta(minutes=55) < error.retry_at - datetime.now(UTC) <= timedelta(hours=1)
        assert f"{error.retry_at:%H:%M}" in error.message
        assert len(first.requests) == 1

    run_scenario(tmp_path, scenario)


def test_times_of_rate_limits_are_read_in_every_form() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    hour = now + timedelta(hours=1)
    for headers in (
        {"Retry-After": "3600"},
        {"Retry-After": "Thu, 01 Jan 2026 01:00:00 GMT"},
        {"X-RateLimit-Reset": str(int(hour.timestamp()))},
        {"RateLimit-Reset": "3600"},
    ):
        assert parse_retry_time(httpx.Headers(headers), now) == hour
    assert parse_retry_time(httpx.Headers({"Retry-After": "9" * 50}), now) == now + timedelta(hours=24)
    for nonsense in ("", "soon", "-5", "²"):
        assert (
            parse_retry_time(httpx.Headers({"X-RateLimit-Reset": nonsense} if nonsense.isascii() else {}), now) is None
        )


def test_errors_that_pass_are_tried_again(tmp_path: Path) -> None:
    async def scenario(first: FakeRegistry, second: FakeRegistry, pull: Callable[..., Awaitable[Any]]) -> None:
        answers = iter([Reply(503, {"Retry-After": "0"}), Reply(429, {"Retry-After": "0"}), Reply(500)])
        first.hook = lambda request: next(answers, None)
        await pull()

    run_scenario(tmp_path, scenario)


def test_a_registry_that_keeps_failing_is_unreachable(tmp_path: Path) -> None:
    async def scenario(first: FakeRegistry, second: FakeRegistry, pull: Callable[..., Awaitable[Any]]) -> None:
        first.hook = lambda request: Reply(500, {}, b"<secret of another service>")
        error = await expect_failure(pull(), PullFailure.UNREACHABLE)
        assert "secret" not in error.message
        assert len(first.requests) == 4

    run_scenario(tmp_path, scenario)


def test_a_registry_that_is_not_there_is_unreachable(tmp_path: Path) -> None:
    async def run() -> None:
        options = RegistryOptions(insecure=frozenset({"127.0.0.1:1"}))
        puller = ImagePuller(ImageStore(tmp_path / "images"), options)
        try:
            error = await expect_failure(puller.pull_image("127.0.0.1:1/app"), PullFailure.UNREACHABLE)
            assert "refused" in error.message
            error = await expect_failure(puller.pull_image("no-such-host.invalid/app"), PullFailure.UNREACHABLE)
            assert error.is_transient
            await expect_failure(puller.pull_image("../evil"), PullFailure.INVALID)
        finally:
            await puller.close()

    asyncio.run(run())


def test_a_missing_tag_is_not_found(tmp_path: Path) -> None:
    async def scenario(first: FakeRegistry, second: FakeRegistry, pull: Callable[..., Awaitable[Any]]) -> None:
        error = await expect_failure(pull(name="app:2"), PullFailure.NOT_FOUND)
        assert "app:2" in error.message
        assert not error.is_transient

    run_scenario(tmp_path, scenario)

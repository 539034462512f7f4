"""X-Forwarded headers count from trusted proxies alone, and never more than an address."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.core.errors import UserError
from holdfast.server import client_errors
from holdfast.settings import load_settings
from tests.server.rig import Rig, open_rig
from tests.server.test_http import raw, serving
from tests.services.house import open_house

pytestmark = pytest.mark.anyio

PASSWORD = "correct horse battery"
PUBLIC = "https://holdfast.example.org"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def open_server(tmp_path: Path, **server: Any) -> AsyncIterator[Rig]:
    async with open_house(tmp_path / "home", settings={"server": server}) as house, open_rig(house) as rig:
        await house.user("alice", "red", password=PASSWORD)
        yield rig


def connect(rig: Rig, peer: str, **headers: str) -> httpx.AsyncClient:
    """A client whose connections come from `peer`."""
    transport = httpx.ASGITransport(rig.app, client=(peer, 4711))
    return httpx.AsyncClient(transport=transport, base_url="http://upstream", headers=headers)


async def address_seen(rig: Rig, peer: str, forwarded: str) -> str:
    """What the audit shows of a failed login."""
    headers = {"X-Forwarded-For": forwarded}
    async with connect(rig, peer, **headers) as client:
        await client.post("/api/v1/login", json={"user": "alice", "password": "wrong"})
    rig.house.clock.forward(10_000)
    return (await rig.house.services.audit.list(rig.house.admin)).items[0].address


CLAIMS = ["127.0.0.1", "::1", "203.0.113.9, 127.0.0.1"]


@pytest.mark.parametrize("claim", [*CLAIMS, "203.0.113.9"])
async def test_a_client_that_is_no_proxy_claims_no_address(tmp_path: Path, claim: str) -> None:
    for trusted in ([], ["192.0.2.1"]):
        async with open_server(tmp_path / str(len(trusted)), trusted_proxies=trusted) as rig:
            assert await address_seen(rig, "198.51.100.7", claim) == "198.51.100.7"
            assert await address_seen(rig, "127.0.0.1", claim) == "127.0.0.1"


@pytest.mark.parametrize(
    ("peer", "forwarded", "seen"),
    [
        ("127.0.0.1", "203.0.113.9", "203.0.113.9"),
        ("127.0.0.1", "127.0.0.1, 203.0.113.9", "203.0.113.9"),  # the client claims to be this machine
        ("127.0.0.1", "8.8.8.8, 203.0.113.9, 10.0.0.4", "203.0.113.9"),  # through two proxies
        ("::ffff:10.0.0.4", "203.0.113.9", "203.0.113.9"),  # of a socket for both versions
        ("fd00::4", "2001:db8::9", "2001:db8::9"),
        ("fd00::4", "[2001:db8::9]:1234", "2001:db8::9"),
        ("127.0.0.1", "203.0.113.9:1234", "203.0.113.9"),
        ("127.0.0.1", "::ffff:203.0.113.9", "203.0.113.9"),
        ("127.0.0.1", "::ffff:cb00:7109", "203.0.113.9"),
        ("127.0.0.1", "", "127.0.0.1"),
        ("127.0.0.1", "unknown", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1, <script>", "127.0.0.1"),
        ("127.0.0.1", "x" * 5000, "127.0.0.1"),
        ("10.0.1.4", "203.0.113.9", "10.0.1.4"),  # beside the network
    ],
)
async def test_a_trusted_proxy_reports_the_last_address_that_is_none_of_its_own(
    tmp_path: Path, peer: str, forwarded: str, seen: str
) -> None:
    async with open_server(tmp_path, trusted_proxies=["127.0.0.1", "10.0.0.0/24", "fd00::/64"]) as rig:
        assert await address_seen(rig, peer, forwarded) == seen


async def test_clients_behind_a_trusted_proxy_do_not_lock_each_other_out(tmp_path: Path) -> None:
    async with open_server(tmp_path, trusted_proxies=["127.0.0.1"]) as rig:

        async def log_in(client: str, password: str) -> int:
            headers = {"X-Forwarded-For": client}
            async with connect(rig, "127.0.0.1", **headers) as http:
                return (await http.post("/api/v1/login", json={"user": "alice", "password": password})).status_code

        answered = [await log_in("203.0.113.9", "wrong") for _ in range(20)]
        assert set(answered) == {401, 429}
        assert await log_in("203.0.113.9", PASSWORD) == 429
        assert await log_in("203.0.113.10", PASSWORD) == 200


async def test_a_forgotten_setting_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with open_server(tmp_path) as rig:
        for peer in ("198.51.100.7", "127.0.0.1", "127.0.0.1", "::1"):
            await address_seen(rig, peer, "203.0.113.9")
    warnings = [record for record in caplog.records if "trusted_proxies" in record.getMessage()]
    assert [record.__dict__["peer"] for record in warnings] == ["127.0.0.1"]


@pytest.mark.parametrize("proxies", ["nginx", "*", "10.0.0.1/8", "127.0.0.1,", "300.1.1.1", "unix:"])
def test_what_is_no_network_is_no_proxy(tmp_path: Path, proxies: str) -> None:
    environ: Mapping[str, str] = {"HOLDFAST_SERVER_TRUSTED_PROXIES": proxies}
    if proxies == "127.0.0.1,":
        assert load_settings(tmp_path, environ).server.trusted_proxies == ["127.0.0.1"]
        return
    with pytest.raises(UserError, match="trusted_proxies"):
        load_settings(tmp_path, environ)


# -- the public address


async def log_in_by_form(client: httpx.AsyncClient, **headers: str) -> httpx.Response:
    return await client.post("/login", data={"user": "alice", "password": PASSWORD}, headers=headers)


async def test_forms_of_the_public_address_are_taken_whatever_the_proxy_passes_on(tmp_path: Path) -> None:
    async with open_server(tmp_path, public_url=f"{PUBLIC}:443/") as rig, connect(rig, "127.0.0.1") as client:
        answer = await log_in_by_form(client, Origin=PUBLIC, **{"Sec-Fetch-Site": "same-origin"})
        assert answer.status_code == 303
        assert all("; Secure" in cookie for cookie in answer.headers.get_list("set-cookie") if "holdfast" in cookie)
        for origin in ("http://holdfast.example.org", "https://holdfast.example.org:8443", f"{PUBLIC}.evil.example"):
            assert (await log_in_by_form(client, Origin=origin)).status_code == 403, origin
        assert (await log_in_by_form(client, Origin="http://upstream")).status_code == 303  # reached directly
        assert (await log_in_by_form(client, **{"Sec-Fetch-Site": "cross-site"}, Origin=PUBLIC)).status_code == 403


async def test_without_a_public_address_cookies_are_secure_by_what_a_trusted_proxy_says(tmp_path: Path) -> None:
    for number, trusted in enumerate(([], ["127.0.0.1"])):
        async with open_server(tmp_path / str(number), trusted_proxies=trusted) as rig:
            headers = {"X-Forwarded-Proto": "https"}
            async with connect(rig, "127.0.0.1", **headers) as client:
                answer = await log_in_by_form(client)
                assert ("; Secure" in answer.headers["set-cookie"]) == bool(trusted)


async def test_links_lead_to_the_public_address(tmp_path: Path) -> None:
    async with open_server(tmp_path, public_url=PUBLIC) as rig:
        made = await rig.house.services.tokens.login("alice", PASSWORD, "127.0.0.1")
        bearer = {"Authorization": f"Bearer {made.text}"}
        async with connect(rig, "127.0.0.1", **bearer) as client:
            link = (await client.post("/api/v1/login-codes")).json()
            assert link["url"].startswith(f"{PUBLIC}/login?code=")


def socket_request(port: int, login: str, origin: str) -> bytes:
    lines = [
        "GET /live/jobs HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        f"Origin: {origin}",
        f"Cookie: holdfast_{port}={login}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==",
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def test_sockets_of_the_public_address_are_taken(tmp_path: Path) -> None:
    async with open_server(tmp_path, public_url=PUBLIC) as rig, serving(rig) as port:
        login = await rig.house.services.tokens.login_authenticated_user("alice", "test")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(socket_request(port, login.text, PUBLIC))
        assert (await asyncio.wait_for(reader.readline(), 20)).startswith(b"HTTP/1.1 101")
        writer.close()
        refused = await raw(port, socket_request(port, login.text, "https://evil.example"))
        assert refused.startswith(b"HTTP/1.1 403")


# -- what strangers may write into the log


async def test_malformed_requests_are_one_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_errors, "SUMMARY_INTERVAL", 3600.0)
    into_a_task = (
        b"GET /api/v1/jobs/x/tasks/-/exec HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    )
    into_a_task += b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
    upgrade = b"GET /healthz HTTP/1.1\r\nHost: x\r\nUpgrade: tcp\r\nConnection: Upgrade, close\r\n\r\n"
    async with open_server(tmp_path) as rig, serving(rig) as port:
        for _ in range(10):
            await raw(port, b"\x00\r\n\r\n")
            assert (await raw(port, into_a_task)).startswith(b"HTTP/1.1 401")
            await raw(port, upgrade)
    (line,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    fields = line.__dict__
    assert (fields["malformed"], fields["refused_sockets"], fields["unsupported_upgrades"]) == (10, 10, 10)


async def test_the_summary_comes_after_its_interval(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_errors, "SUMMARY_INTERVAL", 0.001)
    uvicorn_log = logging.getLogger(client_errors.WATCHED_LOGGER)
    with client_errors.summarize_client_errors():
        for count in (1, 3):
            for _ in range(count):
                uvicorn_log.warning("Invalid HTTP request received.")
            while not caplog.records:
                await asyncio.sleep(0.001)
            assert [record.__dict__["malformed"] for record in caplog.records] == [count]
            caplog.clear()
        uvicorn_log.warning("something else")
    assert [record.getMessage() for record in caplog.records] == ["something else"]

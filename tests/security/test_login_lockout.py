"""Failed logins of an attacker do not keep a user with the right password out, and guessing stays slow."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from holdfast.core.access import Actor
from holdfast.core.errors import NotLoggedIn
from holdfast.server.app import create_app
from holdfast.services.errors import TooManyRequests
from holdfast.services.fair_limiter import FairLimiter
from holdfast.services.people.login_devices import NEW_DEVICE_LIMIT
from holdfast.services.people.login_throttle import ADDRESS_LIMIT, USER_LIMIT
from holdfast.services.people.passwords import Passwords
from holdfast.store import people
from tests.e2e.server import Server
from tests.services.house import House, open_house

pytestmark = pytest.mark.anyio

LOOPBACK = "127.0.0.1"  # where tasks, people on the machine and a proxy without trusted_proxies all are
PASSWORD = "correct horse battery"
THREADS = 60
TIMEOUT = 30  # seconds; only ever reached when something is broken


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path / "home") as opened:
        for name in ("alice", "bob", "carol"):
            await opened.user(name, "red", password=PASSWORD)
        yield opened


class Flood:
    """Wrong passwords from one address, so many at a time, for as long as it is open."""

    def __init__(self, house: House, users: list[str], address: str = LOOPBACK) -> None:
        self._house, self._users, self._address = house, users, address
        self._tasks: list[asyncio.Task[None]] = []
        self.guesses = 0  # that were checked
        self._under_way = asyncio.Event()

    async def __aenter__(self) -> Flood:
        self._tasks = [asyncio.create_task(self._guess(number)) for number in range(THREADS)]
        await asyncio.wait_for(self._under_way.wait(), TIMEOUT)
        return self

    async def _guess(self, number: int) -> None:
        for attempt in range(1_000_000):
            user = self._users[(number + attempt) % len(self._users)]
            try:
                await self._house.services.tokens.login(user, f"guess {number} {attempt}", self._address)
            except NotLoggedIn:
                self.guesses += 1
            except TooManyRequests:
                self._under_way.set()
            await asyncio.sleep(0)

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)


async def log_in(house: House, user: str, address: str = LOOPBACK, device: str = "") -> str:
    made = await asyncio.wait_for(house.services.tokens.login(user, PASSWORD, address, device=device), TIMEOUT)
    return made.token.user


async def issue_device(house: House, user: str) -> str:
    house.clock.forward(NEW_DEVICE_LIMIT.interval)
    return await house.services.tokens.issue_device_token(user)


def waits(passwords: Passwords, user: str) -> bool:
    return any(user in key for key in passwords._limiter._queues)


@pytest.mark.release
async def test_a_flood_against_others_from_the_same_address_keeps_nobody_out(house: House) -> None:
    made_up = [f"user{number}" for number in range(500)]
    async with Flood(house, ["bob", "carol", *made_up]):
        for _ in range(20):
            assert await log_in(house, "alice") == "alice"


@pytest.mark.release
async def test_a_flood_against_a_user_keeps_that_user_out_from_no_other_address(house: House) -> None:
    async with Flood(house, ["alice"]):
        for number in range(20):
            assert await log_in(house, "alice", f"10.0.0.{number}") == "alice"


@pytest.mark.release
async def test_a_device_that_logged_in_before_gets_in_from_the_attackers_own_address(house: House) -> None:
    device = await issue_device(house, "alice")
    async with Flood(house, ["alice"]) as flood:
        for _ in range(20):
            assert await log_in(house, "alice", device=device) == "alice"
        assert flood.guesses == ADDRESS_LIMIT.burst


async def test_a_device_token_of_another_user_helps_nobody(house: House) -> None:
    mine = await issue_device(house, "bob")
    for _ in range(ADDRESS_LIMIT.burst):
        with pytest.raises(NotLoggedIn):
            await house.services.tokens.login("alice", "wrong", LOOPBACK, device=mine)
    with pytest.raises(TooManyRequests):
        await house.services.tokens.login("alice", "wrong", LOOPBACK, device=mine)


async def test_a_device_token_ends_with_the_password(house: House) -> None:
    device = await issue_device(house, "alice")
    await house.services.users.set_password(house.admin, "alice", "another horse")
    for _ in range(ADDRESS_LIMIT.burst):
        with pytest.raises(NotLoggedIn):
            await house.services.tokens.login("alice", "wrong", LOOPBACK)
    with pytest.raises(TooManyRequests):
        await house.services.tokens.login("alice", "another horse", LOOPBACK, device=device)


async def test_guesses_from_many_addresses_are_bounded_and_a_known_place_gets_in(house: House) -> None:
    await log_in(house, "alice", "192.0.2.1")
    checked = 0
    for number in range(USER_LIMIT.burst * 3):
        try:
            await house.services.tokens.login("alice", "wrong", f"10.0.{number // 200}.{number % 200}")
        except NotLoggedIn:
            checked += 1
        except TooManyRequests:
            pass
    assert checked == USER_LIMIT.burst
    assert await log_in(house, "alice", "192.0.2.1") == "alice"
    assert 3600 / USER_LIMIT.interval <= 300


async def test_checks_of_one_client_take_turns_with_those_of_others(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Passwords are checked a few at a time. Those of one address wait for each other, not others for them."""
    passwords = house.services.tokens._passwords
    checked: list[str] = []
    go_on, matches = threading.Event(), passwords._is_match

    def slow(hashed: str, password: str) -> bool:
        assert go_on.wait(TIMEOUT)
        checked.append(password)
        return matches(hashed, password)

    monkeypatch.setattr(passwords, "_is_match", slow)
    guesses = [house.services.tokens.login("bob", "guess", LOOPBACK) for _ in range(ADDRESS_LIMIT.burst)]
    made_up = [house.services.tokens.login(f"user{number}", "made up", LOOPBACK) for number in range(THREADS)]
    flood = [asyncio.create_task(each) for each in (*guesses, *made_up)]
    while not waits(passwords, "bob"):
        await asyncio.sleep(0)
    victim = asyncio.create_task(log_in(house, "alice"))
    while not waits(passwords, "alice"):
        await asyncio.sleep(0)
    go_on.set()
    assert await victim == "alice"
    before = checked.index(PASSWORD)
    assert before <= 4  # two that ran already, and one of each other user
    await asyncio.gather(*flood, return_exceptions=True)


async def test_many_devices_of_a_user_delay_only_that_user(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Right passwords, one login on every device: they are no failures, so no bucket holds them up."""
    tokens, passwords = house.services.tokens, house.services.tokens._passwords
    checked: list[str] = []
    go_on, matches = threading.Event(), passwords._is_match

    def slow(hashed: str, password: str) -> bool:
        assert go_on.wait(TIMEOUT)
        checked.append(hashed)
        return matches(hashed, password)

    monkeypatch.setattr(passwords, "_is_match", slow)
    devices = [await issue_device(house, "bob") for _ in range(THREADS)]
    flood = [asyncio.create_task(tokens.login("bob", PASSWORD, LOOPBACK, device=device)) for device in devices]
    own_change = asyncio.create_task(
        house.services.users.change_own_password(Actor(name="bob"), PASSWORD, "another horse", LOOPBACK)
    )
    other = asyncio.create_task(log_in(house, "carol"))
    while not waits(passwords, "bob") or passwords._limiter._free_slots:
        await asyncio.sleep(0)
    victim = asyncio.create_task(log_in(house, "alice"))
    while not waits(passwords, "alice"):
        await asyncio.sleep(0)
    go_on.set()
    assert await victim == "alice"
    alice = await house.store.read(people.load_password_hash, "alice")
    assert alice is not None
    assert checked.index(alice) <= 3  # two that ran already, and one of bob's
    for task in (*flood, own_change, other):
        task.cancel()
    await asyncio.gather(*flood, own_change, other, return_exceptions=True)


async def test_a_login_that_is_not_checked_is_refused_and_does_not_count(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = house.services.tokens
    verify = tokens._passwords.verify_password
    limiter = FairLimiter(1, max_waiting=0, refuse=tokens._passwords._limiter._build_error)
    monkeypatch.setattr(tokens._passwords, "_limiter", limiter)
    async with limiter.use_slot("bob"):
        for _ in range(ADDRESS_LIMIT.burst + 1):
            with pytest.raises(TooManyRequests, match="Too many logins are in progress"):
                await tokens.login("alice", PASSWORD, LOOPBACK)
        with pytest.raises(TooManyRequests, match="Too many logins are in progress"):
            await house.services.users.change_own_password(Actor(name="alice"), PASSWORD, "another horse", LOOPBACK)
        assert not await verify(None, PASSWORD, user="nobody")
    assert await log_in(house, "alice") == "alice"


async def test_a_browser_that_logged_in_before_is_not_locked_out_by_its_neighbours(house: House) -> None:
    """The portal, and OpenPAI's and PrimeHub's addresses for logins, all take the browser's device token."""
    app = create_app(house.services)

    def browser() -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")

    async with browser() as mine, browser() as attacker:
        form = {"user": "alice", "password": PASSWORD}
        first = await mine.post("/login", data=form)
        assert first.status_code == 303
        device = next(each for each in first.headers.get_list("set-cookie") if "_device=" in each)
        assert {"HttpOnly", "SameSite=strict"} <= {part.strip() for part in device.split(";")}
        mine.cookies.delete("holdfast")
        for _ in range(ADDRESS_LIMIT.burst + 5):
            await attacker.post("/login", data={"user": "alice", "password": "wrong"})
        assert (await attacker.post("/login", data=form)).status_code == 429
        assert (await mine.post("/login", data=form)).status_code == 303
        mine.cookies.delete("holdfast")
        as_json = {"username": "alice", "password": PASSWORD}
        assert (await mine.post("/rest-server/api/v2/authn/basic/login", json=as_json)).status_code == 200
        shown = await mine.post("/oidc/auth-flow/login", data=as_json)
        assert (shown.status_code, "code" in shown.text) == (200, True)


async def test_a_command_line_that_logged_in_before_is_not_locked_out(house: House) -> None:
    transport = httpx.ASGITransport(create_app(house.services))
    async with httpx.AsyncClient(transport=transport, base_url="http://test/api/v1") as client:
        body = {"user": "alice", "password": PASSWORD}
        device = (await client.post("/login", json=body)).json()["device"]
        for _ in range(ADDRESS_LIMIT.burst + 5):
            await client.post("/login", json={**body, "password": "wrong"})
        assert (await client.post("/login", json=body)).status_code == 429
        assert (await client.post("/login", json={**body, "device": device})).status_code == 200


# -- a real server, sixty threads


@pytest.mark.release
def test_sixty_threads_on_the_same_address_keep_nobody_out(tmp_path: Path) -> None:
    server = Server(tmp_path / "home")
    server.start()
    stop, refused = threading.Event(), threading.Event()

    def guess(number: int) -> None:
        with httpx.Client(base_url=f"{server.url}/api/v1", timeout=TIMEOUT) as client:
            while not stop.is_set():
                user = ("bob", "alice", f"user{number}")[number % 3]
                answer = client.post("/login", json={"user": user, "password": "wrong"})
                assert answer.status_code in (401, 429)
                if answer.status_code == 429:
                    refused.set()

    threads = [threading.Thread(target=guess, args=(number,)) for number in range(THREADS)]
    try:
        with server.client() as admin:
            for name in ("alice", "bob", "carol"):
                body = {"name": name, "password": PASSWORD, "groups": ["default"]}
                assert admin.post("/users", json=body).status_code == 201
        with httpx.Client(base_url=f"{server.url}/api/v1", timeout=TIMEOUT) as client:
            alice = {"user": "alice", "password": PASSWORD}
            device = client.post("/login", json=alice).json()["device"]
            for thread in threads:
                thread.start()
            assert refused.wait(TIMEOUT)
            for _ in range(3):
                assert client.post("/login", json={**alice, "user": "carol"}).status_code == 200
                assert client.post("/login", json={**alice, "device": device}).status_code == 200
    finally:
        stop.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
        server.stop()

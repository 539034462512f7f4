"""One server and one Chromium per test process; a fresh window, with its own cookies, per test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser

from tests.e2e.server import TIMEOUT, Server

from .browser import CHROMIUM, PASSWORD, Window, open_chromium
from .people import client_of


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("portal") / "home")
    running.start()
    httpx.post(
        f"{running.url}/api/v1/users",
        json={"name": "ada", "password": PASSWORD, "admin": True},
        headers={"Authorization": f"Bearer {running.token}"},
        timeout=TIMEOUT,
    ).raise_for_status()
    yield running
    running.kill()


@pytest.fixture(scope="package")  # while it is there, no other loop can run: tests of other folders have theirs
def chromium() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip(
            "no page is tried in a browser: no Chromium is here (Debian: apt-get install chromium-headless-shell)"
        )
    with open_chromium() as browser:
        yield browser


_logins: dict[str, dict[str, Any]] = {}


def server_login(server: Server, user: str) -> dict[str, Any]:
    """The cookie of a login of theirs, made once: checking a password is meant to take its time."""
    with httpx.Client(base_url=server.url, timeout=TIMEOUT) as client:
        known = _logins.get(user)
        if known is None or client.get("/api/v1/me", headers={"Cookie": f"{known['name']}={known['value']}"}).is_error:
            answer = client.post("/login", data={"user": user, "password": PASSWORD})
            name, value = next(item for item in answer.cookies.items() if item[1].startswith("hf_"))
            known = _logins[user] = {
                "name": name,
                "value": value,
                "url": server.url,
                "httpOnly": True,
                "sameSite": "Lax",
            }
    return known


@pytest.fixture
def open_window(chromium: Browser, server: Server) -> Iterator[Callable[..., Window]]:
    """open_window(user="ada", locale="en", **context options) -> a window that is logged in."""
    opened: list[Window] = []

    def open_it(user: str | None = "ada", *, locale: str = "en", **more: object) -> Window:
        context = chromium.new_context(locale=locale, **more)  # type: ignore[arg-type]
        context.set_default_timeout(60_000)
        window = Window(context.new_page(), server)
        opened.append(window)
        window.watch(context)
        if user is not None:
            context.add_cookies([server_login(server, user)])  # type: ignore[list-item]
        return window

    yield open_it
    wrongs = [wrong for window in opened for wrong in window.wrongs]
    for window in opened:
        window.page.context.close()
    assert not wrongs


@pytest.fixture
def window(open_window: Callable[..., Window]) -> Window:
    return open_window()


@pytest.fixture
def submit(server: Server) -> Iterator[Callable[[str, str], str]]:
    """submit("ada", text) -> the id of a job, which is stopped in the end."""
    made: list[str] = []

    def submit_it(user: str, text: str) -> str:
        with client_of(server, user) as client:
            made.append(str(client.post("/jobs", content=text).raise_for_status().json()["id"]))
        return made[-1]

    yield submit_it
    with server.client() as client:
        for job in made:
            client.post(f"/jobs/{job}/stop").raise_for_status()
    for job in made:
        server.wait(job)

"""One server and one Chromium per test process; a fresh window, with its own cookies, per test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest
from playwright.sync_api import Browser

from tests.e2e.server import Server

from .browser import CHROMIUM, PASSWORD, Window, open_chromium


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("portal") / "home")
    running.start()
    httpx.post(
        f"{running.url}/api/v1/users",
        json={"name": "ada", "password": PASSWORD, "admin": True},
        headers={"Authorization": f"Bearer {running.token}"},
    ).raise_for_status()
    yield running
    running.kill()


@pytest.fixture(scope="package")  # while it is there, no other loop can run: tests of other folders have theirs
def chromium() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium), so no page is tried in a browser")
    with open_chromium() as browser:
        yield browser


@pytest.fixture
def open_window(chromium: Browser, server: Server) -> Iterator[Callable[..., Window]]:
    """open_window(user="ada", locale="en", **context options) -> a window that is logged in."""
    opened: list[Window] = []

    def open_it(user: str | None = "ada", *, locale: str = "en", **more: object) -> Window:
        context = chromium.new_context(locale=locale, **more)  # type: ignore[arg-type]
        window = Window(context.new_page(), server)
        opened.append(window)
        window.watch(context)
        if user is not None:
            window.go("/login")
            window.page.fill("#user", user)
            window.page.fill("#password", PASSWORD)
            window.page.click("form[action='/login'] button")
            window.page.wait_for_url(lambda url: "/login" not in url)
        return window

    yield open_it
    wrongs = [wrong for window in opened for wrong in window.wrongs]
    for window in opened:
        window.page.context.close()
    assert not wrongs


@pytest.fixture
def window(open_window: Callable[..., Window]) -> Window:
    return open_window()

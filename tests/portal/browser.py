"""A real Chromium, driven by Playwright, in front of a real server."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect, sync_playwright

from tests.e2e.server import Server

PICTURES = Path(__file__).parents[2] / "build" / "screenshots"
PASSWORD = "correct horse battery"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "chromium-browser"))), None)
expect.set_options(timeout=60_000)  # a busy machine is no fault of the page's
_OPTIONS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]  # tests may run as root in a container


@contextmanager
def open_chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=_OPTIONS)
        yield browser
        browser.close()


@dataclass
class Window:
    """A browser window of one user. Whatever goes wrong in it unseen is kept, and fails the test."""

    page: Page
    server: Server
    wrongs: list[str] = field(default_factory=list)

    def watch(self, context: BrowserContext) -> None:
        context.on("console", self._hear)
        context.on("weberror", lambda error: self.wrongs.append(f"uncaught: {error.error}"))
        context.on("request", self._see)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.wrongs.append(f"console: {message.text}")

    def _see(self, request: Request) -> None:
        own = (self.server.url, self.server.url.replace("http:", "ws:"), "data:", "blob:")
        if not request.url.startswith(own):
            self.wrongs.append(f"asked another host: {request.url}")

    def log_in(self, user: str) -> None:
        """By the form, as people do."""
        self.go("/login")
        self.page.fill("#user", user)
        self.page.fill("#password", PASSWORD)
        self.page.click("form[action='/login'] button")
        self.page.wait_for_url(lambda url: "/login" not in url)

    def go(self, path: str) -> None:
        self.page.goto(f"{self.server.url}{path}")


def takes_pictures() -> bool:
    return bool(os.environ.get("HOLDFAST_PICTURES"))


def keep_pictures(page: Page, name: str, *schemes: str, **more: Any) -> None:
    """How a page looks in the dark theme and in the light one, below build/ for whoever wants to see it and says so by
    HOLDFAST_PICTURES: no test looks at them, and a picture takes longer than most of what is tested."""
    if not takes_pictures():
        return
    PICTURES.mkdir(parents=True, exist_ok=True)
    for scheme in schemes or ("dark", "light"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.screenshot(path=PICTURES / f"{name}-{scheme}.png", full_page=True, **more)

"""What every page has around it."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import expect

from .axe import findings
from .browser import Window


def test_somebody_logs_in_and_sees_the_frame(window: Window) -> None:
    window.go("/nothing-here-yet")
    assert window.page.locator("nav.side a").count() >= 4
    assert findings(window.page) == []
    window.page.keyboard.press("?")
    assert window.page.locator("dialog#help").is_visible()
    window.wrongs.clear()  # the 404 of this very page is told on the console


def test_the_login_page_keeps_nobody_out(open_window: Callable[..., Window]) -> None:
    stranger = open_window(None)
    stranger.go("/login")
    assert findings(stranger.page) == []


def test_escape_closes_a_menu_and_gives_the_keyboard_back(window: Window) -> None:
    window.go("/jobs/new")
    for menu in (window.page.locator(".bar details.menu"), window.page.locator(".head details.menu")):
        summary = menu.locator("summary")
        expect(summary).to_be_visible()  # hidden until the page's scripts are loaded
        summary.focus()
        window.page.keyboard.press("Enter")
        expect(menu).to_have_attribute("open", "")
        window.page.keyboard.press("Tab")
        window.page.keyboard.press("Escape")
        expect(menu).not_to_have_attribute("open", "")
        expect(summary).to_be_focused()

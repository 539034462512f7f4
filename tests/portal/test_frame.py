"""What every page has around it."""

from __future__ import annotations

from collections.abc import Callable

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

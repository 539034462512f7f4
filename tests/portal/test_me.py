"""One's account in a real browser: language, theme, a token, a key, the password; and how admins see the place."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest
from playwright.sync_api import expect

from tests.e2e.server import TIMEOUT, Server

from .axe import findings
from .browser import PASSWORD, Window
from .people import add_user

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ3FOZgDx2DGuNLLzK4ydj1Hmh3Emr3SvNPXd7CGcTCU me@home"
NEW = "another good password"


@pytest.fixture
def someone(server: Server) -> Callable[[str], str]:
    return lambda name: add_user(server, name)


@pytest.mark.release
def test_language_and_theme_come_back_in_another_browser(
    open_window: Callable[..., Window], someone: Callable[[str], str]
) -> None:
    name = someone("me-words")
    window = open_window(name)
    window.go("/me")
    page = window.page
    page.click("details.menu summary")
    page.click(".menu-body button[value='zh-Hans']")
    expect(page.locator("html")).to_have_attribute("lang", "zh-Hans")
    page.click("details.menu summary")
    page.click(".menu-body button[value='dark']")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    other = open_window(None)
    other.log_in(name)
    other.go("/me")
    expect(other.page.locator("html")).to_have_attribute("lang", "zh-Hans")
    expect(other.page.locator("html")).to_have_attribute("data-theme", "dark")
    assert findings(other.page) == []


def test_a_token_is_made_copied_used_and_revoked(
    open_window: Callable[..., Window], someone: Callable[[str], str], server: Server
) -> None:
    window = open_window(someone("me-token"))
    page = window.page
    window.go("/me/tokens")
    assert findings(page) == []
    page.fill("#name", "nightly")
    page.click("form[action='/me/tokens'] button")
    token = page.inner_text("#token")
    assert findings(page) == []
    headers = {"Authorization": f"Bearer {token}"}
    assert httpx.get(f"{server.url}/api/v1/me", headers=headers, timeout=TIMEOUT).json()["name"] == "me-token"
    with page.expect_download() as download:
        page.click("form[action='/me/tokens/config'] button")
    assert download.value.suggested_filename == "config.json"
    page.click("main a.button[href='/me/tokens']")
    row = page.locator("tr", has_text="nightly")
    row.locator("button").click()
    page.click("dialog#confirm button[value='yes']")
    expect(page.locator("#messages .notification")).to_be_visible()
    expect(row).to_have_count(0)
    assert httpx.get(f"{server.url}/api/v1/me", headers=headers, timeout=TIMEOUT).status_code == 401


@pytest.mark.release
def test_a_key_is_added_and_removed(open_window: Callable[..., Window], someone: Callable[[str], str]) -> None:
    window = open_window(someone("me-key"))
    page = window.page
    window.go("/me/keys")
    assert findings(page) == []
    page.fill("#value", KEY)
    page.click("form[action='/me/keys'] button")
    row = page.locator("tbody tr")
    expect(row).to_contain_text("me@home")
    expect(row).to_contain_text("SHA256:")
    assert findings(page) == []
    row.locator("button").click()
    page.click("dialog#confirm button[value='yes']")
    expect(row).to_have_count(0)


@pytest.mark.release
def test_a_new_password_logs_out_other_browsers(
    open_window: Callable[..., Window], someone: Callable[[str], str]
) -> None:
    name = someone("me-password")
    here, elsewhere = open_window(name), open_window(name)
    elsewhere.go("/jobs")
    here.go("/me")
    assert findings(here.page) == []
    for field, text in (("#old", PASSWORD), ("#new", NEW), ("#again", NEW)):
        here.page.fill(field, text)
    here.page.click("form[action='/me/password'] button")
    expect(here.page.locator("#messages .notification")).to_be_visible()
    here.go("/me")
    expect(here.page.locator("h1")).to_be_visible()
    elsewhere.page.wait_for_url("**/login**")  # its live line is closed, so it goes there by itself


@pytest.mark.release
def test_a_one_time_link_asks_first(open_window: Callable[..., Window], server: Server) -> None:
    headers = {"Authorization": f"Bearer {server.token}"}
    made = httpx.post(f"{server.url}/api/v1/login-codes", headers=headers, timeout=TIMEOUT).json()
    window = open_window(None)
    window.go(f"/login?code={made['code']}")
    assert findings(window.page) == []
    window.page.click("form[action='/login/link'] button")
    expect(window.page.locator("details.menu summary")).to_contain_text("admin")


@pytest.mark.release
def test_a_code_for_the_primehub_command_is_shown_and_works(open_window: Callable[..., Window]) -> None:
    window = open_window(None)
    window.go("/console/oidc/auth-flow/login")
    window.page.fill("#username", "ada")
    window.page.fill("#password", PASSWORD)
    window.page.get_by_role("button", name="Show code").click()
    code = window.page.locator("#code").inner_text().strip()
    assert findings(window.page) == []
    given = httpx.post(f"{window.server.url}/console/oidc/auth-flow/exchange", data={"code": code}, timeout=TIMEOUT)
    assert "api-token" in given.json()


@pytest.mark.release
def test_pages_keep_nobody_out(window: Window) -> None:
    for path in ("/me", "/admin/audit", "/admin/settings", "/admin/installation", "/oidc/auth-flow/login"):
        window.go(path)
        assert findings(window.page) == [], path


@pytest.mark.release
def test_the_account_fits_a_phone(open_window: Callable[..., Window]) -> None:
    window = open_window(viewport={"width": 360, "height": 740})
    for path in ("/me", "/me/tokens", "/me/keys", "/admin/audit", "/admin/settings", "/admin/installation"):
        window.go(path)
        wide = window.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, path

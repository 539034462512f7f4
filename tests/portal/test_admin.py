"""What admins do in a browser, and a group's files: the main paths, both themes, a phone."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.server import TIMEOUT, Server
from tests.engines.archives import shell_entries, tar

from .axe import findings
from .browser import PASSWORD, Window, keep_pictures

PAGES = (
    "/admin/users",
    "/admin/users/new",
    "/admin/users/import",
    "/admin/users/ada/edit",
    "/admin/users/ada/delete",
    "/admin/groups",
    "/admin/groups/new",
    "/admin/groups/default/edit",
    "/admin/instance-types",
    "/admin/instance-types/cpu-1/edit",
    "/admin/images",
    "/admin/images/aliases/new",
    "/admin/datasets",
    "/admin/datasets/new",
    "/admin/datasets/new?kind=git",
    "/admin/secrets",
    "/admin/secrets/new?kind=opaque",
    "/admin/usage",
    "/groups",
    "/groups/default",
    "/groups/default/files",
    "/groups/default/settings",
)


def _ask(server: Server, method: str, path: str, **more: object) -> httpx.Response:
    headers = {"Authorization": f"Bearer {server.token}"}
    return httpx.request(method, f"{server.url}/api/v1{path}", headers=headers, **more, timeout=TIMEOUT)  # type: ignore[arg-type]


def _send(page: Page) -> None:
    page.locator(".form-end .primary").click()


def test_a_group_a_user_and_a_size_are_made(window: Window, server: Server) -> None:
    page = window.page
    window.go("/admin/groups/new")
    page.locator("#name").fill("vision")
    page.locator("[id='quota.cpu']").fill("4")
    page.locator("[id='user_quota.cpu']").fill("5")
    page.locator("[id='quota.memory']").fill("16 GiB")
    window.wrongs.clear()
    _send(page)
    expect(page.locator("[id='user_quota.cpu-problem']")).to_contain_text("must not exceed the group's quota (4)")
    expect(page.locator("[id='user_quota.cpu']")).to_be_focused()
    expect(page.locator("[id='quota.memory']")).to_have_value("16 GiB")
    window.wrongs.clear()  # the 400 of this very form is told on the console
    page.locator("[id='user_quota.cpu']").fill("2")
    _send(page)
    page.wait_for_url("**/groups/vision/settings")

    window.go("/admin/users/new")
    page.locator("#name").fill("grace")
    page.locator("#password").fill(PASSWORD)
    page.locator(".grants li", has_text="vision").get_by_role("checkbox").first.check()
    _send(page)
    expect(page.locator(".notification.good")).to_have_text("User grace was added.")
    row = page.get_by_role("row", name="grace")
    expect(row).to_contain_text("vision")

    window.go("/admin/instance-types/new")
    page.locator("#name").fill("vision-small")
    page.locator("#cpu").fill("2")
    page.locator("#memory").fill("4 GiB")
    page.get_by_label("Everyone").uncheck()
    page.locator(".grants li", has_text="vision").get_by_role("checkbox").check()
    _send(page)
    expect(page.get_by_role("row", name="vision-small")).to_contain_text("4 GiB")
    types = _ask(server, "GET", "/instance-types/vision-small").json()
    assert (types["cpu"], types["memory"], types["groups"]) == (2.0, 4 * 2**30, ["vision"])


@pytest.mark.release
def test_somebody_joins_a_group_and_leaves_it(window: Window, server: Server) -> None:
    _ask(server, "POST", "/groups", json={"name": "joining"}).raise_for_status()
    _ask(server, "POST", "/users", json={"name": "joan", "groups": ["default"]}).raise_for_status()
    page = window.page
    window.go("/groups/joining/settings")
    page.locator("#user").fill("joan")
    page.locator("#members form.line button").click()
    row = page.get_by_role("row", name="joan")
    row.get_by_role("button", name="Make group admin").click()
    expect(page.get_by_role("row", name="joan")).to_contain_text("Make regular member")
    page.get_by_role("row", name="joan").get_by_role("button", name="Remove").click()
    expect(page.locator("dialog#confirm")).to_contain_text("Remove joan from joining?")
    page.locator("dialog#confirm button[value=yes]").click()
    expect(page.locator("#members")).to_contain_text("No members yet.")


@pytest.mark.release
def test_files_are_put_looked_at_and_removed(open_window: Callable[..., Window], server: Server) -> None:
    _ask(server, "POST", "/groups", json={"name": "sharing"}).raise_for_status()
    _ask(server, "POST", "/users", json={"name": "shan", "password": PASSWORD, "groups": ["sharing"]})
    window = open_window("shan")
    page = window.page
    window.go("/groups/sharing/files")
    page.get_by_label("Name of a new folder").fill("plots <b>")
    page.get_by_role("button", name="New folder").click()
    expect(page.locator(".notification")).to_contain_text("does not exist yet")
    name = "<img src=x onerror=alert(1)> & 100%.txt"
    with page.expect_navigation():
        page.locator("#files").set_input_files([{"name": name, "mimeType": "text/plain", "buffer": b"hello"}])
    row = page.locator(f"tbody tr:has-text('{name}')")
    expect(row).to_contain_text("5 B")
    with page.expect_popup() as opened:
        row.locator("a.open").click()
    expect(opened.value.locator("body")).to_contain_text("hello")
    opened.value.close()
    page.locator("#files").set_input_files([{"name": name, "mimeType": "text/plain", "buffer": b"hello you"}])
    expect(page.locator("dialog#confirm")).to_contain_text("Replace it?")
    with page.expect_navigation():
        page.locator("dialog#confirm button[value=yes]").click()
    expect(row).to_contain_text("9 B")
    row.get_by_role("link", name=re.compile("Delete")).click()
    page.locator(".confirm button").click()
    expect(page.locator(".notification.good")).to_have_text("1 file was deleted.")


def test_a_file_that_is_too_large_is_not_even_sent(window: Window) -> None:
    page = window.page
    window.go("/groups/default/files")
    page.locator("#drop").evaluate("drop => { drop.dataset.maxSize = '3'; }")
    page.locator("#files").set_input_files([{"name": "big.bin", "mimeType": "x/y", "buffer": b"12345"}])
    expect(page.locator(".uploads")).to_contain_text("Larger than 10 GiB")


@pytest.mark.release
def test_an_image_is_imported_and_given_a_name(window: Window) -> None:
    page = window.page
    window.go("/admin/images")
    archive = {"name": "tiny-root.tar", "mimeType": "application/x-tar", "buffer": tar(shell_entries())}
    page.locator("#image-file").set_input_files([archive])
    expect(page.locator("#image-name")).to_have_value("tiny-root")
    with page.expect_navigation():
        page.get_by_role("button", name="Import").click()
    row = page.locator("tr", has_text="tiny-root")
    row.get_by_role("link", name=re.compile("Add alias")).click()
    page.locator("#name").fill("tiny")
    _send(page)
    expect(page.get_by_role("row", name="tiny").first).to_contain_text("Ready")
    bad = {"name": "bad.tar", "mimeType": "application/x-tar", "buffer": b"nothing of the kind"}
    page.locator("#image-file").set_input_files([bad])
    page.locator("#image-name").fill("bad")
    page.get_by_role("button", name="Import").click()
    expect(page.locator("#import .problem")).not_to_be_empty()
    window.wrongs.clear()  # the refusal is told on the console


@pytest.mark.release
def test_many_users_come_from_a_file(window: Window, server: Server) -> None:
    page = window.page
    window.go("/admin/users/import")
    text = b"name,email,groups\nmany1,m@x.org,default\nmany2,,nowhere\nmany3,,\n"
    page.locator("input[type=file]").set_input_files([{"name": "u.csv", "mimeType": "text/csv", "buffer": text}])
    expect(page.locator("#text")).to_have_value(re.compile("many2"))
    _send(page)
    expect(page.locator("tr", has_text="many2")).to_contain_text("Group nowhere not found")
    page.get_by_role("button", name="Add 2 users").click()
    expect(page.locator("h1")).to_have_text("2 users were added")
    password = page.locator("tr", has_text="many1").locator(".one-time").inner_text()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download as CSV").click()
    saved = Path(download.value.path()).read_text()
    assert f"many1,{password}\n" in saved
    login = httpx.post(f"{server.url}/api/v1/login", json={"user": "many1", "password": password}, timeout=TIMEOUT)
    assert login.status_code == 200


@pytest.mark.release
def test_nothing_keeps_anybody_out(window: Window) -> None:
    for path in PAGES:
        window.go(path)
        assert findings(window.page, frame=path == PAGES[0]) == [], path
        keep_pictures(window.page, _file_name(path))
        _check_on_a_phone(window.page, path)


def _check_on_a_phone(page: Page, path: str) -> None:
    size = page.viewport_size
    assert size is not None
    page.set_viewport_size({"width": 390, "height": 844})
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wide) <= 0, path
    keep_pictures(page, f"{_file_name(path)}-phone", "light")
    page.set_viewport_size(size)


@pytest.mark.release
def test_wide_tables_and_lines_of_a_phone_scroll_by_keyboard_too(open_window: Callable[..., Window]) -> None:
    window = open_window(viewport={"width": 390, "height": 844})
    for path in (PAGES[-1], "/admin/usage", "/admin/settings"):
        window.go(path)
        assert findings(window.page, frame=path == PAGES[-1]) == [], path


def _file_name(path: str) -> str:
    return re.sub(r"\W+", "-", path).strip("-")

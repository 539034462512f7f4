"""Schedules, as somebody uses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from .axe import findings
from .browser import Window
from .people import client_of

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}


def add_schedule(window: Window, name: str, **more: Any) -> str:
    """One of ada's; its id."""
    body = {"job": f"name: {name}\ncommand: echo {name}\n", "recurrence": {"kind": "monthly"}, **more}
    with client_of(window.server, "ada") as client:
        return str(client.post("/schedules", json=body).raise_for_status().json()["id"])


def test_a_daily_job_from_the_form_to_its_end(window: Window) -> None:
    page = window.page
    window.go("/schedules/new")
    page.fill("#job-name", "night-owl")
    expect(page.locator("#text")).to_have_value('name: night-owl\ncommand: |\n  echo "It is $(date)"\n')
    expect(page.locator("#check dd").first).to_have_text("night-owl")
    page.locator(".cm-content").press("Control+End")
    page.keyboard.type("bogus: 1")
    expect(page.locator("#check [data-line]")).to_have_text("line 4")
    for _ in "bogus: 1":
        page.keyboard.press("Backspace")
    expect(page.locator("#check .notification")).to_contain_text("If it were due now")
    page.fill("#timezone", "America/New_York")
    expect(page.locator("#preview")).to_contain_text("Times are in America/New_York.")
    expect(page.locator("#preview li")).to_have_count(5)
    expect(page.locator("#preview li").first).to_contain_text("04:00 E")  # EST or EDT
    page.check("#kind-custom")
    page.fill("#cron", "0 25 * * *")
    expect(page.locator("#cron-problem")).to_have_text("hour: 25 is not between 0 and 23")
    page.check("#kind-daily")
    expect(page.locator("#cron-problem")).to_be_hidden()
    page.click("button[value=create]")
    expect(page.locator("h1")).to_have_text("night-owl")
    page.get_by_role("button", name="Run now").click()
    expect(page.locator("#messages")).to_contain_text("night-owl runs now as job job-")
    expect(page.locator("#messages a")).to_have_attribute(
        "href", page.locator("#schedule a.open").get_attribute("href")
    )
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#messages")).to_contain_text("night-owl is paused")
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Delete").click()
    page.locator("dialog#confirm button[value=no]").click()
    page.get_by_role("button", name="Delete").click()
    page.locator("dialog#confirm button[value=yes]").click()
    expect(page.locator("#messages")).to_contain_text("night-owl was deleted. Its jobs are kept.")


@pytest.mark.release
def test_the_list_is_filtered_as_one_types_and_says_so_in_the_address(window: Window) -> None:
    for name in ("tulip-one", "tulip-two"):
        add_schedule(window, name)
    page = window.page
    window.go("/schedules")
    page.fill("#schedule-text", "tulip-t")
    expect(page.locator("[data-rows] tr")).to_have_count(1)
    assert "text=tulip-t" in page.url
    page.fill("#schedule-text", "tulip")
    expect(page.locator("[data-rows] tr")).to_have_count(2)
    page.click("a.sort >> text=Name")
    expect(page.locator("[data-rows] tr a.open").first).to_have_text("tulip-one")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("tulip-two")


@pytest.mark.release
def test_history_comes_by_itself_and_keeps_the_focus(window: Window) -> None:
    id = add_schedule(window, "busy-bee")
    window.go(f"/schedules/{id}")
    expect(window.page.locator("#live[data-live=on]")).to_be_attached()
    window.page.get_by_role("link", name="Edit").focus()
    with window.server.client() as client:
        client.post(f"/schedules/{id}/run").raise_for_status()
    expect(window.page.locator("[data-rows] .badge")).to_have_text("Succeeded")
    expect(window.page.get_by_role("link", name="Edit")).to_be_focused()


@pytest.mark.release
def test_nothing_keeps_anybody_out(window: Window) -> None:
    id = add_schedule(window, "open-door")
    add_schedule(window, "locked-door", job="name: locked\ncommand: env\nimage: no/such\n")
    for path in ("/schedules", f"/schedules/{id}", f"/schedules/{id}/edit", "/schedules/new"):
        window.go(path)
        assert findings(window.page) == [], path


def test_a_phone_shows_all_of_it(open_window: Callable[..., Window]) -> None:
    window = open_window(**PHONE)
    id = add_schedule(window, "pocket-" + "x" * 60)
    for path in ("/schedules?text=pocket", f"/schedules/{id}", f"/schedules/{id}/edit"):
        window.go(path)
        assert window.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    expect(window.page.locator(".cm-content")).to_be_visible()
    assert window.page.evaluate("document.documentElement.scrollWidth <= innerWidth")  # with the editor, too
    window.go("/schedules?text=pocket")
    expect(window.page.get_by_role("button", name="Pause pocket-")).to_be_visible()


def test_it_works_without_scripts(open_window: Callable[..., Window]) -> None:
    window = open_window(java_script_enabled=False)
    page = window.page
    window.go("/schedules/new")
    page.fill("#text", "name: plain-paper\ncommand: env\n")
    page.check("#kind-weekly")
    page.click("button[value=check]")
    expect(page.locator("#preview li").first).to_contain_text("Sun")
    expect(page.locator("#check dd").first).to_have_text("plain-paper")
    page.click("button[value=create]")
    expect(page.locator("h1")).to_have_text("plain-paper")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#messages")).to_contain_text("plain-paper is paused")

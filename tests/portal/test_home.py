"""The first page, as somebody finds it in the morning."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.e2e.server import Server

from .axe import findings
from .browser import Window
from .people import add_user, client_of


def submit(server: Server, user: str, text: str) -> str:
    with client_of(server, user) as client:
        return str(client.post("/jobs", content=text).raise_for_status().json()["id"])


def test_a_first_visit_ends_with_a_job_that_ran(open_window: Callable[..., Window], server: Server) -> None:
    add_user(server, "freshman")
    window = open_window("freshman")
    window.go("/")
    expect(window.page.locator("#welcome")).to_be_visible()
    window.page.click("button >> text=Run this job")
    window.page.wait_for_url("**/jobs/job-*")
    window.go("/")
    expect(window.page.locator("#now")).to_be_visible()
    expect(window.page.locator("#welcome")).to_have_count(0)


@pytest.mark.release
def test_counts_lead_to_the_list_and_keep_up(open_window: Callable[..., Window], server: Server) -> None:
    add_user(server, "morning")
    submit(server, "morning", "name: sunrise\ncommand: exit 7\n")
    window = open_window("morning")
    window.go("/")
    failed = window.page.locator("[aria-labelledby=lately] .tile.state-failed")
    expect(failed).to_contain_text("1")
    expect(window.page.locator("[aria-labelledby=failures]")).to_contain_text("Exit code 7")
    window.page.click("details summary >> text=Explanation and suggested fixes")
    submit(server, "morning", "name: sunset\ncommand: exit 8\n")
    expect(failed).to_contain_text("2")  # without loading the page again
    expect(window.page.locator("details[open]:not(.menu)")).to_have_count(1)  # and what was opened stays so
    failed.click()
    expect(window.page.locator("[data-rows] tr")).to_have_count(2)


@pytest.mark.release
def test_nothing_keeps_anybody_out(open_window: Callable[..., Window], server: Server) -> None:
    add_user(server, "visitor")
    window = open_window("visitor")
    window.go("/")
    assert findings(window.page) == []
    assert window.page.evaluate(
        "[...document.querySelectorAll('.card')].every(one => one.scrollWidth <= one.clientWidth)"
    )
    for code in (3, 4):  # two below each other: each can be opened by a finger
        server.wait(submit(server, "visitor", f"name: stumbles\ncommand: exit {code}\n"))
    window.go("/")
    assert findings(window.page) == []


def test_a_phone_shows_all_of_it(open_window: Callable[..., Window]) -> None:
    window = open_window(viewport={"width": 390, "height": 844})
    window.go("/")
    assert window.page.evaluate("document.documentElement.scrollWidth <= innerWidth")

"""The job list in a browser: filters in the address, rows that follow their jobs, several stopped, keys, a phone."""

from __future__ import annotations

import re
from collections.abc import Callable
from uuid import uuid4

import pytest
from playwright.sync_api import Locator, WebSocketRoute, expect

from tests.e2e.server import Server

from .axe import findings
from .browser import Window
from .people import add_user

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}


@pytest.fixture
def group(server: Server) -> str:
    """One of its own for each test."""
    name = f"list-{uuid4().hex[:8]}"
    with server.client() as client:
        client.post(f"{server.url}/api/v1/groups", json={"name": name}).raise_for_status()
    return name


def submit(server: Server, group: str, name: str, command: str = "sleep 1000") -> str:
    text = f"name: {name}\ngroup: {group}\ncommand: {command}\nresources: {{cpu: 0.05, memory: 16Mi}}\n"
    return str(server.submit(text)["id"])


def stop(server: Server, *ids: str) -> None:
    with server.client() as client:
        for id in ids:
            client.post(f"{server.url}/api/v1/jobs/{id}/stop").raise_for_status()


def names(window: Window) -> Locator:
    return window.page.locator("[data-rows] a.open")


def row(window: Window, id: str) -> Locator:
    return window.page.locator(f"tr#{id}")


def chip(window: Window, label: str) -> Locator:
    return window.page.locator("#filters").get_by_label(label)


def open_list(window: Window, group: str, query: str = "") -> None:
    """Live: what happens from now on is told."""
    window.go(f"/jobs?group={group}{query}")
    expect(window.page.locator("#live[data-live=on]")).to_be_visible()


def test_filters_act_at_once_and_stand_in_the_address(window: Window, server: Server, group: str) -> None:
    failed = submit(server, group, "broken", "exit 1")
    server.wait(failed)
    ended = submit(server, group, "fine", "echo hello")
    server.wait(ended)
    open_list(window, group)
    expect(names(window)).to_have_text(["fine", "broken"])
    chip(window, "Failed").check()
    expect(names(window)).to_have_text(["broken"])
    expect(window.page).to_have_url(re.compile(r"state=Failed"))
    window.page.fill("#find", "nothing like it")
    expect(window.page.get_by_role("heading", name="No matching jobs")).to_be_visible()
    expect(window.page).to_have_url(re.compile(r"text=nothing"))
    window.page.reload()
    expect(window.page.locator("#find")).to_have_value("nothing like it")
    window.page.get_by_role("link", name="Clear filters").click()
    expect(window.page).to_have_url(f"{server.url}/jobs")


def test_going_back_brings_the_list_that_was(window: Window, server: Server, group: str) -> None:
    server.wait(submit(server, group, "one", "echo hello"))
    open_list(window, group)
    chip(window, "Failed").check()
    expect(window.page).to_have_url(re.compile(r"state=Failed"))
    window.page.go_back()
    expect(names(window)).to_have_text(["one"])
    expect(chip(window, "Failed")).not_to_be_checked()


def test_a_live_update_keeps_place_focus_and_selection(
    open_window: Callable[..., Window], server: Server, group: str
) -> None:
    ids = [submit(server, group, f"job{number}") for number in range(10)]
    window = open_window(viewport={"width": 1200, "height": 420})
    open_list(window, group)
    chosen, focused = row(window, ids[1]), row(window, ids[2])
    chosen.get_by_role("checkbox").check()
    focused.locator("a.open").focus()
    focused.scroll_into_view_if_needed()
    before = focused.bounding_box()
    new = submit(server, group, "newcomer")
    expect(row(window, new)).to_be_attached()
    expect(names(window).first).to_have_text("newcomer")
    stop(server, ids[2])
    expect(focused.locator(".badge")).to_have_text(re.compile("Cancelled|stopping"))
    assert focused.bounding_box()["y"] == pytest.approx(before["y"], abs=2)  # type: ignore[index]
    expect(focused.locator("a.open")).to_be_focused()
    expect(chosen.get_by_role("checkbox")).to_be_checked()
    expect(window.page.locator("#selection [role=status]")).to_have_text("1 job selected")
    stop(server, new, *ids)


@pytest.mark.release
def test_a_job_that_leaves_the_filter_leaves_the_list(window: Window, server: Server, group: str) -> None:
    job = submit(server, group, "leaving")
    open_list(window, group, "&state=Pending&state=Preparing&state=Running")
    expect(names(window)).to_have_text(["leaving"])
    stop(server, job)
    expect(window.page.get_by_role("heading", name="No matching jobs")).to_be_visible()


def test_several_jobs_are_stopped_after_a_question(window: Window, server: Server, group: str) -> None:
    ids = [submit(server, group, f"job{number}") for number in range(3)]
    open_list(window, group)
    page = window.page
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator("#selection [role=status]")).to_have_text("1 job selected")
    page.locator("#select-all").check()
    expect(page.locator("#selection [role=status]")).to_have_text("3 jobs selected")
    page.get_by_role("button", name="Stop selected jobs").click()
    expect(page.locator("#confirm-text")).to_have_text("Stop these 3 jobs?")
    page.get_by_role("button", name="No").click()
    expect(page.locator("#selection [role=status]")).to_have_text("3 jobs selected")
    page.get_by_role("button", name="Stop selected jobs").click()
    page.get_by_role("button", name="Yes").click()
    expect(page.locator("#messages")).to_contain_text("3 jobs are stopping.")
    for id in ids:
        expect(row(window, id).locator(".badge")).to_have_text("Cancelled")
    expect(page.locator("#selection")).to_be_hidden()


def test_a_row_stops_and_reruns_its_job(window: Window, server: Server, group: str) -> None:
    job = submit(server, group, "again")
    open_list(window, group)
    row(window, job).get_by_role("button", name="Stop again").click()
    expect(window.page.locator("#confirm-text")).to_have_text("Stop again?")
    window.page.get_by_role("button", name="Yes").click()
    expect(row(window, job).locator(".badge")).to_have_text("Cancelled")
    expect(row(window, job).get_by_role("button", name="Stop again")).to_have_count(0)
    row(window, job).get_by_role("link", name="Rerun again").click()
    window.page.get_by_role("button", name="Run unchanged", exact=True).click()
    window.page.wait_for_url(re.compile(r"/jobs/job-"))
    stop(server, window.page.url.rsplit("/", 1)[1].partition("?")[0])


@pytest.mark.release
def test_the_keyboard_is_enough(window: Window, server: Server, group: str) -> None:
    server.wait(submit(server, group, "older", "echo hello"))
    server.wait(submit(server, group, "newer", "echo hello"))
    open_list(window, group)
    keys = window.page.keyboard
    for key in ("j", "j", "k", "j"):
        keys.press(key)
    expect(window.page.get_by_role("link", name="older", exact=True)).to_be_focused()
    keys.press("/")
    expect(window.page.locator("#find")).to_be_focused()
    keys.type("jkx?")  # letters, not commands
    expect(window.page.locator("#find")).to_have_value("jkx?")
    keys.press("Escape")
    keys.press("?")
    expect(window.page.locator("dialog#help")).to_be_visible()
    keys.press("Escape")
    open_list(window, group)
    keys.press("j")
    keys.press("Enter")
    expect(window.page).to_have_url(re.compile(r"/jobs/job-"))
    window.page.wait_for_load_state()  # its scripts have run: they handle the keys
    keys.press("g")
    keys.press("j")
    expect(window.page).to_have_url(f"{server.url}/jobs")


def test_a_line_that_breaks_comes_back_and_misses_nothing(window: Window, server: Server, group: str) -> None:
    lines: list[WebSocketRoute] = []

    def meet(line: WebSocketRoute) -> None:
        lines.append(line)
        line.connect_to_server()

    window.page.route_web_socket(re.compile("/live/jobs"), meet)
    open_list(window, group)
    lines[0].close(code=1012)
    expect(window.page.locator("#live[data-live=off]")).to_be_visible()
    job = submit(server, group, "meanwhile", "echo hello")
    expect(row(window, job)).to_be_visible()
    expect(window.page.locator("#live[data-live=on]")).to_be_visible()
    assert "since=" in lines[1].url


@pytest.mark.release
def test_logging_out_elsewhere_closes_the_list(window: Window, server: Server, group: str) -> None:
    open_list(window, group)
    other = window.page.context.new_page()
    other.goto(f"{server.url}/me")
    other.locator("header details.menu summary").click()
    other.locator("header form[action='/logout'] button").click()
    other.wait_for_url(re.compile("/login"))
    submit(server, group, "unseen", "echo hello")
    window.page.wait_for_url(re.compile(r"/login\?next="))


@pytest.mark.release
def test_the_first_visit_explains_itself(open_window: Callable[..., Window], server: Server, group: str) -> None:
    window = open_window(add_user(server, f"new-{uuid4().hex[:8]}", group))
    window.go("/jobs")
    expect(window.page.get_by_role("heading", name="No jobs yet")).to_be_visible()
    assert findings(window.page) == []
    window.page.get_by_role("button", name="Run this job").click()
    window.page.wait_for_url(re.compile(r"/jobs/job-"))
    window.go("/jobs")
    expect(names(window)).to_have_text(["hello"])


@pytest.mark.release
def test_nobody_is_kept_out(window: Window, server: Server, group: str) -> None:
    server.wait(submit(server, group, "broken", "exit 137"))
    job = submit(server, group, "a-name-that-is-rather-long-" * 4)
    open_list(window, group)
    row(window, job).get_by_role("checkbox").check()
    assert findings(window.page) == []
    window.page.locator("details.pick summary").click()
    assert findings(window.page) == []
    stop(server, job)


@pytest.mark.release
def test_a_phone_shows_it_all_without_scrolling_sideways(
    open_window: Callable[..., Window], server: Server, group: str
) -> None:
    job = submit(server, group, "unbroken" * 12)
    window = open_window(**PHONE)
    open_list(window, group)
    assert window.page.evaluate("document.documentElement.scrollWidth") <= 390
    expect(row(window, job).get_by_role("button", name=re.compile("^Stop"))).to_be_visible()
    assert findings(window.page) == []
    window.page.get_by_role("button", name="Administration").tap()
    window.page.get_by_role("link", name="Instance types").tap()
    expect(window.page).to_have_url(re.compile("/admin/instance-types"))
    stop(server, job)


def test_reading_and_filtering_need_no_scripts(open_window: Callable[..., Window], server: Server, group: str) -> None:
    server.wait(submit(server, group, "plain", "exit 1"))
    window = open_window(java_script_enabled=False)
    window.go(f"/jobs?group={group}")
    expect(names(window)).to_have_text(["plain"])
    chip(window, "Succeeded").check()
    window.page.get_by_role("button", name="Show").click()
    expect(window.page.get_by_role("heading", name="No matching jobs")).to_be_visible()


def test_names_do_nothing_but_show(window: Window, server: Server, group: str) -> None:
    name = "<img src=x onerror=alert(1)>"
    text = f'name: "{name}"\ngroup: {group}\ncommand: sleep 1000\nresources: {{cpu: 0.05, memory: 16Mi}}\n'
    open_list(window, group)
    job = str(server.submit(text)["id"])
    expect(row(window, job).locator("a.open")).to_have_text(name)
    row(window, job).get_by_role("button", name="Stop").click()
    expect(window.page.locator("#confirm-text")).to_have_text(f"Stop {name}?")
    window.page.get_by_role("button", name="Yes").click()
    expect(row(window, job).locator(".badge")).to_have_text("Cancelled")


@pytest.mark.release
def test_what_was_asked_about_is_done_though_its_row_was_renewed(window: Window, server: Server, group: str) -> None:
    job = submit(server, group, "asked-about")
    open_list(window, group)
    expect(row(window, job).locator(".badge")).to_have_text("Running")
    row(window, job).get_by_role("button", name="Stop").click()
    pressed = row(window, job).element_handle()
    assert pressed
    pressed.evaluate("row => { row.dataset.v = 'of before'; }")
    other = submit(server, group, "another")
    expect(names(window)).to_have_text(["another", "asked-about"])
    assert not pressed.evaluate("row => row.isConnected")
    window.page.get_by_role("button", name="Yes").click()
    expect(row(window, job).locator(".badge")).to_have_text("Cancelled")
    expect(row(window, other).locator(".badge")).to_have_text("Running")
    stop(server, other)

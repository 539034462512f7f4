"""The log view in a browser: live, coloured, searchable, and as large as a log may be."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.e2e.server import TIMEOUT, Server

from .axe import findings
from .browser import Window

GATE = "while [ ! -e {gate} ]; do sleep 0.05; done"


def submit(server: Server, name: str, *lines: str, mount: Path | None = None) -> str:
    mounts = f"mounts: ['{mount}:{mount}:rw']\n" if mount else ""
    return str(server.submit(f"name: {name}\n{mounts}command: |\n" + "".join(f"  {line}\n" for line in lines))["id"])


def finish(server: Server, job: str) -> str:
    server.wait(job)
    return job


def rows(window: Window) -> Locator:
    return window.page.locator(".log-rows .row")


def scroller(window: Window) -> Locator:
    return window.page.locator(".log-scroll")


def open_log(window: Window, job: str, more: str = "") -> None:
    window.go(f"/jobs/{job}/log{more}")
    window.page.locator(".log-view.scripted").wait_for()


class Gate:
    """Lets a job go on when the test says so."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.chmod(0o777)

    def wait(self, name: str) -> str:
        return GATE.format(gate=self.folder / name)

    def open(self, name: str) -> None:
        (self.folder / name).touch()

    def await_job(self, name: str) -> None:
        """The other way round: until the job has touched that file."""
        began = time.monotonic()
        while not (self.folder / name).exists():
            assert time.monotonic() - began < TIMEOUT, f"the job never made {name}"
            time.sleep(0.05)


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


def test_lines_appear_as_they_are_written(window: Window, gate: Gate) -> None:
    job = submit(
        window.server, "live-lines", "echo first line", gate.wait("go"), "echo second line", "exit 3", mount=gate.folder
    )
    open_log(window, job)
    expect(rows(window)).to_have_text(["first line"])
    gate.open("go")
    expect(rows(window)).to_have_text(["first line", "second line"])
    expect(window.page.locator("[data-status]")).to_have_text("Ended: Failed, exit code 3.")
    expect(window.page.locator("#job .badge")).to_have_text("Failed")


def test_a_log_that_has_not_started_starts_by_itself(window: Window) -> None:
    held = submit(window.server, "in-the-way", "sleep 600")
    job = submit(window.server, "comes-later", "echo hello")
    try:
        open_log(window, job)
    finally:
        window.server.client().post(f"/jobs/{held}/stop").raise_for_status()
    expect(rows(window)).to_have_text(["hello"])


def test_what_a_job_prints_is_coloured_and_harmless(open_window: Callable[..., Window], server: Server) -> None:
    printed = [
        r"printf '\033[31mred\033[0m \033[1;38;2;10;20;30mmixed\033[0m plain\n'",
        r"printf '<img src=x onerror=alert(1)><script>alert(1)</script>\n'",
        r"printf '10%%\r50%%\r100%%\n'",
        r"printf 'a\342\200\256b \000 \377\n'",
        *[rf"printf '\033[{code}mcolour {code}\033[0m\n'" for code in (*range(30, 38), *range(90, 98), *range(40, 48))],
        r"head -c 200000 /dev/zero | tr '\0' x",
    ]
    job = finish(server, submit(server, "colours", *printed))
    for theme in ("light", "dark"):
        window = open_window(color_scheme=theme, reduced_motion="reduce")
        open_log(window, job)
        expect(rows(window).last).to_be_visible()
        shown = rows(window).all_text_contents()
        assert shown[:4] == [
            "red mixed plain",
            "<img src=x onerror=alert(1)><script>alert(1)</script>",
            "100%",
            "a⟨U+202E⟩b ⟨U+0000⟩ \ufffd",
        ]
        assert window.page.locator(".log-rows img, .log-rows script").count() == 0
        colour = rows(window).first.locator("span").first.evaluate("e => getComputedStyle(e).color")
        assert colour == {"light": "rgb(179, 38, 30)", "dark": "rgb(255, 138, 128)"}[theme]
    assert findings(window.page) == []


@pytest.fixture(scope="module")
def counted(server: Server) -> str:
    """A log of 50,000 numbered lines."""
    return finish(server, submit(server, "counted", "seq -f 'line %06g of many' 1 50000"))


def first_number(window: Window) -> int:
    return int((rows(window).first.text_content() or "").split()[1])


@pytest.mark.release
def test_going_up_loads_all_of_a_log_and_keeps_the_page_small(window: Window, counted: str) -> None:
    open_log(window, counted)
    expect(rows(window).last).to_have_text("line 050000 of many")
    assert rows(window).count() == 2000
    while first_number(window) > 1:
        before = first_number(window)
        scroller(window).evaluate("e => { e.scrollTop = 0 }")
        window.page.wait_for_function(
            "before => Number(document.querySelector('.log-rows .row').textContent.split(' ')[1]) < before", arg=before
        )
        assert rows(window).count() < 16_000
    expect(window.page.locator("[data-edge=older]")).to_be_hidden()
    expect(window.page.locator("[data-edge=newer]")).to_be_attached()
    numbers = [int(text.split()[1]) for text in rows(window).all_text_contents()]
    assert numbers == list(range(1, len(numbers) + 1))  # none lost, none twice
    window.page.locator("[data-do=bottom]").click()
    expect(rows(window).last).to_have_text("line 050000 of many")


@pytest.mark.release
def test_searching_jumps_to_hits_anywhere(window: Window, counted: str) -> None:
    open_log(window, counted)
    page = window.page
    page.get_by_role("searchbox", name="Search this log").fill("LINE 000777")
    page.keyboard.press("Enter")
    hit = page.locator(".row.hit.current")
    expect(hit).to_have_text("line 000777 of many")
    expect(hit).to_be_in_viewport()
    page.get_by_label("Match case").check()
    expect(page.locator("[data-count]")).to_have_text("No matches")
    page.get_by_label("Match case").uncheck()
    page.get_by_label("Regular expression").check()
    page.get_by_role("searchbox", name="Search this log").fill("line 0[45]0000")
    page.keyboard.press("Enter")
    expect(page.locator("[data-count]")).to_have_text("1 of 2")
    expect(hit).to_have_text("line 040000 of many")
    page.keyboard.press("Enter")
    expect(hit).to_have_text("line 050000 of many")
    page.keyboard.press("Shift+Enter")
    expect(hit).to_have_text("line 040000 of many")
    page.get_by_role("searchbox", name="Search this log").fill("(")
    page.keyboard.press("Enter")
    expect(page.locator("[data-count]")).to_contain_text("Search failed")
    window.wrongs = [wrong for wrong in window.wrongs if "400" not in wrong]  # the refusal is told on the console


@pytest.mark.release
def test_the_first_error_is_one_click_away(window: Window, server: Server) -> None:
    lines = ["seq 1 20000", "echo '0 errors, mean squared error: 0.5'", "echo 'ValueError: wrong shape'", "seq 1 20000"]
    job = finish(server, submit(server, "has-error", *lines))
    open_log(window, job)
    window.page.get_by_role("button", name="First error").click()
    expect(window.page.locator(".row.target")).to_have_text("ValueError: wrong shape")
    expect(window.page.locator("[data-status]")).to_have_text("This is the first line that looks like an error.")


def test_reading_further_up_is_left_in_peace(window: Window, gate: Gate) -> None:
    more = ["seq 1 500", gate.wait("go"), "seq 501 600", gate.wait("end")]
    job = submit(window.server, "in-peace", *more, mount=gate.folder)
    open_log(window, job)
    expect(rows(window).last).to_have_text("500")
    scroller(window).evaluate("e => { e.scrollTop = 1000 }")
    expect(window.page.locator("[data-do=bottom]")).to_be_visible()
    gate.open("go")
    expect(window.page.locator("[data-unseen]")).to_have_text("100 new lines")
    assert scroller(window).evaluate("e => e.scrollTop") == 1000
    window.page.locator("[data-do=bottom]").click()
    expect(rows(window).last).to_be_in_viewport()
    expect(rows(window).last).to_have_text("600")
    gate.open("end")


def test_a_selection_outlives_new_lines(window: Window, gate: Gate) -> None:
    lines = ["echo select me", gate.wait("go"), "seq 1 300", gate.wait("end")]
    job = submit(window.server, "selected", *lines, mount=gate.folder)
    open_log(window, job)
    rows(window).first.select_text()
    gate.open("go")
    expect(rows(window)).to_have_count(301)
    assert window.page.evaluate("String(getSelection())").strip() == "select me"
    assert scroller(window).evaluate("e => e.scrollTop") == 0
    window.page.evaluate("getSelection().removeAllRanges()")
    expect(rows(window).last).to_be_in_viewport()
    gate.open("end")


def test_a_fast_writer_does_not_drown_the_page(window: Window, gate: Gate) -> None:
    flood = ["seq -f 'flood %012g' 1 800000", "echo the end", f"touch {gate.folder}/flooded"]
    job = submit(window.server, "flood", "echo begin", gate.wait("go"), *flood, gate.wait("end"), mount=gate.folder)
    open_log(window, job)
    expect(rows(window).first).to_have_text("begin")
    with window.server.paused():  # so it is behind, however slow this machine lets the job write
        gate.open("go")
        gate.await_job("flooded")
    expect(rows(window).last).to_have_text("the end")
    gap = window.page.locator(".log-rows .log-gap")
    expect(gap).to_contain_text("skipped")
    assert rows(window).count() < 15_000
    gap.get_by_role("button", name="Load").click()
    expect(rows(window).filter(has_text=re.compile(r"flood 0000000\d+")).first).to_be_attached()
    gate.open("end")


@pytest.mark.release
def test_how_somebody_reads_logs_is_remembered(window: Window, counted: str) -> None:
    open_log(window, counted)
    window.page.get_by_label("Wrap lines").uncheck()
    window.page.get_by_label("Timestamps").check()
    open_log(window, counted, "?stream=stdout")
    expect(window.page.get_by_label("Wrap lines")).not_to_be_checked()
    expect(rows(window).last).to_have_attribute("data-at", re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d"))


def test_it_is_read_without_scripts(open_window: Callable[..., Window], counted: str) -> None:
    window = open_window(java_script_enabled=False)
    window.go(f"/jobs/{counted}/log")
    expect(window.page.locator("pre")).to_contain_text("line 050000 of many")
    window.page.get_by_role("link", name="Older lines").click()
    expect(window.page.locator("pre")).to_contain_text("line 048000 of many")

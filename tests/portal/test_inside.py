"""Getting inside from the browser: a terminal, pdb in the page, holds, and a word when a job calls for its owner."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.server import Server

from .axe import findings
from .browser import Window, keep_pictures
from .people import add_user
from .test_languages import Tour

LIGHT = "resources: {cpu: 0.1, memory: 128Mi}\n"
PROGRAM = """\
command: |
  cat > train.py <<'EOF'
  import paipdb
  def work(n):
      total = 0
      for i in range(n):
          total += i
      return total
  paipdb.settrace()
  x = work(4)
  print("trained", x)
  EOF
  python3 train.py
"""


def screen(page: Page) -> str:
    return page.locator(".xterm-rows").inner_text()


def wait_for_screen(page: Page, text: str) -> None:
    expect(page.locator(".xterm-rows")).to_contain_text(text)


def wait_for_size(page: Page) -> None:
    """Wait until the task's terminal has as many rows as the page shows: the page may be laid out in several steps."""
    deadline = time.monotonic() + 60
    rows = None
    while rows != page.locator(".xterm-rows > div").count():
        assert time.monotonic() < deadline, screen(page)
        page.keyboard.type("clear; echo $(stty size) now\n")
        expect(page.locator(".xterm-rows")).to_have_text(re.compile(r"\d+ \d+ now"))
        found = re.search(r"(\d+) \d+ now", screen(page))
        rows = int(found[1]) if found else None


def test_a_terminal_is_typed_into(open_window: Callable[..., Window], submit: Callable[[str, str], str]) -> None:
    job = submit("ada", f"name: inside-shell\ninstances: 2\n{LIGHT}command: sleep 600\n")
    window = open_window(permissions=["clipboard-read", "clipboard-write"])
    page = window.page
    window.go(f"/jobs/{job}")
    page.get_by_role("link", name="Terminal of main-1").click()
    expect(page.locator("[data-status]")).to_have_text("Connected to main-1")
    page.keyboard.type("echo $((6*7))-$HOSTNAME; printf '\\033[38;2;200;40;40mred\\033[0m\\n'\n")
    wait_for_screen(page, "42-main-1")
    page.keyboard.type("clear; stty size\n")
    expect(page.locator(".xterm-rows")).to_have_text(re.compile(r"\d+ \d{2,}"))
    before = screen(page)
    page.set_viewport_size({"width": 900, "height": 600})
    expect(page.locator(".xterm-rows > div")).not_to_have_count(len(before.splitlines()))
    wait_for_size(page)
    page.evaluate("navigator.clipboard.writeText('echo pas' + '\\'\\'ted')")
    page.keyboard.press("Control+Shift+V")
    page.keyboard.press("Enter")
    wait_for_screen(page, "pasted")
    box = page.locator(".xterm-rows span", has_text=" now").first.bounding_box()
    assert box is not None
    page.mouse.dblclick(box["x"] + box["width"] - 4, box["y"] + box["height"] / 2)
    page.keyboard.press("Control+Shift+C")
    page.wait_for_function("navigator.clipboard.readText().then(text => text.trim() === 'now')")
    page.keyboard.press("Shift+F6")
    expect(page.locator("#terminal-task")).to_be_focused()
    keep_pictures(page, "terminal")
    assert findings(page) == []
    page.locator(".xterm").click()
    page.keyboard.type("exit 5\n")
    expect(page.locator("[data-status]")).to_have_text("The shell ended with exit code 5.")
    page.get_by_role("button", name="Reconnect").click()
    expect(page.locator("[data-status]")).to_have_text("Connected to main-1")
    page.locator("#terminal-task").select_option("main-0")
    expect(page.locator("[data-status]")).to_have_text("Connected to main-0")


@pytest.mark.release
def test_pdb_in_the_page(open_window: Callable[..., Window], server: Server, submit: Callable[[str, str], str]) -> None:
    add_user(server, "debora")
    window = open_window("debora")
    page = window.page
    window.go("/jobs")
    elsewhere = open_window("debora")
    elsewhere.go("/me")
    job = submit("debora", f"name: inside-pdb\n{LIGHT}{PROGRAM}")
    row = page.locator(f"[id='{job}']")
    expect(row).to_contain_text("debugger waiting at train.py:8 in main-0")
    expect(elsewhere.page.locator("#messages")).to_contain_text(
        "A debugger is waiting at train.py:8 in main-0 of inside-pdb."
    )
    row.get_by_role("link", name="debugger waiting").click()
    status = page.locator("[data-status]")
    expect(status).to_have_text("Stopped at train.py:8 in <module>")
    expect(page.locator(".source [aria-current]")).to_have_text("x = work(4)")
    page.get_by_role("button", name="Step into").click()
    expect(status).to_have_text("Stopped at train.py:2 in work")
    page.get_by_role("button", name="Step over").click()
    expect(status).to_have_text("Stopped at train.py:3 in work")
    expect(page.locator(".stack-frames button")).to_have_count(2)
    page.locator(".stack-frames button", has_text="module").click()
    expect(status).to_have_text("Stopped at train.py:8 in <module>")
    page.get_by_role("button", name="Go to callee").click()
    page.locator("#pdb-line").fill("p 'n is', n * 10")
    page.keyboard.press("Enter")
    expect(page.locator("[data-console]")).to_contain_text("('n is', 40)")
    page.locator("#pdb-line").press("ArrowUp")
    expect(page.locator("#pdb-line")).to_have_value("p 'n is', n * 10")
    page.locator("#pdb-line").fill("")
    keep_pictures(page, "debugger")
    assert findings(page) == []
    page.get_by_role("button", name="Continue").click()
    expect(status).to_have_text("The debugger has exited: the program ended or continued without it.")
    assert server.wait(job)["state"] == "Succeeded"
    window.go(f"/jobs/{job}/log")
    expect(page.locator("#log")).to_contain_text("trained 6")


def test_a_held_job_is_looked_into_and_let_go(
    window: Window, open_window: Callable[..., Window], submit: Callable[[str, str], str]
) -> None:
    page = window.page
    job = submit("ada", f"name: inside-held\nhold: 2h\n{LIGHT}command: |\n  echo left > evidence\n  exit 3\n")
    window.go(f"/jobs/{job}")
    expect(page.locator("#job-state")).to_contain_text("Held")
    expect(page.locator("#hold")).to_contain_text("On hold with all resources: main-0.")
    page.locator("#hold-by").select_option("3 days")
    page.get_by_role("button", name="Extend").click()
    expect(page.locator("#hold time")).to_have_text("in 3 days")
    page.locator(".access-methods summary").click()
    expect(page.locator(".access-methods")).to_contain_text(f"holdfast ssh {job} main-0")
    keep_pictures(page, "job-held")
    assert findings(page) == []
    page.get_by_role("link", name="Stack traces of main-0").click()
    expect(page.get_by_role("heading", name="Stack traces of inside-held")).to_be_visible()
    assert findings(page) == []
    phone = open_window(locale="zh-CN", viewport={"width": 390, "height": 844})
    tour = Tour(phone, "zh-Hans", own={"ada", "default", "host", "inside", "held", "main"})
    for path in ("", "/terminal?task=main-0", "/stacks?task=main-0", "?section=events", "/debugger?task=main-0"):
        tour.visit(f"/jobs/{job}{path}", f"inside-{path[1:4]}")
        assert phone.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    assert tour.english == {}
    window.go(f"/jobs/{job}")
    page.get_by_role("button", name="Keep files only").click()
    page.locator("#confirm").get_by_role("button", name="Yes").click()
    expect(page.locator("#hold")).to_contain_text("Files on hold: main-0.")
    page.get_by_role("link", name="Terminal of main-0").click()
    expect(page.locator("[data-status]")).to_have_text("Connected to main-0")
    page.keyboard.type("cat evidence\n")
    wait_for_screen(page, "left")
    window.go(f"/jobs/{job}")
    page.get_by_role("button", name="Release").click()
    page.locator("#confirm").get_by_role("button", name="Yes").click()
    expect(page.locator("#job-state")).to_have_text("Failed")
    expect(page.locator("#hold")).to_have_count(0)

"""Seeing why from the browser: verdicts first on a job's page, charts of what it uses, and who is told of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from threading import Thread

import pytest
from playwright.sync_api import expect

from .axe import findings
from .browser import Window, keep_pictures

LIGHT = "resources: {cpu: 0.1, memory: 128Mi}\n"

FAILS = """\
name: why-failed
command: |
  cat > train.py <<'EOF'
  def load(path):
      return open(path)
  load("/data/train.csv")
  EOF
  python3 train.py
"""


def test_a_verdict_comes_first_with_evidence_that_leads_into_the_log(
    open_window: Callable[..., Window], submit: Callable[[str, str], str]
) -> None:
    job = submit("ada", FAILS + LIGHT)
    window = open_window()
    page = window.page
    window.go(f"/jobs/{job}")
    why = page.locator("#why")
    expect(why.locator(".conclusion")).to_contain_text("/data/train.csv")
    expect(why.locator(".frame")).to_contain_text("train.py:2")
    expect(why.locator(".remedies li").first).to_be_visible()
    assert findings(page) == []
    keep_pictures(page, "job-verdict")
    why.locator(".quote a").first.click()
    expect(page.locator(".log-rows, [data-log]").first).to_contain_text("/data/train.csv")
    window.go("/")
    line = page.locator(f"#failed-{job}")
    expect(line.locator(".conclusion")).to_contain_text("/data/train.csv")
    assert findings(page) == []


def test_a_job_that_waits_says_for_whom_and_until_when(
    open_window: Callable[..., Window], submit: Callable[[str, str], str]
) -> None:
    window = open_window()
    cores = window.server.get("/capacity").json()["nodes"][0]["cpu"]
    whole = f"resources: {{cpu: {cores}, memory: 128Mi}}\n"
    first = submit("ada", f"name: has-it-all\ntime_limit: 2h\n{whole}command: sleep 600\n")
    second = submit("ada", f"name: waits-for-it\n{whole}command: 'true'\n")
    page = window.page
    window.go(f"/jobs/{second}")
    why = page.locator("#why")
    why.get_by_text("Jobs using these resources").first.click()
    expect(why.locator(".holders").first).to_contain_text("has-it-all")
    expect(why.locator(f'.holders a[href="/jobs/{first}"]').first).to_be_visible()
    expect(page.locator("#estimate")).to_contain_text("Estimated start")
    assert findings(page) == []


@pytest.mark.release
def test_charts_are_drawn_as_figures_come(
    open_window: Callable[..., Window], submit: Callable[[str, str], str]
) -> None:
    job = submit("ada", f"name: measured\ninstances: 2\n{LIGHT}command: while :; do sleep 0.1; done\n")
    window = open_window()
    page = window.page
    window.go(f"/jobs/{job}")
    page.get_by_role("link", name="Metrics").click()
    for name in ("cpu", "memory", "net", "disk"):
        expect(page.locator(f"[data-chart={name}] canvas")).to_be_visible()
        expect(page.locator(f"[data-chart={name}] .chart-summary")).to_contain_text("max")
    expect(page.locator("[data-chart=memory] .chart-summary")).to_have_text(re.compile(r"now \d[\d.]* [KM]iB"))
    expect(page.locator("[data-chart=gpu]")).to_have_count(0)
    page.get_by_role("link", name="Lifetime").click()
    expect(page.locator("[data-chart=cpu] canvas")).to_be_visible()
    page.get_by_label("Task").select_option("main-1")
    expect(page).to_have_url(re.compile("task=main-1"))
    expect(page.locator("[data-chart=cpu] canvas")).to_be_visible()
    assert findings(page) == []
    expect(page.locator("[data-chart=cpu] canvas")).to_be_visible()
    keep_pictures(page, "job-figures")


@contextmanager
def receiver() -> Iterator[tuple[str, Queue[str]]]:
    """A webhook of this machine, and the events that came to it."""
    came: Queue[str] = Queue()

    class Receive(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            came.put(json.loads(self.rfile.read(int(self.headers["content-length"])))["event"])
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Receive) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/hooks/secret-part", came
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.release
def test_notifications_are_set_up_tried_and_told(
    open_window: Callable[..., Window], submit: Callable[[str, str], str]
) -> None:
    window = open_window()
    page = window.page
    window.go("/me/notifications")
    assert findings(page) == []
    page.get_by_label("Address").fill("ftp://nowhere")
    page.get_by_role("button", name="Add").click()
    expect(page.locator("#address-problem")).to_contain_text("must begin with https://")
    window.wrongs.clear()  # the 400 of this very form is told on the console
    with receiver() as (address, came):
        page.get_by_label("Address").fill(address)
        page.get_by_label("A job started").check()
        page.get_by_role("button", name="Add").click()
        row = page.get_by_role("row").filter(has_text="127.0.0.1").first
        expect(row).not_to_contain_text("secret-part")
        row.get_by_role("button", name="Send test").click()
        expect(page.locator("#messages")).to_contain_text("The test notification was delivered.")
        assert came.get(timeout=30) == "test"
        job = submit("ada", f"name: told-of\n{LIGHT}command: exit 4\n")
        assert {came.get(timeout=60), came.get(timeout=60)} == {"started", "failed"}
        window.go("/me/notifications")
        expect(
            page.locator("tr", has=page.locator(f'a[href="/jobs/{job}"]')).filter(has_text="A job failed")
        ).to_be_visible()
        assert findings(page) == []
        keep_pictures(page, "notifications")
        page.get_by_role("button", name="Delete").first.click()
        page.get_by_role("dialog").get_by_role("button", name="Yes").click()
        expect(page.locator("#messages")).to_contain_text("deleted")

"""One job's page in a browser: it follows the job, keeps what the reader does, and lets them act."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.e2e.server import Server

from .axe import findings
from .browser import Window, keep_pictures

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPj/HwADBwIAMCbHYQAAAABJRU5ErkJggg=="


@pytest.fixture
def full(server: Server) -> Iterator[Callable[[], None]]:
    """The machine is taken until this is called."""
    cores = server.get("/capacity").json()["nodes"][0]["cpu"]
    job = server.submit(f"name: page-blocker\nresources: {{cpu: {cores}, memory: 64Mi}}\ncommand: sleep 600\n")

    def free() -> None:
        with server.client() as client:
            client.post(f"/jobs/{job['id']}/stop").raise_for_status()

    yield free
    free()
    server.wait(job["id"])


def test_the_page_follows_its_job_to_the_end(window: Window, server: Server, full: Callable[[], None]) -> None:
    job = server.submit("name: page-follow\nresources: {memory: 64Mi}\ncommand: |\n  echo the end\n")["id"]
    window.go(f"/jobs/{job}")
    page = window.page
    state = page.locator("#job-state")
    expect(state).to_have_text("Pending")
    expect(page.locator("#why")).to_contain_text("; free: ")
    page.evaluate("window.stays = true")
    page.fill("#new-tag", "half typ")
    full()
    expect(state).to_have_text("Succeeded")
    expect(page.locator("#why")).to_contain_text("Succeeded")
    expect(page.locator("table.tasks")).to_contain_text("Succeeded")
    expect(page.locator("#log")).to_contain_text("the end")
    assert page.evaluate("window.stays")  # it was never loaded anew
    expect(page.locator("#new-tag")).to_have_value("half typ")
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    assert page.locator("time[data-show=date]").first.get_attribute("title")


def test_open_details_scroll_and_focus_stay_when_the_job_changes(window: Window, server: Server) -> None:
    lines = "".join(f"  echo line {n}\n" for n in range(40))
    job = server.submit(f"name: page-stays\ncommand: |\n{lines}  exit 3\n")["id"]
    server.wait(job)
    window.go(f"/jobs/{job}")
    page = window.page
    page.locator("#command-1 > summary").click()
    page.locator("details.exit > summary").focus()
    page.keyboard.press("Enter")
    page.evaluate("scrollTo(0, 200)")
    with server.client() as client:
        client.put(f"/jobs/{job}/tags/fresh").raise_for_status()
    expect(page.locator(".job-tags")).to_contain_text("fresh")
    assert page.locator("#command-1").get_attribute("open") is not None
    assert page.locator("details.exit").get_attribute("open") is not None
    assert page.evaluate("document.activeElement.localName") == "summary"
    assert page.evaluate("scrollY") == 200


def test_stop_asks_first_and_rerun_opens_the_job_to_change_or_run_as_it_was(window: Window, server: Server) -> None:
    job = server.submit("name: page-stop\nresources: {cpu: 0.1, memory: 64Mi}\ncommand: sleep 600\n")["id"]
    window.go(f"/jobs/{job}")
    page = window.page
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#confirm-text")).to_have_text("Stop page-stop? Unsaved work is lost.")
    page.locator("#confirm").get_by_role("button", name="No").click()
    expect(page.locator("#job-state")).not_to_contain_text("Cancelled")
    page.get_by_role("button", name="Stop").click()
    page.locator("#confirm").get_by_role("button", name="Yes").click()
    expect(page.locator("#job-state")).to_have_text("Cancelled")
    expect(page.locator("#why")).to_contain_text("Cancelled by ada")
    page.get_by_role("link", name="Rerun").click()
    expect(page.locator("#f-name")).to_have_value("page-stop")
    page.get_by_role("button", name="Run unchanged", exact=True).click()
    page.wait_for_url(lambda url: job not in url)
    expect(page.locator("#messages")).to_contain_text("This is the new job")
    page.get_by_role("link", name=job).click()
    page.wait_for_url(f"**/jobs/{job}")
    with server.client() as client:
        client.post("/jobs/page-stop/stop").raise_for_status()


@pytest.mark.release
def test_artifacts_are_looked_at_and_texts_copied(open_window: Callable[..., Window], server: Server) -> None:
    text = (
        "name: page-files\ncommand: |\n  mkdir -p ~/artifacts\n"
        f"  echo {PNG} | base64 -d > ~/artifacts/curve.png\n"
        "  echo '<script>document.title = 1</script>' > ~/artifacts/report.html\n"
    )
    job = server.submit(text)["id"]
    server.wait(job)
    window = open_window(permissions=["clipboard-read", "clipboard-write"])
    page = window.page
    window.go(f"/jobs/{job}?section=artifacts")
    page.get_by_role("link", name="curve.png", exact=True).click()
    picture = page.locator("img.preview")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 1
    page.get_by_role("link", name="report.html", exact=True).click()
    expect(page.locator("pre.preview")).to_have_text(re.compile("<script>document.title"))
    with page.expect_download() as download:
        page.get_by_role("link", name="Download report.html").click()
    assert Path(download.value.path()).read_text().startswith("<script>")
    page.get_by_role("link", name="Configuration").click()
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()").startswith("name: page-files")
    window.go(f"/jobs/{job}")
    page.get_by_role("button", name="Copy ID").click()
    page.wait_for_function("id => navigator.clipboard.readText().then(text => text === id)", arg=job)


@pytest.fixture
def failed(server: Server) -> str:
    lines = ["mkdir -p ~/artifacts", "touch ~/artifacts/a", "exit 9"]
    head = f"name: page-{'failed-' * 12}long\nretry: {{max: 1}}\nports: {{http: 1}}\n"
    head += "instances: 2\nresources: {cpu: 0.2, memory: 64Mi}\n"
    text = head + "command: |\n" + "".join(f"  {line}\n" for line in lines)
    job = str(server.submit(text)["id"])
    server.wait(job)
    return job


@pytest.mark.release
def test_every_section_can_be_used_by_all(window: Window, failed: str) -> None:
    for section in ("", "tasks&task=main-0", "events", "artifacts&file=a", "configuration"):
        window.go(f"/jobs/{failed}?section={section}")
        keep_pictures(window.page, f"job-{section.partition('&')[0] or 'overview'}")
        assert findings(window.page, frame=not section) == []


@pytest.mark.release
def test_it_fits_a_phone(open_window: Callable[..., Window], failed: str) -> None:
    window = open_window(viewport={"width": 360, "height": 700}, has_touch=True, is_mobile=True)
    for section in ("", "tasks", "events", "artifacts", "configuration"):
        window.go(f"/jobs/{failed}?section={section}")
        assert window.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, section
        keep_pictures(window.page, f"job-{section or 'overview'}-phone", "light")
    assert findings(window.page) == []


def test_it_is_read_without_scripts(open_window: Callable[..., Window], failed: str, server: Server) -> None:
    window = open_window(java_script_enabled=False)
    window.go(f"/jobs/{failed}")
    assert "Exit code 9" in window.page.inner_text("#why")
    window.page.click("nav.tabs >> text=Events")
    assert "Submitted" in window.page.inner_text(".timeline")
    assert server.get(f"/jobs/{failed}").json()["state"] == "Failed"

"""A new job in a real browser: the form and the file follow each other, and the server says what it thinks of them."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.server import Server

from .axe import findings
from .browser import Window, keep_pictures

PASTE = """([text]) => {
  const data = new DataTransfer();
  data.setData("text/plain", text);
  document.querySelector(".cm-content").dispatchEvent(
    new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true}));
}"""
DROP = """([name, text]) => {
  const data = new DataTransfer();
  data.items.add(new File([text], name));
  for (const kind of ["dragenter", "dragover", "drop"])
    document.body.dispatchEvent(new DragEvent(kind, {dataTransfer: data, bubbles: true, cancelable: true}));
}"""
OPENPAI = """protocolVersion: 2
name: from_openpai
type: job
prerequisites: [{type: dockerimage, name: img, uri: host}]
secrets: {token: pony}
taskRoles:
  worker:
    instances: 2
    dockerImage: img
    resourcePerInstance: {cpu: 1, memoryMB: 256, gpu: 0}
    commands: [echo a]
"""


ACCEPTED = re.compile("^card verdict (now|wait)$")  # jobs of other tests may have what it asks for


def open_new(window: Window, query: str = "") -> Page:
    window.go(f"/jobs/new{query}")
    expect(window.page.locator("#verdict:not(.busy)")).to_be_visible()
    expect(window.page.locator(".cm-content")).to_be_visible()
    return window.page


def paste(page: Page, text: str) -> None:
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.evaluate(PASTE, [text])


def lines(page: Page) -> list[str]:
    found: list[str] = page.locator(".cm-line").all_inner_texts()
    return [line.rstrip() for line in found]


def leave(page: Page) -> None:
    """What was typed is given up: no question on the way out."""
    page.on("dialog", lambda dialog: dialog.accept())


def test_the_form_writes_the_file_and_the_file_fills_the_form(window: Window) -> None:
    page = open_new(window)
    expect(page.locator("#verdict")).to_have_class(ACCEPTED)
    page.fill("[data-role-bind=command]", "python3 train.py\necho done")
    page.fill("#f-name", "trainer")
    assert lines(page)[:4] == ["name: trainer", "command: |", "  python3 train.py", "  echo done"]
    page.get_by_label("cpu-2").check()
    page.fill("#f-time_limit", "6h")
    page.get_by_role("button", name="Add a variable").first.click()
    page.keyboard.type("SEED")
    page.keyboard.press("Tab")
    page.keyboard.type("007")
    expect(page.locator(".cm-content")).to_contain_text("instance_type: cpu-2")
    assert "  SEED: 007" in [line.replace('"', "") for line in lines(page)]
    paste(page, "# mine\nname: other   # kept\ncommand: ls\nretry: 2\nresources: {cpu: 0.5}\n")
    expect(page.locator("#f-name")).to_have_value("other")
    expect(page.locator("#f-retry")).to_have_value("2")
    expect(page.locator("[data-role-bind=cpu]")).to_have_value("0.5")
    page.fill("#f-retry", "3")
    assert lines(page)[:4] == ["# mine", "name: other # kept", "command: ls", "retry: 3"]
    leave(page)


@pytest.mark.release
def test_roles_are_added_named_and_removed(window: Window) -> None:
    page = open_new(window)
    page.get_by_role("button", name="Add a role").click()
    page.keyboard.type("helper")
    page.keyboard.press("Tab")
    expect(page.get_by_role("heading", name="Role helper")).to_be_visible()
    assert [line for line in lines(page) if line in ("roles:", "  main:", "  helper:")] == [
        "roles:",
        "  main:",
        "  helper:",
    ]
    page.get_by_role("button", name="Remove this role").first.click()
    expect(page.get_by_role("heading", name="Role main")).to_have_count(0)
    expect(page.locator("#verdict")).to_have_class(ACCEPTED)
    leave(page)


def test_mistakes_are_told_at_their_line_and_their_field(window: Window) -> None:
    page = open_new(window)
    page.fill("#f-time_limit", "soon")
    expect(page.locator("#f-time_limit-problem")).to_be_visible()
    expect(page.locator(".cm-lintRange-error")).to_contain_text("time_limit: soon")
    expect(page.locator("#verdict")).to_have_class("card verdict refused")
    page.locator("#verdict button.at-line").click()
    expect(page.locator(".cm-content")).to_be_focused()
    page.fill("#f-time_limit", "1h")
    expect(page.locator("#f-time_limit-problem")).to_be_hidden()
    expect(page.locator("#verdict")).to_have_class(ACCEPTED)
    page.fill("[data-role-bind=cpu]", "100000")
    expect(page.locator("#verdict")).to_have_class("card verdict never")
    expect(page.locator("#verdict .reasons li").first).to_be_visible()
    page.locator("[data-submit]").click()
    expect(page.locator("#confirm-text")).to_have_text("This job can never run on this server. Submit it anyway?")
    page.locator("#confirm button[value=no]").click()
    expect(page.locator("#confirm")).to_be_hidden()
    paste(page, "name: [\n")
    expect(page.locator("[data-note=unreadable]")).to_be_visible()
    expect(page.locator("#f-name")).to_be_disabled()
    leave(page)


def test_a_script_of_sbatch_is_checked_and_submitted(window: Window, server: Server) -> None:
    page = open_new(window)
    paste(page, "#!/bin/bash\n#SBATCH --job-name=script --time=10\necho hi\n")
    expect(page.locator("[data-dialect]")).to_have_text("sbatch")
    expect(page.locator("[data-note=foreign]")).to_be_visible()
    expect(page.locator("[data-note=unreadable]")).to_be_hidden()
    expect(page.locator("[data-do=convert]")).to_be_hidden()
    expect(page.locator("#f-name")).to_have_value("script")
    expect(page.locator("#f-name")).to_be_disabled()
    expect(page.locator("#verdict")).to_have_class(ACCEPTED)
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url("**/jobs/job-*")
    job = server.get(f"/jobs/{page.url.rsplit('/', 1)[1]}").json()
    assert (job["name"], job["dialect"]) == ("script", "sbatch")


def test_a_file_of_openpai_is_shown_converted_and_submitted(window: Window, server: Server) -> None:
    page = open_new(window)
    page.select_option("#f-group", "default")
    paste(page, OPENPAI)
    expect(page.locator("[data-note=foreign]")).to_be_visible()
    expect(page.locator("[data-dialect]")).to_have_text("OpenPAI v2")
    expect(page.locator("#f-name")).to_have_value("from_openpai")
    expect(page.locator("#f-name")).to_be_disabled()
    expect(page.locator("#f-group")).to_have_value("")
    page.get_by_role("button", name="Convert to the Holdfast format").click()
    expect(page.locator("#f-name")).to_be_enabled()
    assert "protocolVersion" not in page.locator(".cm-content").inner_text()
    assert "pony" not in page.locator(".cm-content").inner_text()
    expect(page.locator("#verdict")).to_have_class(ACCEPTED)
    page.fill("#f-name", "converted")
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url("**/jobs/job-*")
    job = server.get(f"/jobs/{page.url.rsplit('/', 1)[1]}").json()
    assert job["name"] == "converted"


@pytest.mark.release
def test_a_clone_asks_for_secrets_and_submits_what_was_typed(window: Window, server: Server) -> None:
    old = server.submit('name: hush-browser\ncommand: test "$KEY" = \'new "one"\'\nsecrets: {KEY: hunter2}\n')
    page = open_new(window, f"?clone={old['id']}")
    expect(page.locator(".secret-row.unfilled")).to_have_count(1)
    page.get_by_role("button", name="Submit").click()
    expect(page.locator("#verdict-title")).to_contain_text("KEY")
    expect(page.locator(".secret-row [data-pair=value]")).to_be_focused()
    page.keyboard.type('new "one"')
    expect(page.locator("#verdict")).to_have_class(ACCEPTED)
    assert "******" in page.locator(".cm-content").inner_text()
    stored = page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}, location.href])")
    assert "new" not in stored.replace("new-job", "").replace("jobs/new", "")
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url("**/jobs/job-*")
    assert server.wait(page.url.rsplit("/", 1)[1])["state"] == "Succeeded"


@pytest.mark.release
def test_a_secret_of_the_form_stays_out_of_the_file_that_is_shown(window: Window, server: Server) -> None:
    page = open_new(window)
    page.fill("#f-name", "secret-by-form")
    page.fill("[data-role-bind=command]", 'test "$PASS" = pony')
    page.get_by_role("button", name="Add a secret").click()
    page.keyboard.type("PASS")
    page.keyboard.press("Tab")
    page.keyboard.type("pony")
    expect(page.locator("#verdict")).to_have_class(ACCEPTED)
    assert next(line for line in lines(page) if "PASS:" in line).strip() in ('PASS: "******"', "PASS: '******'")
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url("**/jobs/job-*")
    assert server.wait(page.url.rsplit("/", 1)[1])["state"] == "Succeeded"


def test_a_file_is_dropped_and_one_too_large_is_not_taken(window: Window) -> None:
    page = open_new(window)
    page.evaluate(DROP, ["job.yaml", "name: dropped\ncommand: ls\nsecrets: {A: hidden-at-once}\n"])
    expect(page.locator("#f-name")).to_have_value("dropped")
    assert "hidden-at-once" not in page.locator(".cm-content").inner_text()
    expect(page.locator("#verdict")).to_have_class(ACCEPTED)
    page.evaluate(DROP, ["big.yaml", "x" * (1024 * 1024 + 1)])
    expect(page.locator("#verdict-title")).to_contain_text("larger than")
    expect(page.locator("#f-name")).to_have_value("dropped")
    leave(page)


@pytest.mark.release
def test_what_was_typed_is_kept_without_its_secrets_until_it_is_sent(window: Window) -> None:
    page = open_new(window)
    leave(page)
    paste(page, "name: draft\ncommand: ls\nsecrets: {A: not-to-be-kept}\n")
    expect(page.locator("#f-name")).to_have_value("draft")
    assert "not-to-be-kept" not in page.evaluate("JSON.stringify({...sessionStorage})")
    page.reload()
    expect(page.locator("#kept-note")).to_be_visible()
    expect(page.locator("#f-name")).to_have_value("draft")
    expect(page.locator(".secret-row.unfilled")).to_have_count(1)
    page.get_by_role("button", name="Start over").click()
    expect(page.locator("#f-name")).to_have_value("hello")


@pytest.mark.release
def test_the_keyboard_gets_in_and_out_of_the_editor(window: Window) -> None:
    page = open_new(window)
    page.locator(".cm-content").focus()
    page.keyboard.press("Control+End")
    page.keyboard.type("instance_t")
    page.locator(".cm-tooltip-autocomplete li").first.click()
    page.keyboard.type("cpu-2")
    expect(page.locator(".cm-tooltip-autocomplete li")).to_contain_text(["cpu-2"])
    page.keyboard.press("Escape")
    expect(page.get_by_label("cpu-2")).to_be_checked()
    page.keyboard.press("Control+Home")
    page.keyboard.press("Tab")
    expect(page.locator(".cm-content")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    expect(page.locator(".cm-content")).not_to_be_focused()
    page.locator("#f-name").focus()
    page.keyboard.press("Enter")
    assert page.url.endswith("/jobs/new")
    leave(page)


def test_another_group_brings_its_own_choices(window: Window, server: Server) -> None:
    with server.client() as client:
        client.post("/groups", json={"name": "new-job-team"}).raise_for_status()
        size = {"name": "team-size", "cpu": 1, "memory": 2**30, "everyone": False, "groups": ["new-job-team"]}
        client.post("/instance-types", json=size).raise_for_status()
    page = open_new(window)
    expect(page.get_by_label("team-size")).to_have_count(0)
    page.select_option("#f-group", "new-job-team")
    expect(page.get_by_label("team-size")).to_have_count(1)
    expect(page.locator("#group-panel h2")).to_contain_text("new-job-team")
    assert "group: new-job-team" in lines(page)
    leave(page)


def test_without_scripts_a_file_is_still_submitted(open_window: Callable[..., Window], server: Server) -> None:
    window = open_window(java_script_enabled=False)
    window.go("/jobs/new")
    window.page.fill("#text", "name: no-script\ncommand: nothing-of\nfoo: bar\n")
    window.page.click("[data-submit]")
    expect(window.page.locator("#verdict .problems")).to_contain_text("Line 3")
    window.wrongs.clear()  # the 400 of this very page
    window.page.fill("#text", "name: no-script\ncommand: 'true'\n")
    window.page.click("[data-submit]")
    window.page.wait_for_url("**/jobs/job-*")


def test_without_the_bundle_the_plain_field_is_checked_too(window: Window) -> None:
    page = window.page
    page.route("**/vendor/editor.js", lambda route: route.fulfill(status=404, body=""))
    window.go("/jobs/new")
    expect(page.locator("#verdict")).to_have_class(ACCEPTED)
    page.fill("#text", "name: x\ncommand: y\nfoo: z\n")
    expect(page.locator("#verdict button.at-line")).to_have_text("Line 3")
    expect(page.locator("[data-form]")).to_be_hidden()
    window.wrongs.clear()  # the file that does not exist
    leave(page)


@pytest.mark.release
def test_nobody_is_kept_out(window: Window, server: Server) -> None:
    wide = f"command: ls {'wide ' * 50}\n"  # the editor scrolls sideways
    old = server.submit(f"name: look\n{wide}secrets: {{KEY: v}}\nroles: {{a: {{command: x}}, b: {{}}}}\n")
    page = open_new(window, f"?rerun={old['id']}")
    expect(page.locator("#verdict")).to_have_class("card verdict refused")
    for details in page.locator("main details").all():
        details.evaluate("element => element.open = true")
    assert findings(page) == []
    keep_pictures(page, "new-job")


def test_it_fits_a_phone(open_window: Callable[..., Window]) -> None:
    window = open_window(viewport={"width": 390, "height": 844})
    page = open_new(window)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    expect(page.get_by_role("button", name="Submit")).to_be_visible()
    keep_pictures(page, "new-job-phone", "light")


@pytest.mark.release
def test_a_login_that_ended_loses_nothing_that_was_typed(window: Window) -> None:
    page = open_new(window)
    leave(page)
    page.fill("#f-name", "typed-before")
    expect(page.locator("#verdict:not(.busy)")).to_be_visible()
    page.context.clear_cookies()
    page.get_by_role("button", name="Submit").click()
    expect(page.locator("#verdict-title")).to_contain_text("You are logged out")
    assert lines(page)[0] == "name: typed-before"
    assert "typed-before" in page.evaluate("JSON.stringify({...sessionStorage})")


@pytest.mark.release
def test_the_text_is_handed_to_a_schedule(window: Window) -> None:
    page = open_new(window)
    page.fill("#f-name", "every-night")
    page.get_by_role("button", name="Create schedule").click()
    page.wait_for_url("**/schedules/new")
    expect(page.locator("textarea[name=text]")).to_have_value(
        'name: every-night\ncommand: |\n  echo "Hello from $HOLDFAST_JOB_NAME"\n'
    )

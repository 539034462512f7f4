"""The main path in other languages: nothing stays English but what people named, typed or printed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from .browser import Window, keep_pictures, takes_pictures
from .test_new_job import open_new, paste

LANGUAGES = {"en": "en-GB", "zh-Hans": "zh-CN", "zh-Hant": "zh-TW"}
# Visible text outside of what is marked as somebody's own, as English on purpose, or as code. In Chinese text, English
# words may be names; several in a row are a sentence that nobody translated.
ENGLISH = """() => {
  const own = "[translate=no], [lang=en], code, kbd, pre, samp, bdi, script, style, template, .cm-editor, time";
  const left = (text) => text.match(/\\p{Script=Han}/u)
    ? text.match(/[a-z]{2,}( [a-z]{2,}){2,}/gi) ?? [] : text.match(/[A-Za-z]{3,}/g) ?? [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!element.closest(own) && element.checkVisibility()) found.push(...left(node.data));
  }
  for (const name of ["title", "aria-label"])
    for (const element of document.querySelectorAll(`[${name}]`))
      if (!element.closest(own)) found.push(...left(element.getAttribute(name)));
  return [...new Set(found)];
}"""
# Names, units, words of programs; and the languages' own names.
SAME = {"Holdfast", "OpenPAI", "PrimeHub", "MLflow", "YAML", "JSON", "CSV", "CPU", "GPU", "REST", "API", "SSH", "UTC"}
SAME |= {"GiB", "MiB", "KiB", "HTTP", "URL", "English", "cron", "shell", "Tab", "Escape", "Enter", "stdout", "stderr"}
JOB = "name: {name}\ncommand: |\n  echo first line\n  echo second line\nresources: {{cpu: 0.5, memory: 64Mi}}\n"


class Tour:
    """Goes from page to page; keeps a picture of each, and what is English on it."""

    def __init__(self, window: Window, language: str, own: set[str]) -> None:
        self.window, self.page = window, window.page
        self.language, self.own = language, own
        self.english: dict[str, list[str]] = {}

    def look(self, name: str) -> None:
        assert self.page.locator("html").get_attribute("lang") == self.language
        keep_pictures(self.page, f"{self.language}-{name}", caret="initial")
        if self.language != "en":
            left = [word for word in self.page.evaluate(ENGLISH) if word not in SAME | self.own]
            if left:
                self.english[name] = left

    def visit(self, path: str, name: str) -> None:
        self.window.go(path)
        self.page.wait_for_load_state()
        self.look(name)


PICTURED = ["en"] if takes_pictures() else []  # English is what all other tests go by


@pytest.mark.release
@pytest.mark.parametrize("language", ["zh-Hans", pytest.param("zh-Hant", marks=pytest.mark.release), *PICTURED])
def test_the_main_path(open_window: Callable[..., Window], language: str) -> None:
    window = open_window(None, locale=LANGUAGES[language], viewport={"width": 1280, "height": 900})
    name = f"tour-{language}".lower()
    tour = Tour(window, language, own={"ada", "admin", "default", "host", *name.split("-")})
    tour.visit("/login", "login")
    window.log_in("ada")
    tour.visit("/", "home")
    job = _submit(window, tour, name)
    expect(window.page.locator(".badge.state-succeeded").first).to_be_visible(timeout=60_000)
    tour.look("job")
    tour.visit(f"/jobs/{job}/log", "log")
    expect(window.page.get_by_text("second line").first).to_be_visible()
    for path in ("/jobs", "/schedules", "/schedules/new", "/groups", "/me", "/me/tokens", "/me/keys"):
        tour.visit(path, path.strip("/").replace("/", "-"))
    assert tour.english == {}


def _submit(window: Window, tour: Tour, name: str) -> str:
    page = open_new(window)
    paste(page, JOB.format(name=name))
    expect(page.locator("#f-name")).to_have_value(name)
    expect(page.locator("#verdict:not(.busy)")).to_be_visible()
    tour.look("new")
    page.click("form#new-job button[type=submit], form#new-job button.primary:not([type])")
    page.wait_for_url(lambda url: "/jobs/new" not in url and "/jobs/" in url)
    return page.url.split("?")[0].rsplit("/", 1)[-1]


@pytest.mark.parametrize("language", ["zh-Hans", pytest.param("zh-Hant", marks=pytest.mark.release)])
def test_the_pages_of_admins(open_window: Callable[..., Window], language: str) -> None:
    tour = Tour(open_window(locale=LANGUAGES[language]), language, own={"ada", "admin", "default", "host"})
    for place in (
        "users",
        "groups",
        "instance-types",
        "images",
        "datasets",
        "secrets",
        "usage",
        "installation",
        "settings",
    ):
        tour.visit(f"/admin/{place}", f"admin-{place}")
    tour.visit("/admin/audit", "admin-audit")
    assert tour.english == {}

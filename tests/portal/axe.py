"""axe-core, as it was published, run inside a page: what it finds keeps somebody from using it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.npm import fetch_packages

VERSION = "4.14.0"
_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_FRAME = [[".bar"], [".side"], ["dialog"]]


@cache
def _script() -> str:
    folder = fetch_packages("axe", f"axe-core@{VERSION}")
    if isinstance(folder, str):
        pytest.skip(folder)
    return (Path(folder) / "axe-core" / "axe.min.js").read_text()


def findings(page: Page, *, frame: bool = True) -> list[str]:
    """One line for each thing that is wrong, in the light theme and in the dark one, where only colours can differ.
    Without `frame`, what is around every page is left out: another page of the same test was looked at with it.

    Our own policy forbids foreign scripts, so this one comes by debugger.
    """
    page.evaluate(_script())
    page.emulate_media(color_scheme="dark")
    dark = _run(page, {"type": "rule", "values": ["color-contrast"]}, frame)
    page.emulate_media(color_scheme="light")
    return [*dark, *_run(page, {"type": "tag", "values": _TAGS}, frame)]


def _run(page: Page, only: dict[str, Any], frame: bool) -> list[str]:
    where = {"exclude": [] if frame else _FRAME}
    asked = "([where, only]) => axe.run(where, {runOnly: only, resultTypes: ['violations']})"
    found: Any = page.evaluate(asked, [where, only])
    return [
        f"{wrong['id']}: {wrong['help']} ({', '.join(str(node['target']) for node in wrong['nodes'][:3])})"
        for wrong in found["violations"]
    ]

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


@cache
def _script() -> str:
    folder = fetch_packages("axe", f"axe-core@{VERSION}")
    if isinstance(folder, str):
        pytest.skip(folder)
    return (Path(folder) / "axe-core" / "axe.min.js").read_text()


def findings(page: Page) -> list[str]:
    """One line for each thing that is wrong, in the light theme and in the dark one, where only colours can differ.

    Our own policy forbids foreign scripts, so this one comes by debugger.
    """
    page.evaluate(_script())
    page.emulate_media(color_scheme="dark")
    dark = _run(page, {"type": "rule", "values": ["color-contrast"]})
    page.emulate_media(color_scheme="light")
    return [*dark, *_run(page, {"type": "tag", "values": _TAGS})]


def _run(page: Page, only: dict[str, Any]) -> list[str]:
    found: Any = page.evaluate("only => axe.run(document, {runOnly: only, resultTypes: ['violations']})", only)
    return [
        f"{wrong['id']}: {wrong['help']} ({', '.join(str(node['target']) for node in wrong['nodes'][:3])})"
        for wrong in found["violations"]
    ]

"""A form as a browser fills it: what its page holds, with some of it typed over."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import httpx

from .page_client import Desk


class _Form(HTMLParser):
    """The values of the one form with class "form" (or "confirm") on a page, and the problem at each field."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = False
        self.values: dict[str, list[str]] = {}
        self._area: str | None = None
        self._select: str | None = None
        self._text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {key: value or "" for key, value in attrs}
        if tag == "form":
            self.inside = bool({"form", "confirm"} & set(found.get("class", "").split()))
        if not self.inside:
            return
        name = found.get("name", "")
        if tag == "input" and name and (found.get("type") != "checkbox" or "checked" in found):
            self.values.setdefault(name, []).append(found.get("value", "on"))
        elif tag == "textarea":
            self._area, self._text = name, ""
        elif tag == "select":
            self._select = name
        elif tag == "option" and self._select and "selected" in found:
            self.values[self._select] = [found.get("value", "")]

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea" and self._area:
            self.values[self._area] = [self._text.removeprefix("\n")]
            self._area = None
        elif tag == "form":
            self.inside = False

    def handle_data(self, data: str) -> None:
        if self._area is not None:
            self._text += data


def values_in(page: str) -> dict[str, list[str]]:
    parser = _Form()
    parser.feed(page)
    return parser.values


async def fill(desk: Desk, path: str, /, **typed: Any) -> httpx.Response:
    """Open the form at `path`, type, and send it. In names __ stands for a dot; None unticks or leaves out."""
    page = await desk.get(path)
    assert page.status_code == 200, page.text
    return await send(desk, path, page.text, **typed)


async def send(desk: Desk, path: str, page: str, /, **typed: Any) -> httpx.Response:
    """The form of a page that was opened before."""
    values: dict[str, Any] = values_in(page)
    for name, value in typed.items():
        key = name.replace("__", ".")
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value
    return await desk.client.post(path, data=values)


def problem_at(page: str, field: str) -> str:
    """What a page says is wrong with a field."""
    found = page.split(f'id="{field}-problem"', 1)
    return found[1].split(">", 1)[1].split("</p>", 1)[0] if len(found) == 2 else ""

"""The Markdown of this repository, taken apart: links, headings and code blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_SKIPPED = {"build", "dist", "node_modules"}
_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    page: Path
    language: str
    text: str


@cache
def pages() -> tuple[Path, ...]:
    return tuple(sorted(_find_pages(ROOT)))


def _find_pages(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name.startswith(".") or path.name in _SKIPPED:
            continue
        if path.is_dir():
            yield from _find_pages(path)
        elif path.suffix == ".md":
            yield path


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def links(page: Path) -> list[str]:
    return _LINK.findall(_without_code(page.read_text()))


def anchors(page: Path) -> set[str]:
    """What `#...` may point at: headings, the way forges write them."""
    return {_anchor(heading) for heading in _HEADING.findall(_without_code(page.read_text()))}


def blocks(language: str) -> Iterator[Block]:
    for page in pages():
        for match in _FENCE.finditer(page.read_text()):
            if match[1] == language:
                yield Block(page, language, match[2])


def _anchor(heading: str) -> str:
    words = re.sub(r"[`*]", "", heading).lower()
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


def _without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "`code`", _FENCE.sub("", text))

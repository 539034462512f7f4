"""Every relative link of every page leads to something that is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from .pages import ROOT, anchors, links, name, pages


@pytest.mark.parametrize("page", pages(), ids=name)
def test_relative_links_resolve(page: Path) -> None:
    broken = [link for link in links(page) if not _resolves(page, link)]
    assert not broken


def test_every_page_of_docs_is_reachable_from_the_readme() -> None:
    seen: set[Path] = set()
    todo = [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page in seen:
            continue
        seen.add(page)
        found = (_target(page, link)[0] for link in links(page) if not _is_outside(link))
        todo += [target for target in found if target.suffix == ".md" and target.exists()]
    assert [name(page) for page in pages() if page not in seen] == []


def _resolves(page: Path, link: str) -> bool:
    if _is_outside(link):
        return True
    target, anchor = _target(page, link)
    return target.exists() and (not anchor or anchor in anchors(target))


def _target(page: Path, link: str) -> tuple[Path, str]:
    path, _, anchor = link.partition("#")
    return (page.parent / path).resolve() if path else page, anchor


def _is_outside(link: str) -> bool:
    return link.startswith(("https://", "http://", "mailto:"))

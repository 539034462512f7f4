"""The server's warnings and errors are explained, and what is explained is really logged."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from .pages import ROOT

SOURCES = {path: path.read_text() for path in (ROOT / "src").rglob("*.py")}
PAGE = (ROOT / "docs" / "how-to" / "troubleshooting.md").read_text()
_LEVELS = {"warning", "error", "exception", "critical"}


def _explained() -> set[str]:
    section = PAGE.partition("## Server log messages")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {line for row in rows for line in re.findall(r"`([^`]+)`", row)}


def _logged() -> Iterator[str]:
    for text in SOURCES.values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _LEVELS:
                first = node.args[0] if node.args else None
                if ast.unparse(node.func.value) == "log" and isinstance(first, ast.Constant):
                    yield str(first.value)


def test_explained_lines_are_logged() -> None:
    everything = "\n".join(SOURCES.values())
    assert [line for line in sorted(_explained()) if f'"{line}"' not in everything] == []


def test_logged_lines_are_explained() -> None:
    logged = set(_logged())
    assert logged
    assert logged - _explained() == set()

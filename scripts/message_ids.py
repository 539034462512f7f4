"""Finds the messages of services, rules and engines: ids of `msg(...)` calls, and the texts of a few tables."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

# In these files, every text of several words is a message.
TEXT_TABLE_FILES = (
    "settings.py",
    "settings_engines.py",
    "settings_sections.py",
    "diagnosis/verdict_texts.py",
    "jobspec/holdfast_keys.py",
)
_CODE_PATTERN = re.compile(r"^(holdfast|pip|cd|export) |\n|\\[bsn(\[]")  # commands and regular expressions
_PLACEHOLDER_PATTERN = re.compile(r"\{[a-z_0-9]+\}")
_WORD_PATTERN = re.compile(r"[A-Za-z]+")


def iter_messages(folder: Path) -> Iterator[tuple[str, str]]:
    """Iterate over (file, id) in the order of the source."""
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "msg":
                id = _get_message_id(node, name)
                yield from [(name, id)] if _WORD_PATTERN.search(_PLACEHOLDER_PATTERN.sub("", id)) else []
        if name in TEXT_TABLE_FILES:
            yield from ((name, text) for text in _iter_texts(tree))


def _get_message_id(call: ast.Call, name: str) -> str:
    match call.args:
        case [ast.Constant(value=str(id))]:
            return id
    raise SystemExit(f"{name}:{call.lineno}: the id of a message must be a plain text")


def _iter_texts(node: ast.AST) -> Iterator[str]:
    """Iterate over the messages in a table, without docstrings and `msg(...)` calls."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue  # a docstring
        if isinstance(child, ast.Call) and ast.unparse(child.func) == "msg":
            continue
        if isinstance(child, ast.Constant) and isinstance(child.value, str) and _is_message(child.value):
            yield child.value
        else:
            yield from _iter_texts(child)


def _is_message(text: str) -> bool:
    return " " in text.strip() and len(_WORD_PATTERN.findall(text)) > 1 and not _CODE_PATTERN.search(text)

"""Collects the messages of services, rules and engines: ids of `msg(...)` calls, and the texts of a few tables."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

# Files that are tables of texts: every text of several words in them is a message.
TABLES = ("settings.py", "settings_sections.py", "diagnosis/verdict_texts.py", "jobspec/holdfast_keys.py")
_FOREIGN = re.compile(r"^(holdfast|pip|cd|export) |\n|\\[bsn(\[]")  # commands and patterns
_ARGUMENT = re.compile(r"\{[a-z_0-9]+\}")
_WORD = re.compile(r"[A-Za-z]+")


def messages_in(folder: Path) -> Iterator[tuple[str, str]]:
    """(file, id) in the order of the source."""
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "msg":
                id = _id_of(node, name)
                yield from [(name, id)] if _WORD.search(_ARGUMENT.sub("", id)) else []
        if name in TABLES:
            yield from ((name, text) for text in _texts(tree))


def _id_of(call: ast.Call, name: str) -> str:
    match call.args:
        case [ast.Constant(value=str(id))]:
            return id
    raise SystemExit(f"{name}:{call.lineno}: the id of a message must be a plain text")


def _texts(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue  # a docstring
        if isinstance(child, ast.Call) and ast.unparse(child.func) == "msg":
            continue
        if isinstance(child, ast.Constant) and isinstance(child.value, str) and _is_message(child.value):
            yield child.value
        else:
            yield from _texts(child)


def _is_message(text: str) -> bool:
    return " " in text.strip() and len(_WORD.findall(text)) > 1 and not _FOREIGN.search(text)

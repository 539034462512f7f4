"""Every query text in the installed SDK of PrimeHub, as it would be sent."""

from __future__ import annotations

import ast
import importlib
import json
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import primehub

_WITHOUT = ("primehub.extras.doc_generator", "primehub.extras.e2e")  # any query of their own


def sdk_documents() -> dict[str, str]:
    """Module and line -> text."""
    found: dict[str, str] = {}
    for each in pkgutil.walk_packages(primehub.__path__, "primehub."):
        if each.name.startswith("primehub.utils") or each.name in _WITHOUT:
            continue
        found_at = each.module_finder.find_spec(each.name, None)
        assert found_at is not None
        assert found_at.origin is not None
        for line, text in _texts(ast.parse(Path(found_at.origin).read_text()), each.name):
            if _is_query(text):
                found[f"{each.name}:{line}"] = text
    return found


def _texts(tree: ast.AST, module: str) -> Iterator[tuple[int, str]]:
    """Constants, and constants that are put together with what the module names."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.BinOp):
            text = _put_together(node, module)
            if text is not None:
                yield node.lineno, text
                continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        yield from _texts(node, module)


def _put_together(node: ast.expr, module: str) -> str | None:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left = _put_together(node.left, module)
        right = _put_together(node.right, module) if left is not None and _is_query(left) else None
        return None if left is None or right is None else left + right
    if isinstance(node, ast.Name):
        value = getattr(importlib.import_module(module), node.id, None)
        return value if isinstance(value, str) else None
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _is_query(text: str) -> bool:
    if not text.strip().startswith(("query", "mutation", "{")) or "{" not in text:
        return False
    try:
        json.loads(text)
    except ValueError:
        return True
    return False  # an example of a file

"""The API's documentation page: OpenAPI as plain HTML."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def render_docs(schema: dict[str, Any]) -> bytes:
    from jinja2 import Template

    by_tag: dict[str, list[tuple[str, str, Any]]] = {}
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            tag = (operation.get("tags") or ["other"])[0]
            by_tag.setdefault(tag, []).append((path, method, operation))
    template = Template(Path(__file__).with_suffix(".html").read_text(), autoescape=True)
    page: str = template.render(schema, operations_by_tag=by_tag)
    return page.encode()

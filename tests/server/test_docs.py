from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.server.errors import STATUS_CODES

from .rig import Rig

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "rest.md"


async def test_every_route_is_in_the_reference(rig: Rig) -> None:
    text = PAGE.read_text()
    schema = (await rig.get("/openapi.json")).json()
    missing = [
        f"{method.upper()} {path.removeprefix('/api/v1')}"
        for path, operations in schema["paths"].items()
        for method in operations
        if f"`{method.upper()} {path.removeprefix('/api/v1')}`" not in text
    ]
    assert missing == []


async def test_every_route_in_the_reference_exists(rig: Rig) -> None:
    schema = (await rig.get("/openapi.json")).json()
    real = {
        f"{method.upper()} {path.removeprefix('/api/v1')}"
        for path, operations in schema["paths"].items()
        for method in operations
    }
    named = set(re.findall(r"`((?:GET|POST|PUT|PATCH|DELETE) /[^`]*)`", PAGE.read_text()))
    assert named - real <= {"GET /api/docs", "GET /api/v1/openapi.json", "GET /"}


def test_every_error_code_is_in_the_reference() -> None:
    text = PAGE.read_text()
    assert [code for code, status in STATUS_CODES.items() if f"| `{code}` | {status} |" not in text] == []


async def test_the_pages_load_nothing_from_elsewhere(rig: Rig) -> None:
    for path in ("/", "/api/docs"):
        page = (await rig.client.get(path)).text
        assert "<script" not in page
        assert re.findall(r"""(?:src|href)=["'](?:https?:)?//""", page) == []


async def test_the_docs_page_shows_every_route_and_shape(rig: Rig) -> None:
    page = (await rig.client.get("/api/docs")).text
    schema = (await rig.get("/openapi.json")).json()
    for path, operations in schema["paths"].items():
        assert all(f"{method.upper()}</span> <code>{path}</code>" in page for method in operations)
    shapes = set(re.findall(r'href="#(\w+)"', page))
    assert shapes
    assert all(f'id="{shape}"' in page for shape in shapes)

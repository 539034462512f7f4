from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.in_memory import tmp_path

from .house import House, open_house

__all__ = ["anyio_backend", "house", "tmp_path"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path / "home") as opened:
        yield opened

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from .hub import Hub, open_hub


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    async with open_hub(tmp_path / "home") as opened:
        yield opened

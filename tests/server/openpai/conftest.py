from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from .pai import Pai, open_pai


@pytest.fixture
async def pai(tmp_path: Path) -> AsyncIterator[Pai]:
    async with open_pai(tmp_path / "home") as opened:
        yield opened

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.in_memory import tmp_path
from tests.services.house import open_house

from .rig import Rig, open_rig

__all__ = ["anyio_backend", "rig", "tmp_path"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    settings = {"server": {"max_job_bytes": 64 * 1024, "max_image_bytes": 1024 * 1024}}
    async with open_house(tmp_path / "home", settings=settings) as house, open_rig(house) as opened:
        yield opened

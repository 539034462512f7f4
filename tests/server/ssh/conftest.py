from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.services.house import open_house

from .local_engine import LocalEngine
from .rig import SshRig, open_gateway


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[SshRig]:
    async with (
        open_house(tmp_path / "home", settings={"ssh": {"port": 0}}, engine=LocalEngine()) as house,
        open_gateway(house, tmp_path / "client") as rig,
    ):
        yield rig

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.engines.embedded.engine import EmbeddedEngine
from holdfast.engines.embedded.options import EmbeddedOptions
from tests.server.rig import Rig, open_rig
from tests.server.ssh.conftest import _stopping
from tests.services.house import open_house


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """With real tasks."""
    home = tmp_path / "home"
    engine = EmbeddedEngine(home, EmbeddedOptions(cpus=16, hidden=(str(home),)))
    async with open_house(home, engine=engine) as house, _stopping(house), open_rig(house) as opened:
        yield opened

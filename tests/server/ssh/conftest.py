from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast.core.records import JobFilter
from holdfast.engines.embedded.engine import EmbeddedEngine
from holdfast.engines.embedded.options import EmbeddedOptions
from tests.services.house import TIMEOUT, House, open_house

from .rig import SshRig, open_gateway


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[SshRig]:
    home = tmp_path / "home"
    engine = EmbeddedEngine(home, EmbeddedOptions(cpus=16, hidden=(str(home),)))
    async with (
        open_house(home, settings={"ssh": {"port": 0}}, engine=engine) as house,
        _stopping(house),
        open_gateway(house, tmp_path / "client") as rig,
    ):
        yield rig


@asynccontextmanager
async def _stopping(house: House) -> AsyncIterator[None]:
    """Leaves nothing behind that runs."""
    try:
        yield
    finally:
        page = await house.services.jobs.list(house.admin, JobFilter())
        for job in page.items:
            await house.controller.stop_job(job.id, "admin")
        async with asyncio.timeout(TIMEOUT):
            for job in page.items:
                while house.controller.get_active_job(job.id) is not None:
                    await house.controller.wait_for_change(job.id, 0.2)

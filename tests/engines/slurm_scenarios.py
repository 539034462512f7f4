"""Plays a scenario on a Slurm engine that looks often."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.engines.slurm import SlurmEngine
from tests.contracts.engine_rig import TIMEOUT, Rig, sweep
from tests.slurm_cluster import SlurmCluster, make_fast_options


def make_player(cluster: SlurmCluster, folder: Path) -> Callable[..., None]:
    """Return a function that plays a scenario; its other arguments are options of the engine."""
    options = make_fast_options(cluster)

    def play(scenario: Callable[[Rig], Awaitable[None]], **more: Any) -> None:
        async def go() -> None:
            rig = Rig(lambda: SlurmEngine(folder, replace(options, **more)))
            await rig.open()
            try:
                await asyncio.wait_for(scenario(rig), TIMEOUT)
            finally:
                await sweep(rig.engine)
                await rig.close()

        asyncio.run(go())

    return play

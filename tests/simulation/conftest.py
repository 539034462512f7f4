from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast.engines.embedded.engine import EmbeddedEngine

from ..engines.archives import config, docker_archive, shell_entries, tar
from .simulations import Place


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A state folder with an image `tiny` that has hardly any program."""
    folder = tmp_path_factory.mktemp("simulation")
    archive = folder / "tiny.tar"
    settings = config(Env=["PAI_OF_IMAGE=1"])
    archive.write_bytes(docker_archive([tar(shell_entries("/bin/bash", "/bin/mkdir", "/bin/ln"))], settings))

    async def add() -> None:
        engine = EmbeddedEngine(folder / "state")
        await engine.open(lambda observation: None)
        await engine.import_image("tiny", Path(archive))
        await engine.close()

    asyncio.run(add())
    return Place(folder / "state")

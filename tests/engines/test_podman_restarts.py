"""Containers whose removal a killed Podman did not finish: it still knows them, but not their storage."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.attempt import ObservedState
from holdfast.core.errors import EngineError
from tests.container_daemons import PodmanService, run_daemon
from tests.contracts.engine_contract import Rig, read_all

from .test_container_engine import create_container, folder_of, inspect, name_of, play

pytestmark = pytest.mark.release  # a daemon of its own, which is killed
WAITS = "echo up; until [ -e ~/go ]; do sleep 0.05; done; exit 6"


@pytest.fixture(scope="module")
def daemon() -> Iterator[PodmanService]:
    with run_daemon(PodmanService) as daemon:
        assert isinstance(daemon, PodmanService)
        yield daemon


def forget_storage(daemon: PodmanService, name: str, part: str) -> None:
    """Kill the daemon as in the middle of a removal, and start it again."""
    daemon.kill()
    storage = daemon.folder / "root"
    file = storage / "overlay-containers" / "containers.json"
    (found,) = (each for each in json.loads(file.read_text()) if name in each["names"])
    id = found["id"]
    if part == "layer":
        file, id = storage / "overlay-layers" / "layers.json", found["layer"]
    file.write_text(json.dumps([each for each in json.loads(file.read_text()) if each["id"] != id]))
    daemon.start()
    assert inspect(daemon, name)["cause"] == f"{part} not known"


@pytest.mark.parametrize("first", ["observe", "start"])
@pytest.mark.parametrize("part", ["container", "layer"])
def test_a_task_whose_old_container_was_partly_removed_is_started(
    daemon: PodmanService, tmp_path: Path, part: str, first: str
) -> None:
    async def scenario(rig: Rig) -> None:
        create_container(daemon, rig, "a")
        forget_storage(daemon, name_of(rig, "a"), part)
        if first == "observe":
            assert (await rig.look("a")).seen is ObservedState.ABSENT
        assert (await rig.run("a", "exit 4")).code == 4
        await rig.engine.remove("a")
        assert await rig.engine.list_attempts() == []

    play(daemon, tmp_path, scenario)


def test_a_running_container_without_storage_is_not_removed(daemon: PodmanService, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", WAITS)
        await rig.engine.close()
        claim = Path(folder_of(tmp_path, "a")["claim"])
        recorded = claim.read_bytes()
        claim.write_bytes(b"")  # the server did not record the process
        forget_storage(daemon, name_of(rig, "a"), "container")
        await rig.open()
        with pytest.raises(EngineError, match="running"):
            await rig.look("a")
        claim.write_bytes(recorded)
        assert (await rig.look("a")).seen is ObservedState.RUNNING
        rig.told.clear()
        (tmp_path / "tasks" / "a" / "place.home.jovyan" / "go").touch()
        assert (await rig.end_of("a")).code == 6
        assert await read_all(rig.log("a")) == b"up\n"
        await rig.engine.remove("a")
        assert await rig.engine.list_attempts() == []

    play(daemon, tmp_path, scenario)

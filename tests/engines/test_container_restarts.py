"""Containers whose start the daemon or the server did not record: they run all the same."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.attempt import ObservedState
from holdfast.engines.container.container_observer import find_first_pid
from tests.container_daemons import Dockerd, run_daemon
from tests.contracts.engine_contract import Rig, read_all

from .test_container_engine import folder_of, inspect, name_of, play, seen_again

pytestmark = pytest.mark.release  # each has a daemon of its own
WAITS = "echo up; until [ -e ~/go ]; do sleep 0.05; done; exit 6"


@pytest.fixture
def daemon() -> Iterator[Dockerd]:
    with run_daemon(Dockerd) as daemon:
        assert isinstance(daemon, Dockerd)
        yield daemon


def forget_start(daemon: Dockerd, container_id: str) -> None:
    """Change what a stopped daemon knows of a container to what it knew before the start."""
    file = daemon.folder / "data" / "containers" / container_id / "config.v2.json"
    config = json.loads(file.read_text())
    config["State"] |= {"Running": False, "Pid": 0, "StartedAt": "0001-01-01T00:00:00Z"}
    file.write_text(json.dumps(config))


@pytest.mark.parametrize("end", ["observed", "missed"])
def test_a_container_whose_start_was_forgotten_is_not_taken_for_ended(
    daemon: Dockerd, tmp_path: Path, end: str
) -> None:
    go = tmp_path / "tasks" / "a" / "place.home.jovyan" / "go"

    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", WAITS)
        container_id = inspect(daemon, name_of(rig, "a"))["Id"]
        await rig.engine.close()
        os.truncate(folder_of(tmp_path, "a")["claim"], 0)  # the server did not record the process
        daemon.kill()
        forget_start(daemon, container_id)
        if end == "missed":
            go.touch()
            while find_first_pid(container_id):
                await asyncio.sleep(0.02)
        await asyncio.to_thread(daemon.start)
        rig.told.clear()
        await rig.open()
        if end == "observed":
            assert inspect(daemon, name_of(rig, "a"))["State"]["Status"] == "created"
            assert (await seen_again(rig, "a")).seen is ObservedState.RUNNING
            assert (await rig.engine.start(rig.launch("a", WAITS))).seen is ObservedState.RUNNING
            go.touch()
            ended = await rig.end_of("a")
        else:
            ended = await seen_again(rig, "a")
        assert (ended.seen, ended.code) == (ObservedState.EXITED, 6)
        assert await read_all(rig.log("a")) == b"up\n"
        await rig.engine.remove("a")
        assert await rig.engine.list_attempts() == []

    play(daemon, tmp_path, scenario)


@pytest.mark.parametrize("grace", [0.0, 30.0])
def test_a_task_whose_start_cannot_be_recorded_is_stopped(daemon: Dockerd, tmp_path: Path, grace: float) -> None:
    script = "trap 'exit 5' TERM; echo up; while :; do sleep 0.1; done"

    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", script)
        await rig.engine.close()
        os.truncate(folder_of(tmp_path, "a")["claim"], 0)  # the server did not record the process
        (tmp_path / "tasks" / "a" / "start.draft" / "in").mkdir(parents=True)  # and cannot
        rig.told.clear()
        await rig.open()
        assert (await rig.look("a")).seen is ObservedState.RUNNING
        await rig.engine.stop("a", grace)
        seen = await rig.end_of("a")
        assert (seen.seen, seen.code) == (ObservedState.EXITED, 5 if grace else 137)
        assert (await rig.look("a")).code == seen.code
        assert not inspect(daemon, name_of(rig, "a"))["State"]["Running"]

    play(daemon, tmp_path, scenario)

"""A session in a container can do no more than its task, also with device files of a hostile image."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.container_daemons import ContainerDaemon, Dockerd, PodmanService, build_root_tar, run_daemon
from tests.contracts.engine_contract import Rig, read_all

from .sessions import inside
from .test_container_engine import play

HOSTILE_IMAGE = "holdfast-devices"
DEVICES = ("/dev/loop-control", "/dev/net/tun", "/dev/fuse")  # which root can open, and containers cannot


@pytest.fixture(
    scope="module", params=[Dockerd, pytest.param(PodmanService, marks=pytest.mark.release)], ids=["docker", "podman"]
)
def daemon(request: pytest.FixtureRequest) -> Iterator[ContainerDaemon]:
    with run_daemon(request.param) as daemon:
        daemon.import_image(HOSTILE_IMAGE, build_image_with_device())
        yield daemon


def find_device() -> str:
    found = next((path for path in DEVICES if Path(path).exists()), None)
    if found is None:
        pytest.skip(f"this machine has none of {', '.join(DEVICES)}")
    return found


def build_image_with_device() -> bytes:
    buffer = io.BytesIO(build_root_tar(shell=True))
    with tarfile.open(fileobj=buffer, mode="a") as tar:
        entry = tarfile.TarInfo("device")
        entry.type, entry.mode = tarfile.CHRTYPE, 0o666
        number = Path(find_device()).stat().st_rdev
        entry.devmajor, entry.devminor = os.major(number), os.minor(number)
        tar.addfile(entry)
    return buffer.getvalue()


def test_a_session_is_in_all_cgroups_of_its_task(daemon: ContainerDaemon, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", "cat /proc/self/cgroup; echo up; sleep 600")
        groups = (await read_all(rig.log("a"))).decode().removesuffix("up\n")
        assert groups
        assert (await inside(rig.engine, "a", "cat /proc/self/cgroup")).out == groups

    play(daemon, tmp_path, scenario)


def test_neither_a_task_nor_a_session_opens_a_device_of_the_image(daemon: ContainerDaemon, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        script = "test -c /device || exit 1; : </device"
        await rig.start_and_wait_for(b"denied", "a", f"({script}) || echo denied; sleep 600", image=HOSTILE_IMAGE)
        said = await inside(rig.engine, "a", script)
        assert said.code != 0
        assert "not permitted" in said.errors

    play(daemon, tmp_path, scenario)

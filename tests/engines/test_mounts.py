"""Mounts and working directories that try to lead out of the sandbox."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from holdfast.core.attempt import ObservedState
from holdfast.core.job import Mount
from holdfast.core.volumes import HostFolder
from holdfast.engines.base import Isolation
from holdfast.engines.embedded.lifecycle import mount_check
from holdfast.engines.embedded.sandbox.mounts import InvalidMount, make_mount_binds, open_mount_source
from holdfast.engines.embedded.sandbox.roots import resolve_path_inside
from tests.contracts.engine_contract import Rig, launch, read_all

from .scenarios import need, play


def test_a_folder_that_became_a_link_is_not_mounted(tmp_path: Path) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)
    shared, secret = tmp_path / "shared", tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("secret")
    shared.mkdir()
    (shared / "x").symlink_to(secret)

    async def scenario(rig: Rig) -> None:
        mounts = (Mount(volume=HostFolder(str(shared / "x")), target="/loot"),)
        seen = await rig.engine.start(launch("a", "cat /loot/key", mounts=mounts))
        assert seen.seen is ObservedState.REFUSED
        assert not seen.transient
        assert "is now a symbolic link" in seen.message

    play(tmp_path / "home", scenario)


def test_mounts_reach_the_task_and_no_descriptor_is_left(tmp_path: Path) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)
    folder, file = tmp_path / "folder", tmp_path / "file"
    folder.mkdir()
    file.write_text("from a file\n")

    async def scenario(rig: Rig) -> None:
        mounts = (
            Mount(volume=HostFolder(str(folder)), target="/data/rw", read_only=False),
            Mount(volume=HostFolder(str(folder)), target="/data/ro"),
            Mount(volume=HostFolder(str(file)), target="/data/file"),
        )
        script = (
            "echo hello > /data/rw/new; cat /data/ro/new /data/file; (echo no > /data/ro/x) || ls /proc/self/fd | wc -w"
        )
        await rig.run("a", script, mounts=mounts)
        out = await read_all(rig.log("a"))
        assert out == b"hello\nfrom a file\n4\n"  # 0, 1, 2 and the one ls reads the folder with
        assert (folder / "new").read_text() == "hello\n"
        assert not (folder / "x").exists()

    play(tmp_path / "home", scenario)


def test_a_working_directory_cannot_be_made_outside(tmp_path: Path) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)
    shared, victim = tmp_path / "shared", tmp_path / "victim"
    shared.mkdir()
    victim.mkdir()
    (shared / "esc").symlink_to(f"/oldroot{victim}")

    async def scenario(rig: Rig) -> None:
        mounts = (Mount(volume=HostFolder(str(shared)), target="/data", read_only=False),)
        await rig.run("a", "pwd", mounts=mounts, workdir="/data/esc/made")
        assert not list(victim.iterdir())
        await rig.run("b", "pwd", workdir="/var/tmp/made/deep")
        assert await read_all(rig.log("b")) == b"/var/tmp/made/deep\n"

    play(tmp_path / "home", scenario)


def test_folders_that_do_not_answer_hold_up_no_other_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system of the network whose server is gone."""
    answer = threading.Event()
    monkeypatch.setattr(mount_check, "probe_mount_source", lambda _: answer.wait())
    monkeypatch.setattr(mount_check, "_MOUNT_TIMEOUT", 0.05)
    mounts = (Mount(volume=HostFolder(str(tmp_path)), target=str(tmp_path)),)

    async def scenario(rig: Rig) -> None:
        for number in range(10):
            seen = await rig.engine.start(launch(f"held{number}", "true", mounts=mounts))
            assert (seen.seen, seen.transient) == (ObservedState.REFUSED, True)
            assert "not responding" in seen.message
        assert (await rig.run("free", "true")).code == 0

    try:
        play(tmp_path / "home", scenario)
    finally:
        answer.set()


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/proc/x",
        "/dev",
        "/sys/fs",
        "relative",
        "/a/../../proc",
        "/loop",
        "/run",
        "/run/holdfast",
        "/run/holdfast/x",
    ],
)
def test_targets_that_are_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InvalidMount):
        make_mount_binds([Mount(volume=HostFolder("/etc"), target=target)], str(tmp_path))


def test_a_target_within_another_mount_is_refused() -> None:
    with pytest.raises(InvalidMount, match="inside another"):
        make_mount_binds(
            [Mount(volume=HostFolder("/a"), target="/data"), Mount(volume=HostFolder("/b"), target="/data/sub/../x")],
            "/",
        )


def test_links_of_the_image_stay_within_it(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "var").mkdir()
    (tmp_path / "var/run").symlink_to("/run")
    (tmp_path / "out").symlink_to("/../../etc")
    assert resolve_path_inside(str(tmp_path), "/var/run/x/y") == "/run/x/y"
    assert resolve_path_inside(str(tmp_path), "/out/passwd") == "/etc/passwd"


def test_a_source_is_opened_only_where_it_says(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(InvalidMount, match="link"):
        open_mount_source(str(tmp_path / "link"))
    with pytest.raises(InvalidMount, match="No such file"):
        open_mount_source(str(tmp_path / "gone"))

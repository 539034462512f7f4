"""Control groups that are mounted a second time, or vanish: whose mount is used, and what becomes of starts."""

from __future__ import annotations

import errno
import logging
import os
import time
from pathlib import Path

import pytest

from holdfast.core.attempt import ObservedState
from holdfast.core.exits.exit import Cause
from holdfast.core.job import Resources
from holdfast.engines.embedded import EmbeddedOptions, cgroups
from tests.contracts.engine_contract import Rig, launch, read_all, sweep
from tests.engines.scenarios import folder_of, play

from .namespaced import host, run_steps, task


def find(tmp_path: Path, table: str, own: str) -> cgroups.Cgroups:
    (tmp_path / "mountinfo").write_text(table)
    (tmp_path / "self").write_text(own)
    mounted = cgroups._map_controller_mounts(cgroups.parse_mounts(table.encode()))
    return cgroups.Cgroups(version=1, parents=tuple((name, point) for name, (point, _) in mounted.items()))


def test_the_usual_mount_is_used_whatever_else_is_mounted(tmp_path: Path) -> None:
    first = "50 1 0:31 / /early/chroot/memory rw - cgroup cgroup rw,memory\n"
    usual = "34 33 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    last = "60 1 0:31 / /late/chroot/memory rw - cgroup cgroup rw,memory\n"
    lookalike = "61 1 0:31 / /sys/fs/cgroups/memory rw - cgroup cgroup rw,memory\n"
    for table in (usual + last + lookalike, first + usual + last, first + usual):
        assert find(tmp_path, table, "").parents == (("memory", "/sys/fs/cgroup/memory"),)
    assert find(tmp_path, first + last, "").parents == (("memory", "/early/chroot/memory"),)


@pytest.mark.release
def test_a_later_copy_of_sys_is_not_used(tmp_path: Path) -> None:
    """A chroot's: the server would lose its control groups as soon as the chroot is taken down."""
    copy = tmp_path / "chroot"
    copy.mkdir()
    before = f"mount --rbind /sys {copy}; mount --make-rslave {copy}"
    steps = [task("echo first"), host(f"umount -R {copy}"), task("echo second")]
    assert run_steps(tmp_path / "home", steps, before=before) == ["first\n", "second\n"]


def _groups(tmp_path: Path) -> list[Path]:
    note = folder_of(tmp_path, "first").read_start_note()
    assert note is not None
    return [Path(folder).parent for folder in note.cgroups]


def test_groups_that_were_removed_are_made_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    name = f"holdfast-test-{os.getpid()}"

    async def scenario(rig: Rig) -> None:
        assert (await rig.run("first", "true")).code == 0
        parents = _groups(tmp_path)
        if not parents:
            pytest.skip("there are no control groups for us to use here")
        await rig.engine.remove("first")
        for parent in parents:
            while [child for child in parent.iterdir() if child.is_dir()]:
                await sweep(rig.engine, [])
            _remove_group(parent)
        with caplog.at_level(logging.WARNING):
            assert (await rig.run("second", "echo fine")).code == 0
        assert await read_all(rig.log("second")) == b"fine\n"
        assert all(parent.is_dir() for parent in parents)
        assert str(parents[0]) in caplog.text
        await sweep(rig.engine, [])

    play(tmp_path, scenario, EmbeddedOptions(cgroup=name))
    found, _ = cgroups.find_cgroups(name=name)
    for _, parent in found.parents if found is not None else ():
        _remove_group(Path(parent))


def _remove_group(group: Path) -> None:
    """With groups in it of tasks that have ended: the kernel may call one busy for some milliseconds."""
    for child in [each for each in group.iterdir() if each.is_dir()]:
        _remove_group(child)
    deadline = time.monotonic() + 10
    while True:
        try:
            return group.rmdir()
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def test_a_start_without_control_groups_says_what_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mounts, own = tmp_path / "mountinfo", tmp_path / "self"
    parent = tmp_path / "memory" / "holdfast"
    mounts.write_text(f"30 29 0:26 / {tmp_path}/memory rw - cgroup cgroup rw,memory\n")
    own.write_text("4:memory:/\n")
    (tmp_path / "memory").mkdir()
    find_cgroups = cgroups.find_cgroups
    monkeypatch.setattr(cgroups, "find_cgroups", lambda *_, **__: find_cgroups(mounts, own))

    async def scenario(rig: Rig) -> None:
        parent.rmdir()
        mounts.write_text("")
        seen = await rig.engine.start(launch("a", "true"))
        assert (seen.seen, seen.cause, seen.transient) == (ObservedState.REFUSED, Cause.START_FAILED, True)
        assert str(parent) in seen.message
        assert "/sys/fs/cgroup" in seen.message
        assert str(parent) in caplog.text

    with caplog.at_level(logging.WARNING):
        play(tmp_path / "home", scenario)


def test_a_group_is_not_left_half_made(tmp_path: Path) -> None:
    for name in ("cpu", "memory"):
        (tmp_path / name).mkdir()
    gone = tmp_path / "gone"
    groups = cgroups.Cgroups(version=1, parents=(("", str(tmp_path / "cpu")), ("memory", str(gone))))
    with pytest.raises(cgroups.CgroupLost, match=str(gone)):
        groups.create_cgroup("a", Resources(), 10)
    assert list((tmp_path / "cpu").iterdir()) == []
    groups.search = lambda: (cgroups.Cgroups(version=1, parents=(("", str(tmp_path / "memory")),)), "")
    assert groups.create_cgroup("a", Resources(), 10) == (str(tmp_path / "memory" / "a"),)

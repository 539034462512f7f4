"""Private files of the machine, read by a task on the image host."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.engines.base import Isolation
from holdfast.engines.embedded import EmbeddedOptions
from holdfast.engines.embedded.sandbox import package_scan, private_files
from holdfast.engines.embedded.sandbox.private_files import find_private_files
from holdfast.engines.embedded.sandbox.sandbox_layers import SandboxLayers
from tests import shared_scan
from tests.contracts.engine_contract import Rig, read_all
from tests.engines.scenarios import need, play

from .namespaced import host, run_steps, task


@pytest.fixture(autouse=True)
def _search_afresh() -> Iterator[None]:
    with shared_scan.suspend():
        yield


@pytest.fixture
def canaries() -> Iterator[list[Path]]:
    """Folders of the machine with files that only root may read."""
    need(Isolation.FULL)
    tops = [Path("/usr/share"), Path("/usr/lib"), Path("/usr/local"), Path("/opt"), Path("/etc")]
    folders = [Path(tempfile.mkdtemp(prefix="holdfast-canary-", dir=top)) for top in tops]
    for folder in folders:
        folder.chmod(0o755)
        (folder / "open").write_text("PUBLIC")
        (folder / "secret").write_text("CANARY")
        (folder / "secret").chmod(0o600)
        (folder / "closed").mkdir(mode=0o700)
        (folder / "closed" / "file").write_text("CANARY")
    try:
        yield folders
    finally:
        for folder in folders:
            shutil.rmtree(folder)


def test_private_files_in_every_shown_folder_are_hidden(tmp_path: Path, canaries: list[Path]) -> None:
    script = "\n".join(
        f"cat {folder}/open; cat {folder}/secret {folder}/closed/file 2>/dev/null || echo hidden; ls -A {folder}/closed"
        for folder in canaries
    )

    async def scenario(rig: Rig) -> None:
        await rig.run("a", script)
        said = (await read_all(rig.log("a"))).decode()
        assert "CANARY" not in said
        assert said == "PUBLIChidden\n" * len(canaries)

    play(tmp_path, scenario)


def test_a_private_file_that_is_added_later_is_hidden(tmp_path: Path, canaries: list[Path]) -> None:
    """The scan remembers folders, and sees that one has changed."""
    view = SandboxLayers(tmp_path, EmbeddedOptions())
    folder = canaries[0]
    view.scan_host()
    (folder / "later").touch(mode=0o600)
    (folder / "closed").chmod(0o755)
    after = {entry.path for entry in view.scan_host().hidden}
    assert f"{folder}/later" in after
    assert f"{folder}/closed" not in after
    view.delete_outside_layers(())


def test_a_file_that_is_made_private_in_place_is_hidden_after_a_full_scan(
    tmp_path: Path, canaries: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_files, "_MIN_CHANGE_AGE", -1.0)  # remember the fresh folders of this test too
    view = SandboxLayers(tmp_path, EmbeddedOptions())
    view.prepare_host_layers()
    file = canaries[0] / "open"
    file.chmod(0o600)
    monkeypatch.setattr(package_scan, "FULL_SCAN_INTERVAL", 0.0)
    view._scan_due = 0.0
    view.prepare_host_layers()  # this starts the scan
    package_scan.SHARED_SCANNER.wait_for_scan()
    assert str(file) in {entry.path for entry in view.prepare_host_layers().view.hidden}
    view.delete_outside_layers(())


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM, errno.EIO, errno.EACCES])
def test_what_cannot_be_examined_is_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    tmp_path.chmod(0o755)
    for name in ("fine", "broken"):
        (tmp_path / name).mkdir(mode=0o755)
        (tmp_path / name / "file").touch(mode=0o644)
    scandir = os.scandir

    def failing(path: str) -> object:
        if path.endswith("/broken"):
            raise OSError(number, os.strerror(number))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", failing)
    found = find_private_files([str(tmp_path)], (), 100)
    assert [entry.path for entry in found.hidden] == [f"{tmp_path}/broken"] == found.unreadable
    assert f"{tmp_path}/broken" not in found.memory
    with pytest.raises(OSError, match=os.strerror(number)):
        find_private_files([f"{tmp_path}/broken"], (), 100)


def test_what_is_removed_meanwhile_is_nothing_to_hide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "gone").mkdir(mode=0o755)

    def failing(path: str) -> object:
        raise FileNotFoundError(errno.ENOENT, "", path)

    monkeypatch.setattr(private_files, "_read_signature", failing)
    assert find_private_files([str(tmp_path)], (), 100).hidden == []


@pytest.fixture
def under() -> Iterator[str]:
    """A private folder that something else can be mounted over."""
    need(Isolation.FULL)
    folder = Path(tempfile.mkdtemp(prefix="holdfast-under-é-", dir="/opt"))
    folder.chmod(0o755)
    (folder / "file").write_text("OPEN")
    (folder / "point").mkdir()
    (folder / "point" / "deep").write_text("CANARY")
    try:
        yield str(folder)
    finally:
        shutil.rmtree(folder)


def test_what_lies_under_a_mount_point_is_hidden(tmp_path: Path, under: str) -> None:
    """An overlay does not cross mounts, so it would show what nobody on the machine can see."""
    (said,) = run_steps(
        tmp_path / "home", [task(f"ls -A {under} {under}/point")], before=f"mount -t tmpfs none {under}/point"
    )
    assert said == f"{under}:\nfile\npoint\n\n{under}/point:\n"


@pytest.mark.release
def test_what_lies_under_two_mounts_is_hidden(tmp_path: Path, under: str) -> None:
    before = f"mount -t tmpfs none {under}; mkdir {under}/point; mount --bind /usr/share {under}/point; "
    before += f"mount -t tmpfs none {under}/point; mount -t tmpfs none {under}"
    (said,) = run_steps(tmp_path / "home", [task(f"ls -A {under}")], before=before)
    assert said == ""


@pytest.mark.release
def test_what_lies_under_a_mounted_file_is_hidden(tmp_path: Path, under: str) -> None:
    before = f"mount --bind /etc/hostname {under}/file"
    (said,) = run_steps(tmp_path / "home", [task(f"ls -A {under}")], before=before)
    assert said.split() == ["point"]


def test_what_is_mounted_later_is_hidden_from_the_next_task(tmp_path: Path, under: str) -> None:
    mount = f"mount -t tmpfs none {under}/point"
    before, after = run_steps(tmp_path, [task(f"ls {under}/point"), host(mount), task(f"ls {under}/point")])
    assert (before, after) == ("deep\n", "")

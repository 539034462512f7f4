"""What a package scan found is kept for a server that is soon back, and used only while it holds."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.engines.embedded.sandbox import host, package_scan, private_files, saved_scan
from holdfast.engines.embedded.sandbox.package_scan import PackageScanner
from holdfast.engines.embedded.sandbox.private_files import FolderListing, HiddenPath
from tests import shared_scan


@pytest.fixture(autouse=True)
def _search_afresh() -> Iterator[None]:
    with shared_scan.suspend():
        yield


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose packages are these."""
    folder = tmp_path / "packages"
    for name in ("open", "more"):
        (folder / name).mkdir(parents=True, mode=0o755)
        (folder / name / "public").write_text("")
    (folder / "open" / "secret").write_text("")
    (folder / "open" / "secret").chmod(0o600)
    monkeypatch.setattr(host, "_PACKAGE_FOLDERS", (str(folder),))
    monkeypatch.setattr(private_files, "_MIN_CHANGE_AGE", -1.0)  # or what was made just now would not be remembered
    return folder


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Folders that were listed, and not just remembered."""
    found: list[str] = []
    real = private_files._list_folder

    def list_folder(folder: str, signature: int) -> FolderListing:
        found.append(folder)
        return real(folder, signature)

    monkeypatch.setattr(private_files, "_list_folder", list_folder)
    return found


def scan(home: Path) -> list[HiddenPath]:
    """As a server does that has just started."""
    file = home / saved_scan.SCAN_FILE
    found = PackageScanner().find_private_files((), file)
    wait_for(file)
    return found.hidden


def wait_for(file: Path) -> None:
    end = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_the_next_server_lists_only_what_has_changed(tmp_path: Path, packages: Path, listed: list[str]) -> None:
    secret = [HiddenPath(path=f"{packages}/open/secret")]
    assert scan(tmp_path) == secret
    assert len(listed) == 3
    listed.clear()
    assert scan(tmp_path) == secret
    assert listed == []
    (packages / "more" / "closed").mkdir(mode=0o700)
    hidden = scan(tmp_path)
    assert listed == [f"{packages}/more"]
    closed = HiddenPath(path=f"{packages}/more/closed", mode=0o700, uid=os.getuid(), gid=os.getgid())
    assert set(hidden) == {*secret, closed}


def test_it_is_for_the_server_alone(tmp_path: Path, packages: Path) -> None:
    scan(tmp_path)
    assert (tmp_path / saved_scan.SCAN_FILE).stat().st_mode & 0o777 == 0o600


def test_names_that_are_no_text_come_back(tmp_path: Path, packages: Path, listed: list[str]) -> None:
    name = os.fsdecode(b"\xff\xfe")
    (packages / name).mkdir(mode=0o755)
    (packages / name / "private").touch(mode=0o600)
    found = scan(tmp_path)
    assert HiddenPath(path=f"{packages}/{name}/private") in found
    listed.clear()
    assert scan(tmp_path) == found
    assert listed == []


@pytest.mark.parametrize(
    "change",
    [
        {"boot": "another"},
        {"format": 1},
        {"full_at": -1e9},
        {"full_at": 1e18},
        {"full_at": None},
        {"folders": []},
        {"folders": {"/x": [1]}},
        {"folders": {"/x": [[1], 1, [["a"]], []]}},
    ],
)
def test_one_that_does_not_hold_is_not_used(
    tmp_path: Path, packages: Path, listed: list[str], change: dict[str, object]
) -> None:
    found = scan(tmp_path)
    file = tmp_path / saved_scan.SCAN_FILE
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    listed.clear()
    assert scan(tmp_path) == found
    assert len(listed) == 3


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\x00" * 100])
def test_damage_costs_time_only(tmp_path: Path, packages: Path, listed: list[str], text: str) -> None:
    (tmp_path / saved_scan.SCAN_FILE).write_text(text)
    assert len(scan(tmp_path)) == 1
    assert len(listed) == 3


def test_a_mode_that_was_changed_in_place_is_found_soon(
    tmp_path: Path, packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a full scan that follows the start."""
    scan(tmp_path)
    (packages / "more" / "public").chmod(0o600)
    monkeypatch.setattr(package_scan, "_FULL_SCAN_DELAY", -1.0)
    later = PackageScanner()
    file = tmp_path / saved_scan.SCAN_FILE
    later.find_private_files((), file)
    later.wait_for_scan()
    assert HiddenPath(path=f"{packages}/more/public") in later.find_private_files((), file).hidden

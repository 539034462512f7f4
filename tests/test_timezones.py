"""Which time zone this machine keeps, and names that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.errors import UserError
from holdfast.timezones import find_machine_timezone, get_zone


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("TZ", raising=False)
    (tmp_path / "etc").mkdir()
    return tmp_path


def test_nothing_tells_the_zone(root: Path) -> None:
    assert find_machine_timezone(root) == "UTC"


@pytest.mark.parametrize("value", ["Europe/Berlin", ":Europe/Berlin", ":/usr/share/zoneinfo/Europe/Berlin"])
def test_the_variable_goes_first(root: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    (root / "etc/timezone").write_text("Asia/Taipei\n")
    monkeypatch.setenv("TZ", value)
    assert find_machine_timezone(root) == "Europe/Berlin"


@pytest.mark.parametrize("value", ["", "No/Where", "/etc/passwd", "../../etc/passwd", "<+03>-3", "\udcff", "a" * 5000])
def test_a_variable_that_names_no_zone_is_passed_over(root: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    (root / "etc/timezone").write_text("Asia/Taipei\n")
    monkeypatch.setenv("TZ", value)
    assert find_machine_timezone(root) == "Asia/Taipei"


@pytest.mark.parametrize("target", ["/usr/share/zoneinfo/America/New_York", "../usr/share/zoneinfo/America/New_York"])
def test_the_link_that_programs_go_by_is_believed_before_the_file(root: Path, target: str) -> None:
    (root / "etc/timezone").write_text("Asia/Taipei\n")
    (root / "etc/localtime").symlink_to(target)
    assert find_machine_timezone(root) == "America/New_York"


def test_a_copied_localtime_leaves_it_to_the_file(root: Path) -> None:
    (root / "etc/localtime").write_bytes(b"TZif2")
    (root / "etc/timezone").write_text("  Australia/Lord_Howe  \n# more\n")
    assert find_machine_timezone(root) == "Australia/Lord_Howe"


def test_this_machine_keeps_a_zone_that_is_known() -> None:
    assert get_zone(find_machine_timezone()).key


@pytest.mark.parametrize("name", ["UTC", "Europe/Berlin", "Asia/Taipei", "Australia/Lord_Howe", "America/New_York"])
def test_zones_by_name(name: str) -> None:
    assert get_zone(name).key == name


@pytest.mark.parametrize("name", ["", "Europe", "Mars/Base", "/etc/localtime", "../UTC", "a\0b", "\udcff", "x" * 9000])
def test_names_of_no_zone_are_refused(name: str) -> None:
    with pytest.raises(UserError, match=r"Time zone .* not found") as refused:
        get_zone(name)
    assert refused.value.field == "timezone"
    assert len(refused.value.message) < 1000


def test_a_slip_of_the_pen_is_guessed() -> None:
    with pytest.raises(UserError) as refused:
        get_zone("Europe/Berln")
    assert "Did you mean Europe/Berlin?" in (refused.value.hint or "")

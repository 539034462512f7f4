"""Which level of isolation tasks must have, and which errors of a trial say that a level is impossible."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from holdfast.engines.base import Isolation
from holdfast.engines.embedded.sandbox import roots, trial
from holdfast.engines.embedded.sandbox.isolation_level import (
    Level,
    best_isolation,
    find_required_level,
    raise_record,
    read_record,
)
from holdfast.engines.embedded.sandbox.trial import Failure

FULL = Level(isolation=Isolation.FULL, seccomp=True, own_devices=True)
READ_ONLY = Level(isolation=Isolation.READ_ONLY, seccomp=True)
NONE = Level()


def test_a_record_only_rises(tmp_path: Path) -> None:
    assert read_record(tmp_path) == NONE
    for level, recorded in ((NONE, NONE), (READ_ONLY, READ_ONLY), (FULL, FULL), (READ_ONLY, FULL), (NONE, FULL)):
        raise_record(tmp_path, level)
        assert read_record(tmp_path) == recorded
    assert [path.name for path in tmp_path.iterdir()] == ["isolation"]


def test_a_damaged_record_counts_as_the_best_level(tmp_path: Path) -> None:
    (tmp_path / "isolation").symlink_to("fu")
    assert read_record(tmp_path) == Level(isolation=best_isolation(), seccomp=True)


def test_a_record_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "isolation").write_text("full")  # no link
    with pytest.raises(OSError, match="Invalid argument"):
        find_required_level(tmp_path, "auto", several_users=False)


@pytest.mark.parametrize(
    ("setting", "several", "recorded", "required"),
    [
        ("auto", False, NONE, NONE),
        ("auto", True, NONE, Level(isolation=Isolation.READ_ONLY)),
        ("auto", False, FULL, FULL),
        ("auto", True, READ_ONLY, READ_ONLY),
        ("full", False, NONE, Level(isolation=Isolation.FULL)),
        ("full", False, READ_ONLY, Level(isolation=Isolation.FULL, seccomp=True)),
        ("read-only", True, FULL, Level(isolation=Isolation.READ_ONLY)),
        ("off", True, FULL, NONE),
    ],
)
def test_the_required_level(tmp_path: Path, setting: str, several: bool, recorded: Level, required: Level) -> None:
    raise_record(tmp_path, recorded)
    assert find_required_level(tmp_path, setting, several_users=several) == required


@pytest.mark.parametrize(("number", "holds"), [(errno.EPERM, False), (errno.ENOSPC, None), (errno.EMFILE, None)])
def test_a_full_disk_says_nothing_about_device_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, holds: bool | None
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "mknod", fail)
    assert roots.holds_devices(tmp_path) is holds


def test_what_a_level_lacks_is_named() -> None:
    assert FULL.missing(READ_ONLY) == []
    assert READ_ONLY.missing(FULL) == ["isolation full, read-only is possible", "separate device files"]
    assert Level(isolation=Isolation.FULL).missing(READ_ONLY) == ["the system call filter"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.EDQUOT])
def test_resources_used_up_say_nothing_about_the_kernel(number: int) -> None:
    text = os.strerror(number)
    assert Failure.from_error(OSError(number, text)).temporary
    assert Failure.from_output(f"bwrap: Can't mkdir parents for /newroot/x: {text}").temporary


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS, errno.EINVAL, errno.EACCES, errno.EOPNOTSUPP])
def test_what_the_kernel_refuses_is_final(number: int) -> None:
    text = os.strerror(number)
    assert not Failure.from_error(OSError(number, text)).temporary
    assert not Failure.from_output(f"bwrap: Creating new namespace failed: {text}").temporary


def test_namespaces_used_up_and_forbidden_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)"
    monkeypatch.setattr(trial, "_NAMESPACE_LIMITS", tmp_path)
    (tmp_path / "max_user_namespaces").write_text("15000\n")
    assert Failure.from_output(text).temporary
    (tmp_path / "max_user_namespaces").write_text("0\n")
    assert not Failure.from_output(text).temporary


def test_a_summary_names_no_path() -> None:
    failure = Failure.from_output("bwrap: Can't make overlay mount on /newroot/ with upperdir=/x: Invalid argument")
    assert failure.summary == "Invalid argument"

"""Which level of isolation tasks must have, and which errors of a trial say that a level is impossible."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from holdfast.engines.base import Isolation
from holdfast.engines.embedded.sandbox import roots, trial
from holdfast.engines.embedded.sandbox.isolation_level import (
    IsolationLevel,
    find_required_level,
    get_best_isolation,
    raise_recorded_level,
    read_recorded_level,
)
from holdfast.engines.embedded.sandbox.trial import SandboxFailure

FULL = IsolationLevel(isolation=Isolation.FULL, seccomp=True, own_devices=True)
READ_ONLY = IsolationLevel(isolation=Isolation.READ_ONLY, seccomp=True)
NONE = IsolationLevel()


def test_a_record_only_rises(tmp_path: Path) -> None:
    assert read_recorded_level(tmp_path) == NONE
    for level, recorded in ((NONE, NONE), (READ_ONLY, READ_ONLY), (FULL, FULL), (READ_ONLY, FULL), (NONE, FULL)):
        raise_recorded_level(tmp_path, level)
        assert read_recorded_level(tmp_path) == recorded
    assert [path.name for path in tmp_path.iterdir()] == ["isolation"]


def test_a_damaged_record_counts_as_the_best_level(tmp_path: Path) -> None:
    (tmp_path / "isolation").symlink_to("fu")
    assert read_recorded_level(tmp_path) == IsolationLevel(isolation=get_best_isolation(), seccomp=True)


def test_a_record_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "isolation").write_text("full")  # no link
    with pytest.raises(OSError, match="Invalid argument"):
        find_required_level(tmp_path, "auto", several_users=False)


@pytest.mark.parametrize(
    ("setting", "several", "recorded", "required"),
    [
        ("auto", False, NONE, NONE),
        ("auto", True, NONE, IsolationLevel(isolation=Isolation.READ_ONLY)),
        ("auto", False, FULL, FULL),
        ("auto", True, READ_ONLY, READ_ONLY),
        ("full", False, NONE, IsolationLevel(isolation=Isolation.FULL)),
        ("full", False, READ_ONLY, IsolationLevel(isolation=Isolation.FULL, seccomp=True)),
        ("read-only", True, FULL, IsolationLevel(isolation=Isolation.READ_ONLY)),
        ("off", True, FULL, NONE),
    ],
)
def test_the_required_level(
    tmp_path: Path, setting: str, several: bool, recorded: IsolationLevel, required: IsolationLevel
) -> None:
    raise_recorded_level(tmp_path, recorded)
    assert find_required_level(tmp_path, setting, several_users=several) == required


@pytest.mark.parametrize(("number", "holds"), [(errno.EPERM, False), (errno.ENOSPC, None), (errno.EMFILE, None)])
def test_a_full_disk_says_nothing_about_device_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, holds: bool | None
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "mknod", fail)
    assert roots.supports_device_files(tmp_path) is holds


def test_what_a_level_lacks_is_named() -> None:
    assert FULL.describe_missing(READ_ONLY) == []
    assert READ_ONLY.describe_missing(FULL) == ["isolation full (available: read-only)", "separate device files"]
    assert IsolationLevel(isolation=Isolation.FULL).describe_missing(READ_ONLY) == ["the system call filter"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.EDQUOT])
def test_resources_used_up_say_nothing_about_the_kernel(number: int) -> None:
    text = os.strerror(number)
    assert SandboxFailure.from_error(OSError(number, text)).temporary
    assert SandboxFailure.from_output(f"bwrap: Can't mkdir parents for /newroot/x: {text}").temporary


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS, errno.EINVAL, errno.EACCES, errno.EOPNOTSUPP])
def test_what_the_kernel_refuses_is_final(number: int) -> None:
    text = os.strerror(number)
    assert not SandboxFailure.from_error(OSError(number, text)).temporary
    assert not SandboxFailure.from_output(f"bwrap: Creating new namespace failed: {text}").temporary


def test_namespaces_used_up_and_forbidden_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)"
    monkeypatch.setattr(trial, "_NAMESPACE_LIMITS_FOLDER", tmp_path)
    (tmp_path / "max_user_namespaces").write_text("15000\n")
    assert SandboxFailure.from_output(text).temporary
    (tmp_path / "max_user_namespaces").write_text("0\n")
    assert not SandboxFailure.from_output(text).temporary


def test_a_summary_names_no_path() -> None:
    failure = SandboxFailure.from_output(
        "bwrap: Can't make overlay mount on /newroot/ with upperdir=/x: Invalid argument"
    )
    assert failure.summary == "Invalid argument"

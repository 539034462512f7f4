"""Which Unix users tasks can run as, and how they get access to files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.engines.slurm.users import TaskOwners, UnixUser
from holdfast.engines.slurm.users.file_access import READ, check_file_access, give_files
from holdfast.engines.slurm.users.unix_user import parse_owner, read_first_uid
from holdfast.engines.slurm.users.user_commands import build_user_command
from holdfast.engines.start_refusal import StartRefused

ADA = UnixUser("ada", 4711, 4712)


@pytest.mark.parametrize(
    ("text", "first"),
    [("UID_MIN 500\n", 500), ("# UID_MIN 5\nUID_MIN\t\t 2000\n", 2000), ("UID_MIN 0\n", 1), ("SYS_UID_MIN 7\n", 1000)],
)
def test_the_first_ordinary_uid_is_that_of_the_machine(tmp_path: Path, text: str, first: int) -> None:
    (tmp_path / "login.defs").write_text(text)
    assert read_first_uid(str(tmp_path / "login.defs")) == first


def test_without_login_defs_ordinary_users_begin_at_1000(tmp_path: Path) -> None:
    assert read_first_uid(str(tmp_path / "missing")) == 1000


def test_an_owner_is_recorded_and_read() -> None:
    assert parse_owner(ADA.to_text()) == ADA
    for text in ("", "ada", "ada 1 2", "ada 1 2\nroot 0 0\n", "-u 1 2\n", "a/b 1 2\n"):
        assert parse_owner(text) is None


def test_all_tasks_run_as_the_server_unless_the_setting_says_otherwise(tmp_path: Path) -> None:
    owners = TaskOwners("service", tmp_path)
    assert owners.find_user("whatever it is") is None
    assert owners.list_uids() == ()
    with pytest.raises(StartRefused):
        TaskOwners("user", tmp_path).find_user("root")


def test_uids_are_remembered(tmp_path: Path) -> None:
    (tmp_path / "users").mkdir()
    (tmp_path / "users" / "4711").touch()
    (tmp_path / "users" / "other").touch()
    owners = TaskOwners("user", tmp_path)
    owners.load()
    assert set(owners.list_uids()) == {4711, os.geteuid()}
    assert owners.find_by_uid(os.geteuid()) is None
    assert owners.find_by_uid(4712) is None


def test_commands_run_by_setpriv_or_sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    command = build_user_command(("ls", "-l"), ADA, "/usr/bin:/bin")
    assert command == ["setpriv", "--reuid=4711", "--regid=4712", "--init-groups", "--", "ls", "-l"]
    assert build_user_command(("ls",), None, "/bin") == ["ls"]
    monkeypatch.setattr(os, "geteuid", lambda: 1)
    command = build_user_command(("ls", "-l"), ADA, "/usr/bin:/bin")
    assert command[:5] == ["sudo", "-n", "-u", "ada", "--"]
    assert command[5].endswith("/ls")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_link_is_not_followed_when_files_are_given(tmp_path: Path) -> None:
    (tmp_path / "target").touch()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "file").touch(mode=0o644)
    give_files([str(tmp_path / name) for name in ("link", "file", "missing")], ADA, READ)
    assert (tmp_path / "target").stat().st_uid == 0
    given = (tmp_path / "file").stat()
    assert (given.st_uid, given.st_gid, given.st_mode & 0o777) == (4711, 4712, 0o600)
    assert check_file_access(str(tmp_path)) == ""
    assert list(tmp_path.glob("check.*")) == []

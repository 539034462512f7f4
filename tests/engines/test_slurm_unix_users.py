"""Which Unix users tasks can run as, and how they get access to files."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from holdfast.engines.slurm.users import TaskOwners, UnixUser
from holdfast.engines.slurm.users.file_access import READ, check_file_access, give_files
from holdfast.engines.slurm.users.unix_user import find_unix_user, parse_owner, read_first_uid
from holdfast.engines.slurm.users.user_commands import build_user_command, is_denied_by_sudo
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
    for text in ("", "ada", "ada 1 2", "ada 1 2\nroot 0 0\n", "-u 1 2\n", "a/b 1 2\n", "../x 1 2\n"):
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


def test_it_is_recorded_whose_job_a_task_is(tmp_path: Path) -> None:
    owners = TaskOwners("user", tmp_path)
    assert owners.find_task_uid("a") == os.geteuid()
    for user in (ADA, UnixUser("bob", 4713, 4713)):
        owners.record_task("a", user)
        assert TaskOwners("user", tmp_path).find_task_uid("a") == user.uid
    owners.forget_task("a")
    owners.forget_task("a")
    assert owners.find_task_uid("a") == os.geteuid()


def test_nothing_new_runs_as_a_user_that_has_changed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    known = {"ada": 4711, "moved": 5000, "service": 64030}
    fields = {name: pwd.struct_passwd((name, "x", uid, uid, "", "/", "/bin/sh")) for name, uid in known.items()}
    monkeypatch.setattr(pwd, "getpwnam", fields.__getitem__)
    owners = TaskOwners("user", tmp_path)
    owners.check_owner(None)
    owners.check_owner(UnixUser("ada", 4711, 4711))
    for name, uid in (("moved", 4711), ("deleted", 4711), ("service", 64030)):
        with pytest.raises(StartRefused):
            owners.check_owner(UnixUser(name, uid, uid))


def test_names_that_a_directory_service_only_resembles_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = pwd.struct_passwd(("ada", "x", 4711, 4711, "", "/", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwnam", lambda _: found)
    assert find_unix_user("ada").uid == 4711
    with pytest.raises(StartRefused):
        find_unix_user("ADA")


@pytest.mark.parametrize(
    ("error", "is_denied"),
    [
        ("sudo: a password is required\n", True),
        ("sudo: unknown user #4711\nsudo: error initializing audit plugin sudoers_audit\n", True),
        ("Sorry, user holdfast is not allowed to execute '/usr/bin/sbatch' as ada on host.\n", True),
        ("sbatch: error: Batch job submission failed: Invalid partition name specified\n", False),
        ("", False),
    ],
)
def test_errors_of_sudo_are_told_from_those_of_commands(error: str, is_denied: bool) -> None:
    assert is_denied_by_sudo(error) is is_denied


def test_commands_run_by_setpriv_or_sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    command = build_user_command(("ls", "-l"), UnixUser("daemon", 1, 1), "/usr/bin:/bin")
    assert command == ["setpriv", "--reuid=1", "--regid=1", "--init-groups", "--", "ls", "-l"]
    command = build_user_command(("ls", "-l"), ADA, "/usr/bin:/bin")  # who was deleted
    assert command == ["setpriv", "--reuid=4711", "--regid=4712", "--clear-groups", "--", "ls", "-l"]
    assert build_user_command(("ls",), None, "/bin") == ["ls"]
    monkeypatch.setattr(os, "geteuid", lambda: 1)
    command = build_user_command(("ls", "-l"), ADA, "/usr/bin:/bin")
    assert command[:5] == ["sudo", "-n", "-u", "#4711", "--"]
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

"""`sudo` in PrimeHub's jobs, as real tasks find it, in images that have none."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast.engines.base import Isolation
from holdfast.launching import PrimeHubSettings
from holdfast.launching.primehub.entry import SUDO_SCRIPT
from tests.engines.scenarios import need

from .primehub_scene import Place

without_sudo = pytest.mark.skipif(shutil.which("sudo") is not None, reason="the machine has a sudo of its own")
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has a sudo to give")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(Path(os.path.realpath(tmp_path)))


@without_sudo
@pytest.mark.skipif(os.geteuid() == 0, reason="only for ordinary users; test_ordinary_user.py runs it")
def test_who_is_not_root_is_promised_none(place: Place) -> None:
    need(Isolation.READ_ONLY)
    assert place.lines("command -v sudo || echo none; echo $GRANT_SUDO") == ["none", "false"]


@only_root
@without_sudo
def test_the_job_can_change_its_system(place: Place) -> None:
    need(Isolation.FULL)
    command = """
    echo $GRANT_SUDO
    sudo touch /usr/lib/new && ls /usr/lib/new
    sudo -E sh -c 'echo "$PRIMEHUB_USER"'
    A=1 sudo B=2 env | grep -E '^[AB]='
    /usr/bin/sudo -n -u root id -u
    """
    assert place.lines(command) == ["true", "/usr/lib/new", "alice", "A=1", "B=2", "0"]
    assert not Path("/usr/bin/sudo").exists()


@only_root
@without_sudo
def test_switched_off_there_is_none(place: Place) -> None:
    need(Isolation.FULL)
    off = PrimeHubSettings(sudo=False)
    assert place.lines("command -v sudo || echo none; echo $GRANT_SUDO", platform=off) == ["none", "false"]


@pytest.fixture(params=["dash", "bash"])
def sudo(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """To be run as root, by whichever shell an image has."""
    shell = shutil.which(request.param)
    if os.geteuid() != 0 or shell is None:
        pytest.skip(f"needs root and {request.param}")
    script = tmp_path / "sudo"
    script.write_text(SUDO_SCRIPT)
    return [shell, str(script)]


def ask(sudo: list[str], *args: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": "/home/jovyan", "SHELL": "/bin/sh", "KEPT": "yes"}
    return subprocess.run([*sudo, *args], env=env, input="echo in", capture_output=True, text=True, timeout=30)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["echo", "-u", "it's  all", "*"], "-u it's  all *\n"),
        (["-E", "printenv", "KEPT"], "yes\n"),
        (["-nE", "--", "echo", "a"], "a\n"),
        (["-uroot", "id", "-un"], "root\n"),
        (["-u", "#0", "id", "-u"], "0\n"),
        (["--user=root", "id", "-u"], "0\n"),
        (["-p", "password:", "echo", "a"], "a\n"),
        (["--preserve-env=A,B", "echo", "a"], "a\n"),
        (["-H", "printenv", "HOME"], "/root\n"),
        (["printenv", "HOME"], "/home/jovyan\n"),
        (["X=1 2", "Y=", "sh", "-c", 'echo "$X|$Y"'], "1 2|\n"),
        (["-s"], "in\n"),
        (["-i", "echo", "a"], "a\n"),
        (["-v"], ""),
        (["-nk"], ""),
        (["sh", "-c", "exit 0"], ""),
    ],
)
def test_what_people_write(sudo: list[str], args: list[str], said: str) -> None:
    done = ask(sudo, *args)
    assert (done.returncode, done.stdout, done.stderr) == (0, said, "")


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv")
def test_becoming_somebody_else(sudo: list[str]) -> None:
    assert ask(sudo, "-u", "nobody", "id", "-un").stdout == "nobody\n"
    assert ask(sudo, "-u", "nobody", "sh", "-c", "touch /x || exit 5").returncode == 5


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "there is no command to run"),
        (["-E"], "there is no command to run"),
        (["-Z", "id"], "unknown option -Z"),
        (["-EZ", "id"], "unknown option -Z"),
        (["--chroot=/x", "id"], "unknown option --chroot=/x"),
        (["-u"], "option -u needs a value"),
        (["-u", "no-such-user", "id"], "there is no user no-such-user"),
        (["no-such-program"], "no-such-program: command not found"),
    ],
)
def test_what_it_cannot_do_it_says(sudo: list[str], args: list[str], said: str) -> None:
    done = ask(sudo, *args)
    assert done.returncode == 1
    assert f"sudo: {said}" in done.stderr


def test_the_code_of_the_command_is_its_own(sudo: list[str]) -> None:
    assert ask(sudo, "sh", "-c", "exit 42").returncode == 42

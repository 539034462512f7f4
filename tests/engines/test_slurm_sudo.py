"""Tasks in Slurm that run as the Unix users of their owners, with a server that is not root: by the documented rule."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.slurm_cluster import run_cluster
from tests.unix_users import create_users, get_uid, remove_folder

pytestmark = pytest.mark.release

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "slurm.md"
TIMEOUT = 120.0  # seconds


def read_rule() -> str:
    found = re.search(r"```sudoers\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


@contextmanager
def install_rule(service: str, *members: str) -> Iterator[None]:
    """Install the documented rule for other names: the group has the name of the service user, with an `s`."""
    group = f"{service}s"
    text = read_rule().replace("holdfast-users", group).replace("holdfast", service)
    text = text.replace("HOLDFAST_SLURM", f"HOLDFAST_{service.upper()}")
    path = Path("/etc/sudoers.d") / service
    subprocess.run(["groupadd", group], check=True)
    try:
        draft = path.with_suffix(".draft")  # sudo ignores it
        draft.write_text(text)
        draft.chmod(0o440)
        draft.rename(path)
        subprocess.run(["visudo", "-c"], check=True, capture_output=True)
        for name in members:
            subprocess.run(["gpasswd", "-a", name, group], check=True, capture_output=True)
        yield
    finally:
        path.unlink(missing_ok=True)
        subprocess.run(["groupdel", group], check=True)


def need_sudo() -> None:
    if os.geteuid() != 0 or shutil.which("sudo") is None or not Path("/etc/sudoers.d").is_dir():
        pytest.skip("needs root and sudo (apt-get install sudo)")


def test_the_documented_rule_is_valid(tmp_path: Path) -> None:
    need_sudo()
    (tmp_path / "rule").write_text(read_rule())
    (tmp_path / "rule").chmod(0o440)
    done = subprocess.run(["visudo", "-c", "-s", "-f", str(tmp_path / "rule")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_service_user_runs_tasks_as_their_owners_and_nobody_else() -> None:
    need_sudo()
    folder = Path(tempfile.mkdtemp(prefix="holdfast-sudo-"))
    folder.chmod(0o755)
    try:
        with run_cluster() as cluster, create_users(4) as (service, user, other, stranger):
            shutil.chown(folder, service)

            def run_as_service(*command: str) -> subprocess.CompletedProcess[str]:
                uid = get_uid(service)
                return subprocess.run(
                    command, user=uid, group=uid, extra_groups=(), capture_output=True, text=True, timeout=TIMEOUT,
                    cwd=GUIDE.parents[2], env={"PATH": os.environ["PATH"], "HOME": "/", "PYTHONDONTWRITEBYTECODE": "1"},
                )  # fmt: skip

            shared = str(folder / "shared")
            node_folder = folder / "node"
            node_folder.mkdir()
            node_folder.chmod(0o1777)
            program = [sys.executable, "-m", "tests.engines.slurm_sudo_scenario"]
            done = run_as_service(*program, str(folder / "first"), str(cluster.conf))
            assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-3000:]
            with install_rule(service, user, other, "root"):
                done = run_as_service(*program, shared, str(cluster.conf), str(node_folder), user, other, stranger)
                assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-3000:]
                check_rule(run_as_service, user, stranger)
    finally:
        remove_folder(folder)


def check_rule(run_as_service: Callable[..., subprocess.CompletedProcess[str]], user: str, stranger: str) -> None:
    """Nobody else, also not root, who is in the group; and nothing else."""
    for name in (stranger, "root", "#0", f"#{get_uid(stranger)}"):
        assert run_as_service("sudo", "-n", "-u", name, "/usr/bin/srun", "true").returncode == 1
    assert run_as_service("sudo", "-n", "/usr/bin/srun", "true").returncode == 1
    assert run_as_service("sudo", "-n", "-u", user, "-g", "root", "/usr/bin/srun", "true").returncode == 1
    assert run_as_service("sudo", "-n", "-u", user, "/bin/sh", "-c", "true").returncode == 1

"""A real Slurm cluster with accounting: slurmdbd and MariaDB, in the folder of the cluster."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.free_ports import reserve_port

from .slurm_cluster import SlurmCluster, skip_without_slurm, wait_until

PROGRAMS = ("slurmdbd", "sacct", "sacctmgr", "mariadbd", "mariadb", "mariadb-install-db")
ACCOUNTS = ("lab", "small", "closed")

SLURM_CONF = """AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={folder}/munge.sock
AccountingStorageEnforce=associations,limits,qos
"""
SLURMDBD_CONF = """
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
DbdAddr=127.0.0.1
DbdHost=localhost
DbdPort={port}
SlurmUser=root
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm
CommitDelay=0
"""


class AccountedCluster(SlurmCluster):
    """Users of it are root in the accounts; `lab` is the default."""

    def __init__(self, folder: Path, *, min_job_age: int = 300) -> None:
        port = reserve_port()
        super().__init__(folder, min_job_age=min_job_age, accounting=SLURM_CONF.format(folder=folder, port=port))
        self._daemon: subprocess.Popen[bytes] | None = None
        self._database: subprocess.Popen[bytes] | None = None
        conf = folder / "slurmdbd.conf"
        conf.write_text(SLURMDBD_CONF.format(folder=folder, port=port))
        conf.chmod(0o600)

    def start(self) -> None:
        self._start_database()
        self.start_munge()
        self.start_database_daemon()
        self.manage("add", "cluster", "holdfast")
        for account in ACCOUNTS:
            self.manage("add", "account", account)
        self.manage("add", "user", "root", f"account={','.join(ACCOUNTS)}", "defaultaccount=lab")
        super().start()

    def _start_database(self) -> None:
        data = self.folder / "database"
        options = ["--no-defaults", "--user=root", f"--datadir={data}"]
        install = ["mariadb-install-db", *options, "--auth-root-authentication-method=normal", "--skip-test-db"]
        subprocess.run(install, check=True, capture_output=True, timeout=120)
        more = ["--skip-networking", f"--socket={self.folder}/database.sock", "--innodb-buffer-pool-size=64M"]
        self._database = self.spawn(["mariadbd", *options, *more], "database.log")
        wait_until(lambda: self._run_sql("SELECT 1"), self.folder)

    def _run_sql(self, text: str) -> bool:
        command = ["mariadb", "--no-defaults", "-uroot", f"--socket={self.folder}/database.sock", "-e", text]
        return subprocess.run(command, capture_output=True, timeout=60).returncode == 0

    def start_database_daemon(self) -> None:
        self._daemon = self.spawn(["slurmdbd", "-D"], "slurmdbd.out", MYSQL_UNIX_PORT=f"{self.folder}/database.sock")
        wait_until(
            lambda: "|" in self.query("sacctmgr", "-n", "-P", "show", "user", "root", "format=user,admin"), self.folder
        )

    def kill_database_daemon(self) -> None:
        assert self._daemon is not None
        self._daemon.kill()
        self._daemon.wait()

    def pause_database(self) -> None:
        """It accepts connections, and does not respond."""
        assert self._daemon is not None
        self._daemon.send_signal(signal.SIGSTOP)

    def restore_database(self) -> None:
        """Undo what the two above did."""
        assert self._daemon is not None
        self._daemon.send_signal(signal.SIGCONT)
        if self._daemon.poll() is not None:
            self.start_database_daemon()

    def manage(self, *arguments: str) -> str:
        """Run sacctmgr, without questions."""
        result = subprocess.run(
            ("sacctmgr", "-i", *arguments), env=self.env, capture_output=True, text=True, timeout=60
        )
        assert result.returncode == 0 or "Nothing" in result.stdout, result
        return result.stdout

    def stop(self) -> None:
        super().stop()
        for process in (self._daemon, self._database):
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(30)


@contextmanager
def run_accounted_cluster(*, min_job_age: int = 300) -> Iterator[AccountedCluster]:
    skip_without_slurm()
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        packages = "slurmdbd mariadb-server-core mariadb-client-core"
        pytest.skip(f"needs {', '.join(missing)} (apt-get install {packages})")
    folder = Path(tempfile.mkdtemp(prefix="holdfast-slurm-"))
    folder.chmod(0o755)
    cluster = AccountedCluster(folder, min_job_age=min_job_age)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)

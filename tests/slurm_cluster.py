"""A real Slurm cluster for tests: one controller and three nodes on this machine, in a folder of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast.engines.slurm import SlurmOptions
from tests.free_ports import reserve_port, reserve_ports

NODES = ("n1", "n2", "n3")
START_TIMEOUT = 60.0  # seconds
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "sinfo", "srun")

SLURM_CONF = """
ClusterName=holdfast
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock,cred_expire=10
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdSpoolDir={folder}/spool-%n
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdLogFile={folder}/slurmd-%n.log
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,sched_min_interval=0
{limits}
{accounting}
MpiDefault=none
MessageTimeout=2
TCPTimeout=1
SlurmdTimeout=10
KillWait=2
MinJobAge={min_job_age}
ReturnToService=2
JobRequeue=1
NodeName=n[1-3] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{node_ports}] CPUs=8 RealMemory=4000{node_options}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=short Nodes=n3 MaxTime=5 State=UP
{more}
"""
GPU_NODE_OPTIONS = "Gres=gpu:a100:2 Feature=ib"
GPU_LINES = "GresTypes=gpu\nPartitionName=gpu Nodes=n2 MaxTime=INFINITE State=UP"
GRES_CONF = "Name=gpu Type=a100 File={folder}/gpu[0-1]\n"  # plain files: Slurm counts them
PLAIN = "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none"
CGROUPS = "ProctrackType=proctrack/cgroup\nTaskPlugin=task/cgroup\nJobAcctGatherType=jobacct_gather/cgroup"
NO_ACCOUNTING = "AccountingStorageType=accounting_storage/none"
_USABLE_STATES = ("idle", "mixed", "allocated", "completing")
CGROUP_CONF = "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\nConstrainRAMSpace=yes\n"


class SlurmCluster:
    """Its commands find it by the variable SLURM_CONF."""

    def __init__(
        self,
        folder: Path,
        *,
        cgroups: bool = False,
        min_job_age: int = 300,
        accounting: str = NO_ACCOUNTING,
        node_options: str = "",
        more: str = "",
        gpus: bool = False,
    ) -> None:
        """`node_options`: of all nodes. `more`: lines of slurm.conf. `gpus`: each node has the feature `ib` and two
        GPUs of the type a100, and there is a partition gpu with n2."""
        if gpus:
            node_options, more = GPU_NODE_OPTIONS, GPU_LINES
        self.folder = folder
        self.conf = folder / "slurm.conf"
        self._controller: subprocess.Popen[bytes] | None = None
        self._munge: subprocess.Popen[bytes] | None = None
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        host = socket.gethostname()
        controller_port, node_port = reserve_port(), reserve_ports(len(NODES))[0]
        self.conf.write_text(
            SLURM_CONF.format(
                folder=folder,
                host=host,
                controller_port=controller_port,
                node_ports=f"{node_port}-{node_port + 2}",
                limits=CGROUPS if cgroups else PLAIN,
                min_job_age=min_job_age,
                accounting=accounting,
                node_options=node_options and f" {node_options}",
                more=more,
            )
        )
        if gpus:
            (folder / "gres.conf").write_text(GRES_CONF.format(folder=folder))
            for number in range(2):
                (folder / f"gpu{number}").touch()
        if cgroups:
            (folder / "cgroup.conf").write_text(CGROUP_CONF)
        (folder / "state").mkdir()

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "SLURM_CONF": str(self.conf)}

    def start(self) -> None:
        """Start it, and wait until all nodes are idle."""
        self.start_munge()
        self._spawn_controller()
        for node in NODES:
            self._nodes[node] = self._spawn_node(node)
        wait_until(lambda: self.query("sinfo", "-h", "-o", "%t %D", "-p", "main").strip() == "idle 3", self.folder)

    def start_munge(self) -> None:
        """Start it unless it runs."""
        if self._munge is not None:
            return
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        paths = {name: f"--{name}={self.folder}/munged.{name[:3]}" for name in ("pid-file", "log-file", "seed-file")}
        command = ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.folder}/munge.sock"]
        self._munge = self.spawn([*command, *paths.values()], "munged.out")
        wait_until((self.folder / "munge.sock").exists, self.folder)

    def _spawn_controller(self, *options: str) -> None:
        self._controller = self.spawn(["slurmctld", "-D", *options, "-f", str(self.conf)], "slurmctld.out")

    def spawn(self, command: list[str], log_name: str, **variables: str) -> subprocess.Popen[bytes]:
        env = {**self.env, **variables}
        with (self.folder / log_name).open("ab") as log:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, cwd=self.folder,
                start_new_session=True,
            )  # fmt: skip

    def query(self, *command: str) -> str:
        """Return its output; empty if the controller does not respond."""
        return subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=60).stdout

    def responds(self) -> bool:
        return "is UP" in self.query("scontrol", "ping")

    def wait_for_save(self) -> None:
        """Wait until the controller has saved what it knows: it does so seconds later, and a crash loses the rest. A
        save that contains a job of our own contains everything before it."""
        name = f"save-{os.urandom(6).hex()}"
        saved = self.folder / "state" / "job_state"
        number = self.query("sbatch", "--parsable", "--hold", f"--job-name={name}", "--output=/dev/null", "--wrap=true")
        wait_until(lambda: saved.exists() and name.encode() in saved.read_bytes(), self.folder)
        self.query("scancel", number.strip())

    def kill_controller(self) -> None:
        """As a crash would."""
        assert self._controller is not None
        self._controller.kill()
        self._controller.wait()

    def start_controller(self, *options: str) -> None:
        self._spawn_controller(*options)
        wait_until(self.responds, self.folder)

    def kill_node(self, node: str) -> None:
        """Kill the daemon of a node. Its tasks run on."""
        self._nodes[node].kill()
        self._nodes[node].wait()

    def kill_node_with_tasks(self, node: str) -> None:
        """As a machine that loses power."""
        self.kill_node(node)
        for pid in _list_descendants(_find_step_managers(self.folder / f"spool-{node}")):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def resume_nodes(self) -> None:
        """Use all nodes again, also those that Slurm has drained."""
        self.query("scontrol", "update", "nodename=n[1-3]", "state=resume")
        wait_until(lambda: all(map(self._is_node_ready, NODES)), self.folder)

    def resume_drained_nodes(self) -> None:
        """Once, as an admin who looks at the cluster."""
        for node in NODES:
            self._is_node_ready(node)

    def start_node(self, node: str, mount: str = "") -> None:
        """Start the daemon again, and wait until the node responds. `mount`: a command that changes its mounts."""
        self._nodes[node] = self._spawn_node(node, mount)
        wait_until(lambda: self._is_node_ready(node), self.folder)

    def _is_node_ready(self, node: str) -> bool:
        state = next(iter(self.query("sinfo", "-h", "-N", "-n", node, "-o", "%T").split()), "")
        if state.startswith("drain"):  # Slurm drains a node that failed to report the end of a job: an admin resumes it
            self.query("scontrol", "update", f"NodeName={node}", "State=RESUME")
        return state in _USABLE_STATES

    def _spawn_node(self, node: str, mount: str = "") -> subprocess.Popen[bytes]:
        command = ["slurmd", "-D", "-N", node, "-f", str(self.conf)]
        if mount:
            command = ["unshare", "--mount", "sh", "-c", f'{mount} && exec "$@"', "sh", *command]
        return self.spawn(command, f"slurmd-{node}.out")

    def stop(self) -> None:
        """Cancel all jobs, and end all daemons."""
        if self.responds():
            numbers = self.query("squeue", "-h", "-o", "%A").split()
            if numbers:
                self.query("scancel", *numbers)
            # A step whose slurmctld was killed reports its end a minute later: those jobs are not waited for.
            wait_until(lambda: not self.query("squeue", "-h", "-t", "PENDING,RUNNING").strip(), self.folder)
        for process in (*self._nodes.values(), self._controller, self._munge):
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def _find_step_managers(spool: Path) -> list[int]:
    """Return the processes that run the steps of a node: their sockets are in its folder."""
    sockets = {str(path) for path in spool.iterdir()}
    listed = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    inodes = {f"socket:[{fields[6]}]" for fields in listed if len(fields) == 8 and fields[7] in sockets}
    found = []
    for folder in Path("/proc").glob("[0-9]*/fd"):
        with suppress(OSError):
            if inodes & {str(entry.readlink()) for entry in folder.iterdir()}:
                found.append(int(folder.parent.name))
    return found


def _list_descendants(pids: list[int]) -> list[int]:
    """Return these processes and all below them."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(status.read_text().rpartition(") ")[2].split()[1])
            children.setdefault(parent, []).append(int(status.parent.name))
    found, left = [], list(pids)
    while left:
        found.append(pid := left.pop())
        left += children.get(pid, [])
    return found


def wait_until(holds: object, folder: Path) -> None:
    assert callable(holds)
    end = time.monotonic() + START_TIMEOUT
    while not holds():
        assert time.monotonic() < end, "".join(path.read_text()[-1500:] for path in sorted(folder.glob("*.log")))
        time.sleep(0.05)


def skip_without_slurm() -> None:
    missing = [name for name in PROGRAMS if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None]
    if missing or os.geteuid() != 0:
        pytest.skip("needs root, and Slurm with munge (apt-get install slurm-wlm slurm-client munge)")


def make_fast_options(cluster: SlurmCluster, **more: Any) -> SlurmOptions:
    """Return options of an engine that looks often."""
    return SlurmOptions(
        conf=str(cluster.conf),
        busy_interval=0.1,
        calm_interval=0.5,
        min_interval=0.05,
        log_interval=0.05,
        heartbeat_interval=0.5,
        report_timeout=0.5,
        **more,
    )


@contextmanager
def run_cluster(**options: Any) -> Iterator[SlurmCluster]:
    """`options`: see SlurmCluster."""
    skip_without_slurm()
    folder = Path(tempfile.mkdtemp(prefix="holdfast-slurm-"))
    folder.chmod(0o755)
    cluster = SlurmCluster(folder, **options)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)

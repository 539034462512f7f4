"""Real container daemons for tests: each with its own data and socket, stopped by its pid."""

from __future__ import annotations

import ctypes
import io
import os
import re
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

IMAGE = "holdfast-tests"  # busybox
NO_SHELL_IMAGE = "holdfast-no-shell"
BASH_IMAGE = "holdfast-bash"  # the machine's own bash and sh, beside busybox
NO_NETWORK_CHANGES = ("--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false")
START_TIMEOUT = 60.0  # seconds
_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)

CONTAINERS_CONF = """[containers]
default_ulimits = ["nofile=20000:20000", "nproc=20000:20000"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
runtime = "runc"
"""  # by default the locks of all Podmans of the machine are in one shared memory, and those of tests stay there


class ContainerDaemon:
    """One daemon, in a folder and a network namespace of its own. Its containers share its network."""

    insecure_registry = ""  # host that Podman may reach without TLS; Docker does so for localhost

    def __init__(self, folder: Path, network: int) -> None:
        """`network`: a descriptor of its network namespace."""
        self.folder = folder
        self._network = network
        self.socket = str(folder / "s")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def command(self) -> list[str]:
        raise NotImplementedError

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "TMPDIR": str(self.folder)}  # a containerd that hangs writes its stacks there

    def start(self) -> None:
        """Start it, and wait until it responds."""
        Path(self.socket).unlink(missing_ok=True)
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self.enter_network, *self.command],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self.env, cwd=self.folder, start_new_session=True,
            )  # fmt: skip
        end = time.monotonic() + START_TIMEOUT
        while not self.responds():
            assert self._process.poll() is None, (self.folder / "log").read_text()[-3000:]
            assert time.monotonic() < end, (self.folder / "log").read_text()[-3000:]
            time.sleep(0.05)

    @property
    def enter_network(self) -> list[str]:
        """The beginning of a command that runs in its network namespace."""
        return ["nsenter", f"--net=/proc/{os.getpid()}/fd/{self._network}"]

    @contextmanager
    def join_network(self) -> Iterator[None]:
        """Move this thread into its network namespace, and the threads and processes that it starts meanwhile. A server
        reaches the ports of containers as on a machine that it shares with the daemon."""
        with open("/proc/thread-self/ns/net") as before:
            _set_network(self._network)
            try:
                yield
            finally:
                _set_network(before.fileno())

    @contextmanager
    def run_registry(self, config: Path, address: str) -> Iterator[None]:
        """Run a registry in its network namespace, which it reaches at HOST:PORT."""
        command = [*self.enter_network, "docker-registry", "serve", str(config)]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
            try:
                with self.join_network():
                    _wait_until_it_listens(address)
                yield
            finally:
                process.terminate()

    def open_to_all(self) -> None:
        """Let every user use it, as the members of the group docker can."""
        self.folder.chmod(0o755)
        Path(self.socket).chmod(0o666)

    def responds(self) -> bool:
        try:
            with self.client() as client:
                return client.get("/_ping").status_code == 200
        except httpx.HTTPError:
            return False

    def client(self) -> httpx.Client:
        return httpx.Client(transport=httpx.HTTPTransport(uds=self.socket), base_url="http://daemon/v1.41", timeout=60)

    def kill(self) -> None:
        """As a crash would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()

    def import_image(self, name: str, data: bytes) -> None:
        with self.client() as client:
            query = {"fromSrc": "-", "repo": name, "tag": "latest"}
            answer = client.post(
                "/images/create", params=query, content=data, headers={"Content-Type": "application/x-tar"}
            )
            assert answer.status_code == 200, answer.text

    def remove_all(self) -> None:
        with suppress(httpx.HTTPError), self.client() as client:
            for found in client.get("/containers/json", params={"all": "1"}).raise_for_status().json():
                client.delete(f"/containers/{found['Id']}", params={"force": "1", "v": "1"})


class Dockerd(ContainerDaemon):
    live_restore = True

    @property
    def command(self) -> list[str]:
        own = ["--data-root", f"{self.folder}/data", "--exec-root", f"{self.folder}/exec", "-p", f"{self.folder}/pid"]
        more = ["--live-restore"] if self.live_restore else []
        return ["dockerd", *own, "-H", f"unix://{self.socket}", *NO_NETWORK_CHANGES, *more]

    def kill(self) -> None:
        """With its containerd, which the kernel kills too, but only a little later."""
        super().kill()
        (self.folder / "pid").unlink(missing_ok=True)
        pid_file = self.folder / "exec" / "containerd" / "containerd.pid"
        with suppress(OSError, ValueError):
            os.kill(int(pid_file.read_text()), signal.SIGKILL)
        pid_file.unlink(missing_ok=True)  # a new dockerd would wait for a process with that pid


class PodmanService(ContainerDaemon):
    @property
    def command(self) -> list[str]:
        own = ["--root", f"{self.folder}/root", "--runroot", f"{self.folder}/run", "--tmpdir", f"{self.folder}/tmp"]
        return ["podman", *own, "system", "service", "-t", "0", f"unix://{self.socket}"]

    @property
    def env(self) -> dict[str, str]:
        (self.folder / "containers.conf").write_text(CONTAINERS_CONF)
        registry = f'[[registry]]\nlocation = "{self.insecure_registry}"\ninsecure = true\n'
        (self.folder / "registries.conf").write_text(registry if self.insecure_registry else "")
        return {
            **super().env,
            "CONTAINERS_CONF": str(self.folder / "containers.conf"),
            "CONTAINERS_REGISTRIES_CONF": str(self.folder / "registries.conf"),
        }


def _set_network(namespace: int) -> None:
    if _libc.setns(namespace, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns failed")


def _wait_until_it_listens(address: str) -> None:
    host, _, port = address.partition(":")
    end = time.monotonic() + START_TIMEOUT
    while True:
        with suppress(ConnectionRefusedError), socket.create_connection((host, int(port))):
            return
        assert time.monotonic() < end, f"nothing listens at {address}"
        time.sleep(0.02)


@contextmanager
def create_network() -> Iterator[int]:
    """Create a network namespace with a loopback interface only; return a descriptor. It exists as long as that is
    open, or a process is in it."""
    command = ["unshare", "-n", "sh", "-c", "busybox ip link set lo up && echo up && read line"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        namespace = os.open(f"/proc/{process.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield namespace
    finally:
        os.close(namespace)


def need_program(name: str) -> None:
    """Skip a test aloud where it cannot run."""
    if os.geteuid() != 0:
        pytest.skip(f"only root can start {name}")
    for program in (name, "unshare", "nsenter", "busybox"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    if b"ld-linux" in Path(os.path.realpath(str(shutil.which("busybox")))).read_bytes()[:4096]:
        pytest.skip("busybox is not static: install busybox-static")


@contextmanager
def run_daemon(kind: type[ContainerDaemon], *, insecure_registry: str = "") -> Iterator[ContainerDaemon]:
    """Run one with the images of the tests."""
    need_program("dockerd" if issubclass(kind, Dockerd) else "podman")
    with create_network() as network:
        folder = Path(tempfile.mkdtemp(prefix="hf-", dir="/tmp"))  # short: paths of sockets have at most 108 characters
        daemon = kind(folder, network)
        daemon.insecure_registry = insecure_registry
        try:
            daemon.start()
            daemon.import_image(IMAGE, build_root_tar(shell=True))
            daemon.import_image(NO_SHELL_IMAGE, build_root_tar(shell=False))
            daemon.import_image(BASH_IMAGE, build_root_tar(shell=False, programs=("bash", "sh")))
            yield daemon
        finally:
            daemon.remove_all()
            daemon.stop()
            clean_up_folder(folder)


def clean_up_folder(folder: Path) -> None:
    """Remove the folder of a daemon that has stopped, with the processes and mounts that it left."""
    _end_processes(folder)
    _remove_folder(folder)


def _end_processes(folder: Path) -> None:
    """End what a daemon that was killed left: the parents of its containers, which name its folder, their children, and
    the programs that Podman runs when a container ends."""
    end = time.monotonic() + START_TIMEOUT
    while found := _list_processes(folder):
        assert time.monotonic() < end, f"these processes do not end: {found}"
        for pid in found:  # parents first: they would start other programs at the end of a child
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _list_processes(folder: Path) -> list[int]:
    """Return the processes that name the folder, then their children."""
    parents: list[int] = []
    children: list[int] = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            pid = int(entry.name)
            if f"{folder}/".encode() in (entry / "cmdline").read_bytes():
                parents.append(pid)
                children += map(int, (entry / "task" / str(pid) / "children").read_text().split())
    return [*parents, *children]


def _remove_folder(folder: Path) -> None:
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for point in sorted((point for point in mounts if point.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "-l", point], check=False)
    shutil.rmtree(folder, ignore_errors=True)


def build_root_tar(*, shell: bool, programs: tuple[str, ...] = ()) -> bytes:
    """A root filesystem of busybox, with or without its shell, and of some programs of this machine."""
    busybox = shutil.which("busybox")
    assert busybox is not None
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder in ("bin", "etc", "tmp", "root", "proc", "sys", "dev", "run", "var"):
            info = tarfile.TarInfo(folder)
            info.type, info.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(info)
        _add_file(tar, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n", 0o644)
        _add_file(tar, "bin/busybox", Path(os.path.realpath(busybox)).read_bytes(), 0o755)
        names = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
        for name in names:
            if name != "busybox" and (shell or name not in ("sh", "ash")):
                info = tarfile.TarInfo(f"bin/{name}")
                info.type, info.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(info)
        for program in programs:
            path = os.path.realpath(str(shutil.which(program)))
            _add_file(tar, f"bin/{program}", Path(path).read_bytes(), 0o755)
        for library in _list_libraries(programs):
            _add_file(tar, library.lstrip("/"), Path(os.path.realpath(library)).read_bytes(), 0o755)
    return buffer.getvalue()


def _list_libraries(programs: tuple[str, ...]) -> list[str]:
    found: dict[str, None] = {}
    for program in programs:
        listing = subprocess.run(["ldd", str(shutil.which(program))], capture_output=True, text=True, check=True).stdout
        found.update(dict.fromkeys(re.findall(r"(/\S+) \(0x", listing)))
    return list(found)


def _add_file(tar: tarfile.TarFile, name: str, data: bytes, mode: int) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), mode
    tar.addfile(info, io.BytesIO(data))

"""The same sandbox without Holdfast: the server's call of bubblewrap, repeated in a bare loop.

The engine's code is not used. A sleeping job is started on the server, and its sandbox is read from the kernel: the
arguments, the descriptors and the folders. Only the script differs, and the folders are new.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from .harness import TIMEOUT, BenchServer

NO_OP_SCRIPT = b"true\n"
STATUS_FD = 8  # bubblewrap writes its status to it; the runner opens it late
CLAIM_FD = 9  # only used by the runner
DESCRIPTOR_PREFIX = "/proc/self/fd/"
MIN_DESCRIPTOR = 100  # above all descriptors that a sandbox inherits


@dataclass(frozen=True, slots=True)
class SandboxCall:
    """The call of bubblewrap for one task, as the server made it."""

    argv: list[str]
    files: dict[int, bytes]  # contents of descriptors that are files in memory
    paths: dict[int, str]  # of descriptors that are files on disk
    folder: Path  # the task's
    folders: list[tuple[str, int]]  # below that folder, with their modes
    device_files: list[tuple[str, int, int]]  # device files below that folder: name, mode, device
    program: bytes  # the executable of bubblewrap
    env: dict[str, str]


@dataclass(frozen=True, slots=True)
class PreparedSandbox:
    """A sandbox that is ready to be started once."""

    argv: list[str]
    descriptors: dict[int, int]  # in the sandbox -> in this process
    folder: str
    env: dict[str, str]


def read_sandbox_call(server: BenchServer) -> SandboxCall:
    """Start a sleeping job, and read the call of its sandbox from /proc."""
    job = server.submit_job("name: sleeper\ncommand: sleep 600\ngrace: 0s\nresources: {cpu: 0.1, memory: 64Mi}\n")
    try:
        server.wait_for_state(job, "Running")
        runner, folder = _find_runner(server.home, job)
        (child,) = psutil.Process(runner).children()
        return SandboxCall(
            child.cmdline(),
            *_read_descriptors(runner),
            folder,
            list(_iter_folders(folder)),
            list(_iter_device_files(folder)),
            _get_program_path(child.cmdline()[0], runner).read_bytes(),
            {name: value for name, value in child.environ().items() if name in ("PATH", "LD_LIBRARY_PATH")},
        )
    finally:
        with server.connect() as connection:
            connection.request("POST", f"/api/v1/jobs/{job}/stop")
        server.wait_for_end(job)


def _get_program_path(argument: str, runner: int) -> Path:
    """Return the path of bubblewrap. If it is executed from a descriptor, the runner has the same descriptor."""
    return Path(argument.replace(DESCRIPTOR_PREFIX, f"/proc/{runner}/fd/"))


def _has_started_sandbox(runner: psutil.Process) -> bool:
    """Whether the runner's child executes the sandbox, and is no longer a copy of the runner."""
    try:
        return any(child.cmdline() not in ([], runner.cmdline()) for child in runner.children())
    except psutil.NoSuchProcess:
        return False


def _find_runner(home: Path, job: str) -> tuple[int, Path]:
    """Return the runner's pid and the task's folder, which is named after the job.

    The runner's arguments contain the path of the claim file in that folder.
    """
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        for process in psutil.process_iter(["pid", "cmdline"]):
            for argument in process.info["cmdline"] or []:
                if argument.startswith(f"{home}/") and f"/{job}" in argument and _has_started_sandbox(process):
                    return process.pid, Path(argument).parent
        time.sleep(0.02)
    raise RuntimeError(f"the runner of {job} was not found")


def _read_descriptors(runner: int) -> tuple[dict[int, bytes], dict[int, str]]:
    files, paths = {}, {}
    for link in Path(f"/proc/{runner}/fd").iterdir():
        fd, target = int(link.name), str(link.readlink())
        if fd < 3 or fd >= 10 or fd == CLAIM_FD:
            continue
        if target.startswith("/memfd:"):
            files[fd] = link.read_bytes()
        elif target.startswith("/") and Path(target).is_file():
            paths[fd] = target
    return files, paths


class BareLoop:
    """Sandboxes that are prepared in advance, so that the loop only starts one and waits for its end."""

    def __init__(self, call: SandboxCall, folder: Path, count: int) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self._prepared = iter([_prepare_sandbox(call, folder / str(number)) for number in range(count)])

    def measure_rate(self, count: int, loops: int = 1) -> float:
        """Run `count` sandboxes in parallel loops. Return the sandboxes per second."""
        batches = [[next(self._prepared) for _ in range(count // loops)] for _ in range(loops)]
        started = time.perf_counter()
        with ThreadPoolExecutor(loops) as pool:
            list(pool.map(_run_sandboxes, batches))
        return (count // loops) * loops / (time.perf_counter() - started)


def _prepare_sandbox(call: SandboxCall, folder: Path) -> PreparedSandbox:
    old, new = str(call.folder), str(folder)
    folder.mkdir()
    for name, mode in call.folders:
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name).chmod(mode)
    for name, mode, device in call.device_files:
        os.mknod(folder / name, mode, device)
        (folder / name).chmod(mode & 0o7777)
    if call.argv[0].startswith(old):
        (folder / Path(call.argv[0]).name).write_bytes(call.program)
        (folder / Path(call.argv[0]).name).chmod(0o500)
    (folder / "script").write_bytes(NO_OP_SCRIPT)  # without a sandbox, the script is a file
    descriptors = {STATUS_FD: _move_descriptor(os.open("/dev/null", os.O_WRONLY))}
    for fd, data in call.files.items():
        has_arguments = b"\0" in data
        descriptors[fd] = _create_memory_file(
            _remove_cgroup(data.replace(old.encode(), new.encode()), old) if has_arguments else NO_OP_SCRIPT
        )
    for fd, path in call.paths.items():
        descriptors[fd] = _move_descriptor(os.open(path, os.O_RDONLY))
    if call.argv[0].startswith(DESCRIPTOR_PREFIX):
        descriptors[int(call.argv[0].removeprefix(DESCRIPTOR_PREFIX))] = _create_executable_memory_file(call.program)
    env = {name: value.replace(old, new) for name, value in call.env.items()}
    return PreparedSandbox([argument.replace(old, new) for argument in call.argv], descriptors, new, env)


def _remove_cgroup(arguments: bytes, task: str) -> bytes:
    """Use the parent of the task's control group, which no longer exists."""
    name = re.escape(Path(task).name.encode())
    return re.sub(rb"/[0-9a-f]+\.%s(?=\0)" % name, b"", arguments)


def _iter_folders(task: Path) -> Iterator[tuple[str, int]]:
    """Iterate over the folders that a root filesystem is mounted on, without the current content of overlays."""
    for parent, names, _ in os.walk(task):
        for name in names:
            path = Path(parent, name)
            if not path.is_symlink():
                yield str(path.relative_to(task)), path.stat().st_mode & 0o7777
        if Path(parent) == task:
            names[:] = [name for name in names if not name.startswith(("upper", "work"))]


def _iter_device_files(task: Path) -> Iterator[tuple[str, int, int]]:
    inner = [name for name, _ in _iter_folders(task) if not name.startswith(("upper", "work"))]
    for name in ("", *inner):
        for path in Path(task, name).iterdir():
            status = path.lstat()
            if stat.S_ISCHR(status.st_mode):
                yield str(path.relative_to(task)), status.st_mode, status.st_rdev


def _create_memory_file(data: bytes) -> int:
    fd = os.memfd_create("bench")
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return _move_descriptor(fd)


def _create_executable_memory_file(data: bytes) -> int:
    """Return a read-only descriptor: a file that is open for writing cannot be executed."""
    fd = os.memfd_create("bench")
    with open(fd, "wb") as file:
        file.write(data)
        file.flush()
        return _move_descriptor(os.open(f"{DESCRIPTOR_PREFIX}{fd}", os.O_RDONLY))


def _move_descriptor(fd: int) -> int:
    """Duplicate the descriptor to a number that no sandbox uses, and close the original."""
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, MIN_DESCRIPTOR)
    finally:
        os.close(fd)


def _run_sandboxes(prepared: list[PreparedSandbox]) -> None:
    for sandbox in prepared:
        _run_sandbox(sandbox)


def _run_sandbox(sandbox: PreparedSandbox) -> None:
    actions: list[Any] = [(os.POSIX_SPAWN_DUP2, source, fd) for fd, source in sandbox.descriptors.items()]
    actions.append((os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0))
    for fd, path in ((1, f"{sandbox.folder}/stdout"), (2, f"{sandbox.folder}/stderr")):
        actions.append((os.POSIX_SPAWN_OPEN, fd, path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    pid = os.posix_spawn(sandbox.argv[0], sandbox.argv, sandbox.env, file_actions=actions)
    _, status = os.waitpid(pid, 0)
    for source in sandbox.descriptors.values():
        os.close(source)
    if status != 0:
        output = Path(sandbox.folder, "stderr").read_text(errors="replace")
        raise RuntimeError(f"a bare sandbox ended with status {status}: {output}")

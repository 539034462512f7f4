"""The same sandbox without Holdfast: what the running server hands to bubblewrap, started in a bare loop.

Nothing is rebuilt from the engine's code. A sleeping job is started on the server, and its sandbox is read from the
kernel: the arguments, the descriptors and the folders. Only the script is another, and the folders are fresh ones.
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

NO_OP = b"true\n"
STATUS_FD = 8  # bubblewrap's own report; the runner opens it late
CLAIM_FD = 9  # the runner's own
OWN_DESCRIPTORS = "/proc/self/fd/"
HIGH = 100  # descriptors are gathered above every one that is handed on


@dataclass(frozen=True, slots=True)
class Sandbox:
    argv: list[str]
    files: dict[int, bytes]  # descriptors that are read from memory
    paths: dict[int, str]  # descriptors that are files
    folder: Path  # of the task it was read from
    folders: list[tuple[str, int]]  # below it, with their modes
    nodes: list[tuple[str, int, int]]  # device files below it: name, mode, device
    program: bytes  # the copy of bubblewrap it was started from
    env: dict[str, str]


@dataclass(frozen=True, slots=True)
class Start:
    """One sandbox, ready to be started once."""

    argv: list[str]
    files: dict[int, int]
    folder: str
    env: dict[str, str]


def read_sandbox(running: BenchServer) -> Sandbox:
    job = running.submit("name: sleeper\ncommand: sleep 600\ngrace: 0s\nresources: {cpu: 0.1, memory: 64Mi}\n")
    try:
        running.wait_for_state(job, "Running")
        runner, folder = _find_runner(running.home, job)
        (child,) = psutil.Process(runner).children()
        return Sandbox(
            child.cmdline(),
            *_descriptors(runner),
            folder,
            list(_folders(folder)),
            list(_nodes(folder)),
            _program(child.cmdline()[0], runner).read_bytes(),
            {name: value for name, value in child.environ().items() if name in ("PATH", "LD_LIBRARY_PATH")},
        )
    finally:
        with running.connect() as connection:
            connection.request("POST", f"/api/v1/jobs/{job}/stop")
        running.wait(job)


def _program(word: str, runner: int) -> Path:
    """Where bubblewrap is run from a descriptor, the runner has that one too."""
    return Path(word.replace(OWN_DESCRIPTORS, f"/proc/{runner}/fd/"))


def _has_become_another(runner: psutil.Process) -> bool:
    """Its child is the sandbox, and no longer a copy of itself."""
    try:
        return any(child.cmdline() not in ([], runner.cmdline()) for child in runner.children())
    except psutil.NoSuchProcess:
        return False


def _find_runner(home: Path, job: str) -> tuple[int, Path]:
    """The runner names its claim file, which lies in the task's folder; that one is called after the job."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        for process in psutil.process_iter(["pid", "cmdline"]):
            for word in process.info["cmdline"] or []:
                if word.startswith(f"{home}/") and f"/{job}" in word and _has_become_another(process):
                    return process.pid, Path(word).parent
        time.sleep(0.02)
    raise RuntimeError(f"the runner of {job} was not found")


def _descriptors(runner: int) -> tuple[dict[int, bytes], dict[int, str]]:
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
    """Sandboxes made ready beforehand, so that a loop does nothing but start one and wait for it."""

    def __init__(self, sandbox: Sandbox, place: Path, count: int) -> None:
        self.place = place
        place.mkdir(parents=True)
        self._starts = iter([_prepare(sandbox, place / str(number)) for number in range(count)])

    def per_second(self, count: int, loops: int = 1) -> float:
        mine = [[next(self._starts) for _ in range(count // loops)] for _ in range(loops)]
        began = time.perf_counter()
        with ThreadPoolExecutor(loops) as pool:
            list(pool.map(_run_all, mine))
        return (count // loops) * loops / (time.perf_counter() - began)


def _prepare(sandbox: Sandbox, folder: Path) -> Start:
    old, new = str(sandbox.folder), str(folder)
    folder.mkdir()
    for name, mode in sandbox.folders:
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name).chmod(mode)
    for name, mode, device in sandbox.nodes:
        os.mknod(folder / name, mode, device)
        (folder / name).chmod(mode & 0o7777)
    if sandbox.argv[0].startswith(old):
        (folder / Path(sandbox.argv[0]).name).write_bytes(sandbox.program)
        (folder / Path(sandbox.argv[0]).name).chmod(0o500)
    (folder / "script").write_bytes(NO_OP)  # where there is no sandbox, the script is a file
    files = {STATUS_FD: _high(os.open("/dev/null", os.O_WRONLY))}
    for fd, data in sandbox.files.items():
        is_arguments = b"\0" in data
        files[fd] = _memory_file(
            _without_group(data.replace(old.encode(), new.encode()), old) if is_arguments else NO_OP
        )
    for fd, path in sandbox.paths.items():
        files[fd] = _high(os.open(path, os.O_RDONLY))
    if sandbox.argv[0].startswith(OWN_DESCRIPTORS):
        files[int(sandbox.argv[0].removeprefix(OWN_DESCRIPTORS))] = _program_in_memory(sandbox.program)
    env = {name: value.replace(old, new) for name, value in sandbox.env.items()}
    return Start([word.replace(old, new) for word in sandbox.argv], files, new, env)


def _without_group(arguments: bytes, task: str) -> bytes:
    """A task is shown its own control group, which is gone by now: show the one above it."""
    name = re.escape(Path(task).name.encode())
    return re.sub(rb"/[0-9a-f]+\.%s(?=\0)" % name, b"", arguments)


def _folders(task: Path) -> Iterator[tuple[str, int]]:
    """The folders a root filesystem is made on; what an overlay holds by now is not part of it."""
    for parent, names, _ in os.walk(task):
        for name in names:
            path = Path(parent, name)
            if not path.is_symlink():
                yield str(path.relative_to(task)), path.stat().st_mode & 0o7777
        if Path(parent) == task:
            names[:] = [name for name in names if not name.startswith(("upper", "work"))]


def _nodes(task: Path) -> Iterator[tuple[str, int, int]]:
    inner = [name for name, _ in _folders(task) if not name.startswith(("upper", "work"))]
    for name in ("", *inner):
        for path in Path(task, name).iterdir():
            status = path.lstat()
            if stat.S_ISCHR(status.st_mode):
                yield str(path.relative_to(task)), status.st_mode, status.st_rdev


def _memory_file(data: bytes) -> int:
    fd = os.memfd_create("bench")
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return _high(fd)


def _program_in_memory(data: bytes) -> int:
    """Nothing that is open for writing can be run."""
    fd = os.memfd_create("bench")
    with open(fd, "wb") as file:
        file.write(data)
        file.flush()
        return _high(os.open(f"{OWN_DESCRIPTORS}{fd}", os.O_RDONLY))


def _high(fd: int) -> int:
    """The same file under a number that is no target of another."""
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, HIGH)
    finally:
        os.close(fd)


def _run_all(starts: list[Start]) -> None:
    for start in starts:
        _run(start)


def _run(start: Start) -> None:
    actions: list[Any] = [(os.POSIX_SPAWN_DUP2, source, fd) for fd, source in start.files.items()]
    actions.append((os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0))
    for fd, path in ((1, f"{start.folder}/stdout"), (2, f"{start.folder}/stderr")):
        actions.append((os.POSIX_SPAWN_OPEN, fd, path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    pid = os.posix_spawn(start.argv[0], start.argv, start.env, file_actions=actions)
    _, status = os.waitpid(pid, 0)
    for source in start.files.values():
        os.close(source)
    if status != 0:
        said = Path(start.folder, "stderr").read_text(errors="replace")
        raise RuntimeError(f"a bare sandbox ended with status {status}: {said}")

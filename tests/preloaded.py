"""Starts `holdfast` as a copy of a process that has loaded it already.

Loading is most of what a start costs, and the tests start hundreds of servers and commands. What is started is a
process like any other: a child of the tests, with its own arguments, environment and descriptors. Tests of the start
itself, or of what others see of its command line, start it afresh.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import inspect
import io
import json
import os
import platform
import random
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

# The preloader clones itself as its parent's child, so that the tests can wait for it; os.fork cannot do that.
_CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine())
_CLONE_PARENT = 0x8000
_REQUEST_SIZE = 1 << 20
_STREAMS = 3
_NETWORK = "/proc/thread-self/ns/net"
_CLONE_NEWNET = 0x40000000


def start_holdfast(
    args: Sequence[str], *, env: Mapping[str, str], at_terminal: bool = False, **more: Any
) -> subprocess.Popen[bytes]:
    """`holdfast ARGS`, with what else subprocess.Popen takes. `at_terminal`: stdin is its controlling terminal."""
    command = [sys.executable, "-m", "holdfast", *args]
    if _CLONE is None:
        preexec = _take_terminal if at_terminal else None
        return subprocess.Popen(command, env=dict(env), preexec_fn=preexec, **more)
    return (_PreloadedAtTerminal if at_terminal else _Preloaded)(command, env=dict(env), **more)


def run_holdfast(
    args: Sequence[str], *, env: Mapping[str, str], timeout: float, input: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run it to its end, and keep what it writes."""
    pipe = subprocess.PIPE
    with start_holdfast(args, env=env, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


class _Preloaded(subprocess.Popen[bytes]):
    at_terminal = False

    def _execute_child(self, *given: Any) -> None:
        """In place of fork and exec. The other arguments are left out: no test gives them."""
        call = inspect.signature(subprocess.Popen._execute_child).bind(self, *given).arguments  # type: ignore[attr-defined]
        wanted = [call["p2cread"], call["c2pwrite"], call["errwrite"]]
        streams = [number if fd == -1 else fd for number, fd in enumerate(wanted)]
        request = {"args": call["args"][3:], "env": call["env"], "cwd": str(call["cwd"] or Path.cwd())}
        request |= {"session": call["start_new_session"], "at_terminal": self.at_terminal}
        preloader = _preloader()
        with open(_NETWORK) as network:  # a test may have joined that of a daemon
            socket.send_fds(preloader, [json.dumps(request).encode()], [*streams, network.fileno()])
        self.pid = int(preloader.recv(64))
        self._child_created = True
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(call[name] for name in pipes))  # type: ignore[attr-defined]


class _PreloadedAtTerminal(_Preloaded):
    at_terminal = True


@cache
def _preloader() -> socket.socket:
    """Connected to it. It ends when we do."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-c", "import sys; from tests import preloaded; preloaded.serve(int(sys.argv[1]))"]
        subprocess.Popen([*command, str(theirs.fileno())], pass_fds=[theirs.fileno()], start_new_session=True)
    return ours


# --- in the preloader ---------------------------------------------------------------------------------------------


def serve(fd: int) -> None:
    """Become what is asked for, in copies, until the other end is closed."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _preload()
    control = socket.socket(fileno=fd)
    while True:
        data, fds, _, _ = socket.recv_fds(control, _REQUEST_SIZE, _STREAMS + 1)
        if not data:
            return
        pid = _clone()
        if pid == 0:
            break
        for each in fds:
            os.close(each)
        control.send(str(pid).encode())
    control.close()
    _become(json.loads(data), fds)


def _preload() -> None:
    import holdfast.bootstrap
    import holdfast.cli.main
    import holdfast.controller.loop
    import holdfast.sdk.client
    import holdfast.server.app
    import holdfast.server.http
    import holdfast.server.ssh.lazy_gateway  # noqa: F401

    _scan_packages()
    gc.collect()
    gc.freeze()


def _scan_packages() -> None:
    """As a server that was there just before: each would search all packages of the machine for private files, and
    now looks at the folders that changed since."""
    from holdfast.engines.embedded.mount_table import MountTable
    from holdfast.engines.embedded.sandbox import host, package_scan

    package_scan.SHARED_SCANNER._found = host.scan_packages(MountTable().read_mounts())


def _clone() -> int:
    libc = ctypes.PyDLL(None, use_errno=True)  # which keeps the interpreter's lock, as it must be in the copy
    pid = int(libc.syscall(_CLONE, _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0))
    if pid < 0:
        raise OSError(ctypes.get_errno(), "clone failed")
    return pid


def _become(request: dict[str, Any], fds: Sequence[int]) -> None:
    from holdfast.cli.main import main
    from holdfast.engines.embedded.sandbox import package_scan

    package_scan.SHARED_SCANNER._full_at = time.monotonic()
    if request["session"]:
        os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    _join_network(fds[_STREAMS])
    for number, fd in enumerate(fds[:_STREAMS]):
        os.dup2(fd, number)
    os.closerange(_STREAMS, max(fds) + 1)
    if request["at_terminal"]:
        _take_terminal()
    sys.stdin = _open_stream(0, "r")
    sys.stdout = _open_stream(1, "w")
    sys.stderr = _open_stream(2, "w", errors="backslashreplace", line_buffering=True)
    random.seed()
    sys.argv = ["holdfast", *request["args"]]
    main()


def _join_network(namespace: int) -> None:
    """Only where it is another one: an ordinary user cannot."""
    if os.path.samestat(os.fstat(namespace), Path(_NETWORK).stat()):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns failed")


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _open_stream(fd: int, mode: str, *, errors: str = "strict", line_buffering: bool = False) -> io.TextIOWrapper:
    """As an interpreter opens it."""
    raw = open(fd, f"{mode}b", closefd=False)  # noqa: SIM115 - as long as the process lives
    return io.TextIOWrapper(raw, "utf-8", errors, line_buffering=line_buffering or raw.isatty())

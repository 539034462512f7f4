"""Helper that joins the sandbox of a task and becomes a command there. The server runs one for each exec session.

    python -I -S -c "… from exec_helper.main import main; main()"

It gets stdin, stdout and stderr of the command, a socket to the server on fd 3, the request on fd 4 (`marshal`ed: the
server runs the same Python), and on fd 5 a program, if that is to run instead of a command of the task. This process
stays outside, waits for the command and reports its exit code. Its child drops all privileges that the task does not
have, forks the grandchild inside the sandbox, and exits; the grandchild is then a child of this process. They send
`ready` (with the terminal, if requested), `refused WHY` or `exit CODE` to the server; the server sends `signal NUMBER
GROUP`, and hangs up by closing the socket.

The task may be hostile. It can neither see nor signal a process of ours with more privileges than its own: only the
grandchild is in its PID namespace, and that starts with the task's privileges. None of them can be traced
(PR_SET_DUMPABLE) from before the first step. The grandchild opens no file of the task before it has the task's limits,
and keeps no descriptor except the command's. For the same reason nothing is imported after the start, and few
modules are: each costs every session some milliseconds.
"""

from __future__ import annotations

import ctypes
import errno
import marshal
import os
import resource
import select
import sys
from _socket import SCM_RIGHTS, SOL_SOCKET, socket
from time import monotonic

from .command import build_environment, execute_command, load_server, open_terminal, read_working_folder
from .privileges import copy_limits, drop_privileges, limit_stack_dump, lower_limit
from .sandbox import TaskSandbox, wait_for_command
from .system import (
    MAX_PROC_FILE_SIZE,
    PR_SET_CHILD_SUBREAPER,
    PR_SET_DUMPABLE,
    PR_SET_NAME,
    PR_SET_PDEATHSIG,
    SETUP_TIMEOUT,
    TASK_ENDED_MESSAGE,
    ExecError,
    call_prctl,
    is_stack_dump_request,
    libc,
    read_all,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CONTROL_FD = 3
REQUEST_FD = 4
SIGHUP, SIGKILL, SIGCONT = 1, 9, 18

_PROCESS_NAME = b"holdfast-enter"
_PID_SIZE = 12  # bytes of the message with the pid of the grandchild
_OOM_SCORE_ADJ = b"1000"  # the first to be killed when memory runs out


def main() -> None:
    control = socket(fileno=CONTROL_FD)
    child = 0
    try:
        request = marshal.loads(read_all(REQUEST_FD, None))
        os.close(REQUEST_FD)
        if is_stack_dump_request(request):
            _raise_oom_score()
        call_prctl(PR_SET_DUMPABLE, 0)
        _hide_command_line()
        child = start_command(request, control)
    except Exception as error:
        send_refusal_and_exit(control, error)
    _wait_for_exit(child, control)


def _raise_oom_score() -> None:
    """Have the kernel kill this process rather than the task when memory runs out."""
    try:
        with open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
            file.write(_OOM_SCORE_ADJ)
    except OSError:
        return


def _hide_command_line() -> None:
    """Hide from the task where the server is installed."""
    libc.prctl(PR_SET_NAME, _PROCESS_NAME, 0, 0, 0)
    with open("/proc/self/stat", "rb") as file:
        fields = file.read(MAX_PROC_FILE_SIZE).rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    if end - start > len(_PROCESS_NAME):
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, _PROCESS_NAME, len(_PROCESS_NAME))


def start_command(request: dict[str, Any], control: socket) -> int:
    """Fork the process that becomes the command, and return its pid."""
    joins = [os.open(path, os.O_WRONLY) for path in request["joins"]]
    sandbox = TaskSandbox(request["init"], request["namespace"]) if request["init"] else None
    first = sandbox.command_pid if sandbox is not None else wait_for_command(request["runner"])
    env = dict(request["env"]) if is_stack_dump_request(request) else build_environment(first, request)
    folder = b"/" if is_stack_dump_request(request) else read_working_folder(first)
    serve = load_server(request)
    sys.meta_path.clear()  # a later import would load the task's files
    nowhere = os.open("/dev/null", os.O_RDWR)
    if sandbox is not None:
        sandbox.join_filesystem()
    pid_reader, pid_writer = os.pipe()
    go_reader, go_writer = os.pipe()
    call_prctl(PR_SET_CHILD_SUBREAPER, 1)
    middle = fork_process()
    if middle == 0:
        os.close(pid_reader)
        os.close(go_writer)
        _fork_unprivileged(request, control, joins, sandbox, pid_writer)
        _prepare_session(request, control, go_reader)
        execute_command(request, env, folder, serve)
    os.close(pid_writer)
    os.close(go_reader)
    child = _read_child_pid(pid_reader, middle)
    os.waitpid(middle, 0)  # then the grandchild is our child
    call_prctl(PR_SET_CHILD_SUBREAPER, 0)
    if not child:
        os._exit(1)  # it sent the reason
    _apply_limits(child, joins, sandbox)
    os.write(go_writer, b"1")
    for fd in range(3):
        os.dup2(nowhere, fd)
    return child


def fork_process() -> int:
    try:
        return os.fork()
    except OSError as error:
        text = TASK_ENDED_MESSAGE if error.errno == errno.ENOMEM else f"Cannot fork a process: {error.strerror}."
        raise ExecError(text) from error


def _read_child_pid(pid_reader: int, middle: int) -> int:
    """Return the pid of the grandchild, 0 if there is none. Does not wait for the end of the pipe: the task can stop
    the grandchild while that holds it open."""
    line, end = b"", monotonic() + SETUP_TIMEOUT
    while len(line) < _PID_SIZE and select.select([pid_reader], [], [], max(0.0, end - monotonic()))[0]:
        part = os.read(pid_reader, _PID_SIZE - len(line))
        if not part:
            break
        line += part
    os.close(pid_reader)
    if len(line) == _PID_SIZE:
        return int(line)
    os.kill(middle, SIGKILL)  # not waited for yet, so the pid is still its own
    return 0


def _apply_limits(child: int, joins: list[int], sandbox: TaskSandbox | None) -> None:
    """Apply the task's limits. The child has no privileges of ours, and waits until this is done."""
    try:
        for procs in joins:
            os.write(procs, b"%d" % child)
        if sandbox is not None:
            copy_limits(child, sandbox)
    except ProcessLookupError:
        return  # the task has killed it


def _wait_for_exit(child: int, control: socket) -> None:
    """Wait until it has exited or the server is gone. Its pid is not reused before we have waited for it."""
    handle = os.pidfd_open(child)
    while True:
        ready, _, _ = select.select([control.fileno(), handle], [], [])
        if handle in ready:
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            send_message(control, b"exit %d" % (code if code >= 0 else 128 - code))
            os._exit(0)
        word = control.recv(64)
        if not word:
            _send_signal(child, SIGHUP)
            _send_signal(child, SIGCONT)
            os._exit(0)
        number, group = map(int, word.split()[1:])
        _send_signal(child, number, group)


def _send_signal(child: int, number: int, group: int = 0) -> None:
    """Send a signal to a process group of its session, else to its own group."""
    try:
        os.killpg(group if group and os.getsid(group) == child else child, number)
    except ProcessLookupError:  # it has not created its group yet
        try:
            os.kill(child, number)
        except OSError:
            return
    except OSError:
        return


def _fork_unprivileged(
    request: dict[str, Any], control: socket, joins: list[int], sandbox: TaskSandbox | None, pid_writer: int
) -> None:
    """Drop privileges and fork. Returns only in the grandchild, which has the task's privileges."""
    try:
        for procs in joins:
            os.close(procs)
        if sandbox is not None:
            sandbox.join_namespaces()
            drop_privileges(sandbox, request)
        child = fork_process()
    except BaseException as error:
        send_refusal_and_exit(control, error)
    if child:
        os.write(pid_writer, b"%*d" % (_PID_SIZE, child))
        os._exit(0)
    os.close(pid_writer)


def _prepare_session(request: dict[str, Any], control: socket, go_reader: int) -> None:
    """Prepare the session inside the task. Before `go_reader` is readable, our parent is not yet the helper, and our
    limits are not yet the task's."""
    try:
        os.setsid()
        if not os.read(go_reader, 1):
            os._exit(1)
        if request["max_processes"]:
            lower_limit(resource.RLIMIT_NPROC, request["max_processes"])
        if is_stack_dump_request(request):
            limit_stack_dump()
        call_prctl(PR_SET_PDEATHSIG, SIGHUP)
        master = open_terminal(request) if request["terminal"] else None
        send_message(control, b"ready", master)
    except BaseException as error:
        send_refusal_and_exit(control, error)


def send_message(control: socket, word: bytes, fd: int | None = None) -> None:
    more = [] if fd is None else [(SOL_SOCKET, SCM_RIGHTS, fd.to_bytes(4, sys.byteorder))]
    try:
        control.sendmsg([word], more)
    except OSError:
        os._exit(1)  # the server is gone


def send_refusal_and_exit(control: socket, error: BaseException) -> None:
    text = str(error) if isinstance(error, ExecError) else f"Cannot open a session: {error or type(error).__name__}"
    send_message(control, b"refused " + text.encode("utf-8", "replace")[:1000])
    os._exit(1)

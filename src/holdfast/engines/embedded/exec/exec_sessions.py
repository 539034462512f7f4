"""Exec sessions in tasks: commands that run beside the task's own, connections to its ports, lists of its processes.

Each session is one helper process, runtime/exec_helper. Nothing of a session is stored on disk: it ends with the
server.
"""

from __future__ import annotations

import asyncio
import fcntl
import marshal
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from holdfast.core.attempt_id import AttemptId
from holdfast.core.messages import msg
from holdfast.engines.base import ExecCommand, ExecKind, ExecRefused, ExecSession, Isolation, TaskProcess
from holdfast.engines.sandbox_paths import HOME_PATH, SEARCH_PATH
from holdfast.tcp_listeners import list_tcp_listeners

from .. import libc
from ..folder_content import Claim, StartNote
from ..libc import DupAction, OpenAction
from ..lifecycle import killing
from ..lifecycle.live_tasks import get_sandbox_pids
from ..lifecycle.task_folders import TaskFolders
from ..lifecycle.task_reviver import get_revived_folder
from ..processes import COOKIE_VARIABLE, is_in_pid_namespace
from ..sandbox.interpreter import Interpreter
from ..sandbox.render import CAPABILITIES
from ..sandbox.site import SandboxSite
from ..sandbox.spawning import create_memory_file
from ..task_folder import TaskFolder, is_safe_id
from . import py_spy as spy
from .session import EmbeddedSession, HelperProcess, clamp_terminal_size
from .task_listeners import list_listener_hosts, list_namespace_pids
from .task_processes import list_task_processes

T = TypeVar("T")

_RUNTIME_FOLDER = str(Path(__file__).parents[3] / "runtime")
_HELPER_START_CODE = "import sys; sys.path.append(sys.argv[1]); from exec_helper.main import main; main()"
_CONTROL_FD, _REQUEST_FD, _PROGRAM_FD = 3, 4, 5  # as in runtime/exec_helper
_FIRST_SOURCE_FD = 100  # source descriptors are above every target
_JOIN_TIMEOUT = 30.0  # seconds until a helper must be inside the task
_RETRY_INTERVAL = 0.02  # seconds between two attempts on a task that is still starting
_CONNECT_TIMEOUT = 10.0  # seconds
_LARGE_PIPE_SIZE = 256 * 1024  # bytes; the kernel limits the total of a user's pipes
_MAX_ARGUMENT_SIZE = 128 * 1024 - 1  # the kernel's limit for one argument or variable
_MAX_ARGUMENTS_SIZE = 1024 * 1024  # bytes
_CAPABILITY_NUMBERS = {
    name: number
    for number, name in enumerate(
        (
            "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
            "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
            "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
            "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
        )
    )
}  # fmt: skip
_ALLOWED_CAPABILITIES = sum(1 << _CAPABILITY_NUMBERS[name.removeprefix("CAP_")] for name in CAPABILITIES)


class ExecTarget(NamedTuple):
    """A task that accepts sessions."""

    folder: TaskFolder
    note: StartNote
    claim: Claim
    init: int  # the sandbox's first process; 0 without a sandbox
    namespace: int
    home: str


class SpawnedHelper(NamedTuple):
    """A helper process that is joining a task."""

    pid: int
    control: socket.socket
    ends: list[int]  # our ends of stdin, stdout and stderr; none with a terminal


class TaskNotReady(ExecRefused):
    """The task is still starting."""


class ExecSessions:
    def __init__(
        self,
        places: TaskFolders,
        site: SandboxSite,
        in_thread: Callable[[Callable[[], Any]], Awaitable[Any]],
        find_cgroups: Callable[[ExecTarget], Sequence[str]] = lambda task: task.note.cgroups,
    ) -> None:
        """`find_cgroups` returns the groups that a session joins; OSError if they are unknown."""
        self._find_cgroups = find_cgroups
        self._task_folders = places
        self._site = site
        self._in_thread = in_thread
        self._interpreter = Interpreter()
        self._spy = spy.PySpy()
        self._sessions: dict[EmbeddedSession, str] = {}  # sessions with a running command -> attempt id

    def use_site(self, site: SandboxSite) -> None:
        self._site = site

    async def open_session(self, attempt_id: str, command: ExecCommand) -> ExecSession:
        check_command(command)
        helper, ends = await _retry_until_ready(lambda: self._start_helper(attempt_id, command))
        try:
            word, terminal = await helper.read_first_message(_JOIN_TIMEOUT)
            if word != "ready":
                raise ExecRefused(_describe_refusal(word))
        except BaseException as error:
            helper.kill()
            _close_fds(ends)
            if isinstance(error, TimeoutError):
                raise ExecRefused(msg("The task is not responding. It may be paused or out of memory.")) from error
            raise
        session = self._make_session(helper, ends, terminal)
        self._sessions[session] = attempt_id
        helper.ended.add_done_callback(lambda _: self._sessions.pop(session, None))
        await self._check_still_running(attempt_id, session)
        return session

    async def _start_helper(self, attempt_id: str, command: ExecCommand) -> tuple[HelperProcess, list[int]]:
        """Return a started helper and our ends of the command's pipes; kill it if the caller is cancelled."""
        work = asyncio.ensure_future(self._in_thread(lambda: self._spawn_helper(attempt_id, command)))
        try:
            pid, control, ends = await asyncio.shield(work)
        except asyncio.CancelledError:
            work.add_done_callback(_kill_spawned)
            raise
        except OSError as error:
            raise ExecRefused(
                msg("Cannot open a session in the task: {error}.", error=error.strerror or error)
            ) from error
        return HelperProcess(pid, control), ends

    async def _check_still_running(self, attempt_id: str, session: EmbeddedSession) -> None:
        """Close the session if the task has ended. Without a PID namespace it would outlive the task."""
        if self._site.isolation is Isolation.NONE:
            try:
                await self._in_thread(lambda: self._find_target(attempt_id))
            except BaseException:
                session.close()
                raise

    def _make_session(self, helper: HelperProcess, ends: Sequence[int], terminal: int | None) -> EmbeddedSession:
        if terminal is not None:
            return EmbeddedSession(helper, terminal, os.dup(terminal), None, terminal)
        stdin, stdout, stderr = ends
        return EmbeddedSession(helper, stdout, stdin, stderr, None)

    def list_helper_pids(self, attempt_id: str) -> tuple[int, ...]:
        """Return the pids of the helpers of this task's sessions. Thread-safe."""
        found = [session.helper_pid for session, entered in list(self._sessions.items()) if entered == attempt_id]
        return tuple(pid for pid in found if pid is not None)

    def close(self) -> None:
        for session in list(self._sessions):
            session.close()
        self._interpreter.close()
        self._spy.close()

    # --- blocking, in a thread ----------------------------------------------------------------------------------------

    def _spawn_helper(self, attempt_id: str, command: ExecCommand) -> SpawnedHelper:
        task = self._find_target(attempt_id)
        request = marshal.dumps(self._build_request(attempt_id, task, command))
        with ExitStack() as ours, ExitStack() as theirs:

            def duplicate_fd(fd: int, target: int) -> DupAction:
                """Return a descriptor of the child, moved above the target numbers."""
                source = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_SOURCE_FD)
                theirs.callback(os.close, source)
                os.close(fd)
                return DupAction(source, target)

            control, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ours.callback(control.close)
            actions: list[DupAction | OpenAction] = [
                duplicate_fd(far.detach(), _CONTROL_FD),
                duplicate_fd(create_memory_file(request), _REQUEST_FD),
            ]
            if command.kind is ExecKind.STACK_DUMP:
                actions.append(duplicate_fd(self._spy.open(), _PROGRAM_FD))
            ends: list[int] = []
            for target in range(3):
                if command.terminal is not None:
                    actions.append(OpenAction(target, "/dev/null", os.O_RDWR))
                    continue
                end, far_end = _create_pipe(target, large=command.kind is ExecKind.SFTP)
                ours.callback(os.close, end)
                ends.append(end)
                actions.append(duplicate_fd(far_end, target))
            program = self._interpreter.open_executable()
            theirs.callback(os.close, program)
            argv = [sys.executable, "-I", "-S", "-c", _HELPER_START_CODE, _RUNTIME_FOLDER]
            pid = libc.spawn_process(argv, self._interpreter.env, actions, f"/proc/self/fd/{program}")
            ours.pop_all()
            return SpawnedHelper(pid, control, ends)

    def _find_target(self, attempt_id: str) -> ExecTarget:
        if not is_safe_id(attempt_id):
            raise ExecRefused(msg("Task not found."))
        task = self._task_folders.get_folder(attempt_id)
        if task.read_start_note() is None:
            raise ExecRefused(msg("The task has not started, or its files were deleted."))
        folder = next((each for each in (task, get_revived_folder(task)) if each.is_alive()), None)
        note = folder.read_start_note() if folder is not None else None
        if folder is None or note is None:
            raise ExecRefused(msg("The task has ended."))
        claim = folder.read_claim()
        found = get_sandbox_pids(claim) if note.sandbox else (0, 0)
        if found is None or claim.pid is None:
            raise TaskNotReady(msg("The task is still being set up. Try again in a moment."))
        return ExecTarget(folder, note, claim, *found, HOME_PATH if note.sandbox else task["scratch"])

    def _build_request(self, attempt_id: str, task: ExecTarget, command: ExecCommand) -> dict[str, Any]:
        env = dict(command.env)
        if command.terminal is not None:
            env["TERM"] = command.terminal.term
        user = task.note.user
        name = user.name if user else self._site.user
        home = user.home or task.home if user else task.home
        plain = {"PATH": SEARCH_PATH, "HOME": home, "LANG": "C.UTF-8", "USER": name, "LOGNAME": name}
        plain["HOLDFAST_ATTEMPT"] = attempt_id
        if not task.note.sandbox:
            env[COOKIE_VARIABLE] = self._task_folders.get_machine_wide_name(attempt_id)
        terminal = command.terminal
        argv = spy.build_argv(command.process) if command.kind is ExecKind.STACK_DUMP else command.argv
        return {
            "kind": str(command.kind),
            "argv": [_encode_text(word) for word in argv],
            "script": _encode_text(command.script),
            "env": _encode_variables(env),
            "plain_env": _encode_variables(plain),
            "mark": (b"HOLDFAST_ATTEMPT", _encode_text(attempt_id)),
            "terminal": (clamp_terminal_size(terminal.columns), clamp_terminal_size(terminal.rows))
            if terminal
            else None,
            "init": task.init,
            "namespace": task.namespace,
            "runner": task.claim.pid,
            "joins": [f"{group}/cgroup.procs" for group in self._find_cgroups(task)],
            "user": (user.uid, user.gid, user.groups) if user else None,
            "capabilities": _ALLOWED_CAPABILITIES,
            "max_processes": task.note.max_processes,
            "seccomp": self._site.seccomp,
        }

    # --- ports and processes ------------------------------------------------------------------------------------------

    async def connect_port(self, attempt_id: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to a port. Tasks share the machine's network, so only listeners of the task's own processes count."""
        if not 0 < port < 65536:
            raise ExecRefused(msg("Port {port} is not valid. Use a port from 1 to 65535.", port=port))
        hosts = await _retry_until_ready(lambda: self._in_thread(lambda: self._find_listening_hosts(attempt_id, port)))
        for host in hosts:
            try:
                return await asyncio.wait_for(asyncio.open_connection(host, port), _CONNECT_TIMEOUT)
            except (OSError, TimeoutError):
                continue
        raise ExecRefused(
            msg("Nothing listens on port {port} of {attempt_id}.", port=port, attempt_id=get_task_name(attempt_id))
        )

    def _find_listening_hosts(self, attempt_id: str, port: int) -> list[str]:
        """Return the addresses on which the task itself listens."""
        task = self._find_target(attempt_id)
        listeners = list_tcp_listeners(port)
        return list_listener_hosts(listeners, self._list_pids(attempt_id, task)) if listeners else []

    def _list_pids(self, attempt_id: str, task: ExecTarget) -> list[int]:
        if task.init:
            return list_namespace_pids(task.namespace)
        cookie = self._task_folders.get_machine_wide_name(attempt_id)
        return killing.list_unsandboxed_pids(killing.KillTarget(cookie, task.folder, task.note, task.claim.pid or 0))

    async def list_processes(self, attempt_id: str) -> Sequence[TaskProcess]:
        found: list[TaskProcess] = await _retry_until_ready(
            lambda: self._in_thread(lambda: self._list_processes(attempt_id))
        )
        return found

    def _list_processes(self, attempt_id: str) -> list[TaskProcess]:
        task = self._find_target(attempt_id)
        found = list_task_processes(pid for pid in self._list_pids(attempt_id, task) if pid != task.init)
        # A pid may be reused after it was listed: never show a process of another task.
        return [info for info in found if not task.init or is_in_pid_namespace(info.pid, task.namespace)]


async def _retry_until_ready(reach: Callable[[], Awaitable[T]]) -> T:
    """Await `reach()`, and retry while the task is still starting."""
    loop = asyncio.get_running_loop()
    until = loop.time() + _JOIN_TIMEOUT
    while True:
        try:
            return await reach()
        except TaskNotReady:
            if loop.time() > until:
                raise
            await asyncio.sleep(_RETRY_INTERVAL)


def _describe_refusal(word: str) -> str:
    """Return why a helper could not join the task."""
    if word.startswith("exit "):
        return msg("The task ended the session, or the task itself has ended.")
    return word.removeprefix("refused ") or msg("The session did not start: its helper process was killed.")


def _kill_spawned(work: asyncio.Future[SpawnedHelper]) -> None:
    if not work.cancelled() and work.exception() is None:
        pid, control, ends = work.result()
        HelperProcess(pid, control).kill()
        _close_fds(ends)


def _close_fds(fds: Iterable[int]) -> None:
    for fd in fds:
        os.close(fd)


def check_command(command: ExecCommand) -> None:
    """Raise ExecRefused if no engine can run it."""
    words = [*command.argv, command.script, *command.env, *command.env.values()]
    if command.terminal is not None:
        words.append(command.terminal.term)
    sizes = [len(_encode_text(word)) for word in words]
    if any("\0" in word for word in words):
        raise ExecRefused(msg("The command contains a NUL byte. Remove it."))
    if max(sizes) > _MAX_ARGUMENT_SIZE or sum(sizes) > _MAX_ARGUMENTS_SIZE:
        raise ExecRefused(msg("The command is too long."))
    for name in command.env:
        if not name or "=" in name:
            raise ExecRefused(msg("The environment variable name {name} is not valid.", name=repr(name)))
    if command.kind is ExecKind.SFTP and command.terminal is not None:
        raise ExecRefused(msg("SFTP sessions do not support a terminal."))


def _create_pipe(target: int, *, large: bool) -> tuple[int, int]:
    """Return our end and the command's end of one of its three streams."""
    reader, writer = os.pipe()
    if large:
        with suppress(OSError):  # the user has reached the limit of pipe buffers
            fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, _LARGE_PIPE_SIZE)
    return (writer, reader) if target == 0 else (reader, writer)


def get_task_name(attempt_id: str) -> str:
    try:
        return AttemptId.parse(attempt_id).task
    except ValueError:
        return msg("the task")


def _encode_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _encode_variables(variables: Mapping[str, str]) -> dict[bytes, bytes]:
    return {_encode_text(name): _encode_text(value) for name, value in variables.items()}

"""Letting people into tasks: commands run beside the task's own, connections to its ports, a look at its processes.

What goes in is a small program, runtime/enter.py, one for each session. Nothing is kept of sessions on disk: they end
with the server.
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
from holdfast.engines.base import Command, ExecRefused, Inside, Isolation, ProcessInfo, Session
from holdfast.tcp_listeners import list_listeners

from .. import libc
from ..folder_content import Claim, StartNote
from ..libc import Dup, Open
from ..lifecycle import ending
from ..lifecycle.live_tasks import pids_of
from ..lifecycle.places import Places
from ..lifecycle.reviving import revived_of
from ..processes import COOKIE
from ..sandbox.interpreter import Interpreter
from ..sandbox.render import CAPABILITIES
from ..sandbox.site import Site
from ..sandbox.spawning import memory_file
from ..sandbox_paths import HOME, PATH
from ..task_folder import TaskFolder, is_safe_id
from . import py_spy as spy
from .session import EmbeddedSession, Helper, bounded
from .task_listeners import list_namespace_pids, own_hosts
from .task_processes import list_task_processes

T = TypeVar("T")

_RUNTIME = str(Path(__file__).parents[3] / "runtime")
_ENTER = "import sys; sys.path.append(sys.argv[1]); import enter; enter.main()"
_CONTROL_FD, _REQUEST_FD, _PROGRAM_FD = 3, 4, 5  # as runtime/enter.py knows them
_HIGH = 100  # sources of descriptors lie above every target
_TIMEOUT = 30.0  # seconds a helper may take until it is inside
_AGAIN = 0.02  # seconds between two tries to enter a task that is still being set up
_CONNECT = 10.0  # seconds
_LARGE_PIPE = 256 * 1024  # bytes; all pipes of a user together may hold only so much
_MAX_WORD_LENGTH = 128 * 1024 - 1  # of the kernel, for one argument or variable
_MAX_WORDS = 1024 * 1024
_NUMBERS = {
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
_ALLOWED = sum(1 << _NUMBERS[name.removeprefix("CAP_")] for name in CAPABILITIES)


class Door(NamedTuple):
    """A task that can be entered."""

    folder: TaskFolder
    note: StartNote
    claim: Claim
    init: int  # the sandbox's first process; 0 without a sandbox
    namespace: int
    home: str


class Spawned(NamedTuple):
    """A helper on its way into a task."""

    pid: int
    control: socket.socket
    ends: list[int]  # ours, of the command's stdin, stdout and stderr; none with a terminal


class StillSettingUp(ExecRefused):
    """It will be there in a moment."""


class Entering:
    def __init__(self, places: Places, site: Site, in_thread: Callable[[Callable[[], Any]], Awaitable[Any]]) -> None:
        self._places = places
        self._site = site
        self._in_thread = in_thread
        self._interpreter = Interpreter()
        self._spy = spy.Spy()
        self._sessions: dict[EmbeddedSession, str] = {}  # those whose command runs -> attempt id

    def use_site(self, site: Site) -> None:
        self._site = site

    async def enter(self, attempt_id: str, command: Command) -> Session:
        _check_command(command)
        helper, ends = await _soon(lambda: self._send_in(attempt_id, command))
        try:
            word, terminal = await helper.first_word(_TIMEOUT)
            if word != "ready":
                raise ExecRefused(_why(word))
        except BaseException as error:
            helper.kill()
            _close(ends)
            if isinstance(error, TimeoutError):
                raise ExecRefused(msg("The task does not answer: it may be stopped, or short of memory.")) from error
            raise
        session = self._session(helper, ends, terminal)
        self._sessions[session] = attempt_id
        helper.ended.add_done_callback(lambda _: self._sessions.pop(session, None))
        await self._see_that_it_stays(attempt_id, session)
        return session

    async def _send_in(self, attempt_id: str, command: Command) -> tuple[Helper, list[int]]:
        """A helper on its way, and our ends of the command's pipes; also when nobody waits for it any more."""
        work = asyncio.ensure_future(self._in_thread(lambda: self._spawn(attempt_id, command)))
        try:
            pid, control, ends = await asyncio.shield(work)
        except asyncio.CancelledError:
            work.add_done_callback(_give_up)
            raise
        except OSError as error:
            raise ExecRefused(
                msg("The task cannot be entered: {strerror}.", strerror=error.strerror or error)
            ) from error
        return Helper(pid, control), ends

    async def _see_that_it_stays(self, attempt_id: str, session: EmbeddedSession) -> None:
        """Without a namespace that ends with the task, who came in while the others were ended would stay behind."""
        if self._site.isolation is Isolation.NONE:
            try:
                await self._in_thread(lambda: self._door(attempt_id))
            except BaseException:
                session.close()
                raise

    def _session(self, helper: Helper, ends: Sequence[int], terminal: int | None) -> EmbeddedSession:
        if terminal is not None:
            return EmbeddedSession(helper, terminal, os.dup(terminal), None, terminal)
        stdin, stdout, stderr = ends
        return EmbeddedSession(helper, stdout, stdin, stderr, None)

    def helpers(self, attempt_id: str) -> tuple[int, ...]:
        """The processes outside that wait for what sessions of this server run in a task. Safe in a thread."""
        found = [session.helper for session, entered in list(self._sessions.items()) if entered == attempt_id]
        return tuple(pid for pid in found if pid is not None)

    def close(self) -> None:
        for session in list(self._sessions):
            session.close()
        self._interpreter.close()
        self._spy.close()

    # --- in a thread ----------------------------------------------------------------------------------------------

    def _spawn(self, attempt_id: str, command: Command) -> Spawned:
        door = self._door(attempt_id)
        request = marshal.dumps(self._request(attempt_id, door, command))
        with ExitStack() as ours, ExitStack() as theirs:

            def give(fd: int, target: int) -> Dup:
                """One of its descriptors, moved out of the way of the numbers they will have there."""
                source = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH)
                theirs.callback(os.close, source)
                os.close(fd)
                return Dup(source, target)

            control, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ours.callback(control.close)
            actions: list[Dup | Open] = [give(far.detach(), _CONTROL_FD), give(memory_file(request), _REQUEST_FD)]
            if command.kind is Inside.STACKS:
                actions.append(give(self._spy.open(), _PROGRAM_FD))
            ends: list[int] = []
            for target in range(3):
                if command.terminal is not None:
                    actions.append(Open(target, "/dev/null", os.O_RDWR))
                    continue
                end, far_end = _pipe(target, large=command.kind is Inside.SFTP)
                ours.callback(os.close, end)
                ends.append(end)
                actions.append(give(far_end, target))
            program = self._interpreter.open()
            theirs.callback(os.close, program)
            argv = [sys.executable, "-I", "-S", "-c", _ENTER, _RUNTIME]
            pid = libc.spawn(argv, self._interpreter.env, actions, f"/proc/self/fd/{program}")
            ours.pop_all()
            return Spawned(pid, control, ends)

    def _door(self, attempt_id: str) -> Door:
        if not is_safe_id(attempt_id):
            raise ExecRefused(msg("There is no such task."))
        task = self._places.folder(attempt_id)
        if task.read_start() is None:
            raise ExecRefused(msg("The task has not started, or nothing is left of it."))
        folder = next((each for each in (task, revived_of(task)) if each.is_alive()), None)
        note = folder.read_start() if folder is not None else None
        if folder is None or note is None:
            raise ExecRefused(msg("The task has ended."))
        claim = folder.read_claim()
        found = pids_of(claim) if note.sandbox else (0, 0)
        if found is None or claim.pid is None:
            raise StillSettingUp(msg("The task is still being set up. Try again in a moment."))
        return Door(folder, note, claim, *found, HOME if note.sandbox else task["scratch"])

    def _request(self, attempt_id: str, door: Door, command: Command) -> dict[str, Any]:
        env = dict(command.env)
        if command.terminal is not None:
            env["TERM"] = command.terminal.term
        plain = {
            "PATH": PATH,
            "HOME": door.home,
            "LANG": "C.UTF-8",
            "USER": self._site.user,
            "LOGNAME": self._site.user,
        }
        plain["HOLDFAST_ATTEMPT"] = attempt_id
        if not door.note.sandbox:
            env[COOKIE] = self._places.machine_name(attempt_id)
        terminal = command.terminal
        argv = spy.argv(command.process) if command.kind is Inside.STACKS else command.argv
        return {
            "kind": str(command.kind),
            "argv": [_bytes(word) for word in argv],
            "script": _bytes(command.script),
            "env": _bytes_of(env),
            "plain_env": _bytes_of(plain),
            "mark": (b"HOLDFAST_ATTEMPT", _bytes(attempt_id)),
            "terminal": (bounded(terminal.columns), bounded(terminal.rows)) if terminal else None,
            "init": door.init,
            "namespace": door.namespace,
            "runner": door.claim.pid,
            "joins": [f"{group}/cgroup.procs" for group in door.note.cgroups],
            "capabilities": _ALLOWED,
            "max_processes": door.note.max_processes,
            "seccomp": self._site.seccomp,
        }

    # --- besides --------------------------------------------------------------------------------------------------

    async def connect(self, attempt_id: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Tasks share the machine's network, so only what a process of the task itself listens on is reached."""
        if not 0 < port < 65536:
            raise ExecRefused(msg("There is no port {port}: ports go from 1 to 65535.", port=port))
        hosts = await _soon(lambda: self._in_thread(lambda: self._listening_hosts(attempt_id, port)))
        for host in hosts:
            try:
                return await asyncio.wait_for(asyncio.open_connection(host, port), _CONNECT)
            except (OSError, TimeoutError):
                continue
        raise ExecRefused(
            msg("Nothing listens on port {port} of {attempt_id}.", port=port, attempt_id=_task_of(attempt_id))
        )

    def _listening_hosts(self, attempt_id: str, port: int) -> list[str]:
        """Where to connect to reach what the task itself listens on."""
        door = self._door(attempt_id)
        listeners = list_listeners(port)
        return own_hosts(listeners, self._pids(attempt_id, door)) if listeners else []

    def _pids(self, attempt_id: str, door: Door) -> list[int]:
        if door.init:
            return list_namespace_pids(door.namespace)
        return ending.plain_pids(self._target(attempt_id, door))

    def _target(self, attempt_id: str, door: Door) -> ending.Target:
        return ending.Target(self._places.machine_name(attempt_id), door.folder, door.note, door.claim.pid or 0)

    async def processes(self, attempt_id: str) -> Sequence[ProcessInfo]:
        found: list[ProcessInfo] = await _soon(lambda: self._in_thread(lambda: self._processes(attempt_id)))
        return found

    def _processes(self, attempt_id: str) -> list[ProcessInfo]:
        door = self._door(attempt_id)
        if door.init:
            return list_task_processes(door.init, door.namespace)
        return list_task_processes(0, 0, ending.plain_pids(self._target(attempt_id, door)))


async def _soon(reach: Callable[[], Awaitable[T]]) -> T:
    """What reaches a task, which may have been started just now."""
    loop = asyncio.get_running_loop()
    until = loop.time() + _TIMEOUT
    while True:
        try:
            return await reach()
        except StillSettingUp:
            if loop.time() > until:
                raise
            await asyncio.sleep(_AGAIN)


def _why(word: str) -> str:
    """What a helper said that is not inside."""
    if word.startswith("exit "):
        return msg("The session was ended by the task, or the task has just ended.")
    return word.removeprefix("refused ") or msg(
        "The task could not be entered: what was to go in was killed on its way."
    )


def _give_up(work: asyncio.Future[Spawned]) -> None:
    if not work.cancelled() and work.exception() is None:
        pid, control, ends = work.result()
        Helper(pid, control).kill()
        _close(ends)


def _close(fds: Iterable[int]) -> None:
    for fd in fds:
        os.close(fd)


def _check_command(command: Command) -> None:
    words = [*command.argv, command.script, *command.env, *command.env.values()]
    if command.terminal is not None:
        words.append(command.terminal.term)
    sizes = [len(_bytes(word)) for word in words]
    if any("\0" in word for word in words):
        raise ExecRefused(msg("The command contains a NUL byte, which nothing can run."))
    if max(sizes) > _MAX_WORD_LENGTH or sum(sizes) > _MAX_WORDS:
        raise ExecRefused(msg("The command is too long."))
    for name in command.env:
        if not name or "=" in name:
            raise ExecRefused(msg("The environment variable {name} cannot be set.", name=repr(name)))
    if command.kind is Inside.SFTP and command.terminal is not None:
        raise ExecRefused(msg("Files are not transferred by a terminal."))


def _pipe(target: int, *, large: bool) -> tuple[int, int]:
    """Our end and the command's, of one of its three streams."""
    reader, writer = os.pipe()
    if large:
        with suppress(OSError):  # the user has very many already
            fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, _LARGE_PIPE)
    return (writer, reader) if target == 0 else (reader, writer)


def _task_of(attempt_id: str) -> str:
    try:
        return AttemptId.parse(attempt_id).task
    except ValueError:
        return msg("the task")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _bytes_of(variables: Mapping[str, str]) -> dict[bytes, bytes]:
    return {_bytes(name): _bytes(value) for name, value in variables.items()}

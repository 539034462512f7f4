"""Sessions in tasks: each is a step of the task's job on its node. Connections to ports, and lists of processes, too.

A step costs a request to slurmctld: nothing here polls with it. Nothing of a session outlives the server.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from holdfast.core.errors import EngineError
from holdfast.core.messages import msg
from holdfast.engines.base import ExecCommand, ExecKind, ExecRefused, TaskProcess
from holdfast.engines.embedded.exec import py_spy
from holdfast.engines.embedded.exec.exec_sessions import check_command, get_task_name
from holdfast.engines.embedded.lifecycle.disk_limits import ThreadRunner
from holdfast.engines.embedded.lifecycle.task_folders import REVIVED_FOLDER
from holdfast.engines.embedded.task_folder import is_safe_id
from holdfast.engines.start_refusal import StartRefused
from holdfast.engines.task_program import REPORT_FOLDER

from .commands import SlurmCommands
from .node_programs import NodePrograms
from .observer import SlurmObserver
from .session import SlurmSession, open_raw_terminal
from .session_request import (
    CONNECT_KIND,
    MAX_WELCOME_SIZE,
    StepLocation,
    parse_listeners,
    parse_processes,
    parse_welcome,
    render_session_file,
    render_step,
)
from .shared_files import write_file
from .slurm_folder import SlurmFolder, TaskFacts, read_facts
from .task_end import KILL_CODE
from .users import TaskOwners, UnixUser

_START_TIMEOUT = 30.0  # seconds until a session must have started
_CONNECT_TIMEOUT = 5.0  # seconds for a connection to a node
_POLL_INTERVAL = 0.1  # seconds between two looks at the files of a task that is starting
_LISTENER_TIME = 10.0  # seconds that the addresses of a listener are remembered


class SlurmSessions:
    def __init__(
        self,
        commands: SlurmCommands,
        observer: SlurmObserver,
        programs: NodePrograms,
        owners: TaskOwners,
        run_in_thread: ThreadRunner,
        start_background: Callable[[Coroutine[Any, Any, object]], None],
    ) -> None:
        self._commands = commands
        self._observer = observer
        self._programs = programs
        self._owners = owners
        self._run_in_thread = run_in_thread
        self._start_background = start_background
        self._sessions: dict[SlurmSession, str] = {}  # sessions with a running command -> attempt id
        self._addresses: dict[str, str] = {}  # of nodes
        self._listeners: dict[tuple[str, int], tuple[float, list[str]]] = {}  # with the time when they expire

    def has_session(self, attempt_id: str) -> bool:
        return attempt_id in self._sessions.values()

    async def end_sessions(self, attempt_id: str) -> None:
        """Kill the sessions of a task that has ended: they would keep its job."""
        for session in [session for session, id in self._sessions.items() if id == attempt_id]:
            await session.kill()

    async def close(self) -> None:
        await asyncio.gather(*(session.kill() for session in list(self._sessions)))

    # --- tasks --------------------------------------------------------------------------------------------------------

    async def _find_task(self, attempt_id: str) -> StepLocation:
        """Return where it runs. ExecRefused if it does not."""
        if not is_safe_id(attempt_id):
            raise ExecRefused(msg("Task not found."))
        until = asyncio.get_running_loop().time() + _START_TIMEOUT
        while True:
            folder, facts = await self._run_in_thread(lambda: self._read_facts(attempt_id))
            if facts.note is None:
                raise ExecRefused(msg("The task has not started, or its files were deleted."))
            if facts.end is not None or facts.report.code is not None:
                raise ExecRefused(msg("The task has ended."))
            if facts.allocation is None:
                raise ExecRefused(msg("The task has not started yet."))
            if facts.report.claimed:
                break
            if asyncio.get_running_loop().time() > until:
                raise ExecRefused(msg("The task is still being set up. Try again in a moment."))
            await asyncio.sleep(_POLL_INTERVAL)
        await self._check_owner(facts.owner)
        return StepLocation(
            folder=folder.path,
            job=facts.allocation.job,
            offset=facts.offset if facts.gang else None,
            node=facts.allocation.node,
            user=facts.owner,
        )

    async def _check_owner(self, owner: UnixUser | None) -> None:
        """Raise ExecRefused if nothing more may run as the user of the task."""
        try:
            await self._run_in_thread(lambda: self._owners.check_owner(owner))
        except StartRefused as refusal:
            raise ExecRefused(refusal.message) from refusal

    def _read_facts(self, attempt_id: str) -> tuple[SlurmFolder, TaskFacts]:
        """Return what the files of a task say; of one that has ended, those of the job over its files. Blocking."""
        folder = self._observer.get_folder(attempt_id)
        facts = read_facts(folder, attempt_id)
        if facts.end is not None and folder.has_file(REVIVED_FOLDER):
            revived = SlurmFolder(folder[REVIVED_FOLDER])
            return revived, read_facts(revived, attempt_id)
        return folder, facts

    async def _is_over(self, attempt_id: str) -> bool:
        """Return whether the task has ended, or is being killed."""
        try:
            _, facts = await self._run_in_thread(lambda: self._read_facts(attempt_id))
        except (OSError, EngineError):
            return False
        return not facts.is_running or facts.stop_code == KILL_CODE

    async def _run_step(self, location: StepLocation, *words: str) -> str:
        """Run an action of the session program; return its output."""
        await self._run_in_thread(self._programs.install)
        action, *rest = words
        command = [self._programs.session_path, action, location.folder, *rest]
        try:
            return await self._commands.run_step(render_step(location, command), location.user)
        except EngineError as error:
            raise ExecRefused(msg("Slurm did not start a step in the task: {error}", error=error)) from error

    # --- sessions -----------------------------------------------------------------------------------------------------

    async def open_session(self, attempt_id: str, command: ExecCommand) -> SlurmSession:
        check_command(command)
        location = await self._find_task(attempt_id)
        session_id = os.urandom(8).hex()
        await self._write_request(location, session_id, command)
        try:
            session = await self._start_session(attempt_id, location, session_id, command)
            self._sessions[session] = attempt_id
            session.ended.add_done_callback(lambda _: self._sessions.pop(session, None))
            try:
                await asyncio.wait_for(session.read_welcome(), _START_TIMEOUT)
            except BaseException as error:
                session.close()
                if isinstance(error, TimeoutError):
                    raise ExecRefused(msg("Slurm did not start the session in time.")) from error
                raise
        except BaseException:
            await self._delete_request(location, session_id)
            raise
        return session

    async def _write_request(
        self, location: StepLocation, session_id: str, command: ExecCommand, kind: str = ""
    ) -> None:
        def write() -> None:
            self._programs.install()
            argv: Sequence[str] = command.argv
            if command.kind is ExecKind.STACK_DUMP:
                argv = (self._programs.install_py_spy(), *py_spy.build_argv(command.process)[1:])
            content = render_session_file(command, argv, kind)
            write_file(_get_request_path(location, session_id), content, location.user)

        try:
            await self._run_in_thread(write)
        except OSError as error:
            why = error.strerror or error
            raise ExecRefused(msg("Cannot open a session in the task: {error}.", error=why)) from error

    async def _delete_request(self, location: StepLocation, session_id: str) -> None:
        """The session has deleted it, if it started."""
        with suppress(OSError, EngineError):
            await self._run_in_thread(partial(os.unlink, _get_request_path(location, session_id)))

    async def _start_session(
        self, attempt_id: str, location: StepLocation, session_id: str, command: ExecCommand
    ) -> SlurmSession:
        terminal = command.terminal
        ours: list[int] = []
        if terminal is not None:
            master, slave = open_raw_terminal(terminal.columns, terminal.rows)
            ours, theirs = [master, os.dup(master)], [slave, slave, None]
        else:
            pairs = [os.pipe() for _ in range(3)]
            ours = [pairs[1][0], pairs[0][1], pairs[2][0]]
            theirs = [pairs[0][0], pairs[1][1], pairs[2][1]]
        try:
            process = await self._spawn(location, session_id, theirs, terminal=terminal is not None)
        except BaseException:
            _close_fds(ours)
            raise
        finally:
            _close_fds(fd for fd in theirs if fd is not None)
        streams = (ours[0], ours[1], ours[2] if terminal is None else None)
        return SlurmSession(
            session_id,
            process,
            streams,
            ours[0] if terminal is not None else None,
            partial(self._send_signals, location),
            partial(self._is_over, attempt_id),
            lambda number: self._commands.signal_process(process, number, location.user),
            self._start_background,
        )

    async def _spawn(
        self, location: StepLocation, session_id: str, streams: Sequence[int | None], *, terminal: bool = False
    ) -> asyncio.subprocess.Process:
        command = [self._programs.session_path, "open", location.folder, session_id]
        try:
            return await self._commands.start_step(
                render_step(location, command, terminal=terminal), streams, location.user
            )
        except EngineError as error:
            raise ExecRefused(str(error)) from error

    async def _send_signals(self, location: StepLocation, session_id: str, pid: int, numbers: tuple[int, ...]) -> None:
        with suppress(ExecRefused):
            await self._run_step(location, "signal", session_id, str(pid), *map(str, numbers))

    # --- ports and processes ------------------------------------------------------------------------------------------

    async def list_processes(self, attempt_id: str) -> list[TaskProcess]:
        location = await self._find_task(attempt_id)
        return parse_processes(await self._run_step(location, "processes"))

    async def connect_port(self, attempt_id: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to a port. Tasks share the node's network, so only listeners of the task's own processes count."""
        if not 0 < port < 65536:
            raise ExecRefused(msg("Port {port} is not valid. Use a port from 1 to 65535.", port=port))
        location = await self._find_task(attempt_id)
        listeners = await self._find_listeners(attempt_id, location, port)
        if not listeners:
            name = get_task_name(attempt_id)
            raise ExecRefused(msg("Nothing listens on port {port} of {attempt_id}.", port=port, attempt_id=name))
        # What another user says about its listeners and its node is not true for certain: it is only used on a node.
        direct = [] if location.user else list_direct_hosts(listeners, await self._find_address(location.node))
        for host in direct:
            with suppress(OSError, TimeoutError):
                return await asyncio.wait_for(asyncio.open_connection(host, port), _CONNECT_TIMEOUT)
        return await self._open_relay(location, get_local_host(listeners[0]), port)

    async def _find_listeners(self, attempt_id: str, location: StepLocation, port: int) -> list[str]:
        """Return the addresses on which the task itself listens. A page in a browser opens many connections."""
        now = asyncio.get_running_loop().time()
        self._listeners = {key: value for key, value in self._listeners.items() if value[0] > now}
        known = self._listeners.get((attempt_id, port))
        if known is not None:
            return known[1]
        found = parse_listeners(await self._run_step(location, "listeners", str(port)))
        if found:
            self._listeners[attempt_id, port] = (now + _LISTENER_TIME, found)
        return found

    async def _find_address(self, node: str) -> str:
        if node not in self._addresses:
            try:
                self._addresses[node] = await self._commands.read_node_address(node)
            except EngineError:
                return node
        return self._addresses[node]

    async def _open_relay(
        self, location: StepLocation, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect by a step on the node, for listeners that no other machine reaches."""
        session_id = os.urandom(8).hex()
        await self._write_request(location, session_id, ExecCommand(argv=(host, str(port))), CONNECT_KIND)
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            process = await self._spawn(location, session_id, (theirs.fileno(), theirs.fileno(), None))
            theirs.close()
            self._start_background(process.wait())
            rest = await asyncio.wait_for(_read_relay_welcome(ours, session_id), _START_TIMEOUT)
            reader, writer = await asyncio.open_connection(sock=ours)
        except BaseException as error:
            ours.close()
            theirs.close()
            await self._delete_request(location, session_id)
            if isinstance(error, TimeoutError):
                raise ExecRefused(msg("Slurm did not start the session in time.")) from error
            raise
        reader.feed_data(rest)
        return reader, writer


async def _read_relay_welcome(connection: socket.socket, session_id: str) -> bytes:
    """Wait until the relay starts; return the first bytes of the listener."""
    loop = asyncio.get_running_loop()
    data = b""
    while (welcome := parse_welcome(data, session_id)) is None:
        block = await loop.sock_recv(connection, MAX_WELCOME_SIZE)
        if not block or len(data) > MAX_WELCOME_SIZE:
            raise ExecRefused(msg("Slurm did not start the session. Check that the task still runs."))
        data += block
    if welcome.refusal:
        raise ExecRefused(welcome.refusal)
    return welcome.rest


def list_direct_hosts(listeners: Sequence[str], node: str) -> list[str]:
    """Return where the server can reach a listener without a relay. `node`: the address of the node, or its name."""
    found: dict[str, None] = {}
    for listener in listeners:
        address = _parse_listener(listener)
        if address.is_unspecified:
            found[node] = None
        elif not address.is_loopback or str(address) == node:
            found[str(address)] = None
    return list(found)


def get_local_host(listener: str) -> str:
    """Return the address of a listener on its node."""
    address = _parse_listener(listener)
    if not address.is_unspecified:
        return str(address)
    return "127.0.0.1" if address.version == 4 else "::1"


def _parse_listener(listener: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    address = ipaddress.ip_address(listener)
    return (address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None) or address


def _get_request_path(location: StepLocation, session_id: str) -> str:
    return f"{location.folder}/{REPORT_FOLDER}/session.{session_id}"


def _close_fds(fds: Any) -> None:
    for fd in set(fds):
        os.close(fd)

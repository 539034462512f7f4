"""The `forward` command: forward a local port to a task."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from .. import output
from ..options import JobRefArgument, JsonOption, open_client

if TYPE_CHECKING:
    from holdfast.sdk import Client, JobDetail, Task
    from holdfast.sdk.address import Address
    from holdfast.sdk.inside import TaskSession

CHECK_INTERVAL = 3.0  # seconds between checks whether the task still runs
MAX_CONNECTIONS = 256
CHUNK_SIZE = 64 * 1024  # bytes
LISTEN_HOST = "127.0.0.1"
ACCESSIBLE_STATES = ("Running", "Held")
LISTENERS_SCRIPT = "exec cat /proc/net/tcp /proc/net/tcp6"  # a test connection would end a server that accepts only one
LISTEN_STATE = "0A"  # in those tables
STDOUT_PREFIX = 1  # prefix byte of stdout output


def forward(
    job: JobRefArgument,
    port: Annotated[
        str,
        typer.Argument(
            metavar="[TASK:]PORT", help="Port of the task: a number, or a name from the job file.", show_default=False
        ),
    ],
    local: Annotated[
        int | None,
        typer.Argument(metavar="LOCALPORT", min=0, max=65535, help="Local port. Default: the same, or a free one."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Forward a local port to a port of a task, until Ctrl-C."""
    task, _, asked = port.rpartition(":")
    with open_client() as client:
        tunnel = open_tunnel(client, job, task or None, asked, local)
        with tunnel:
            _print_address(tunnel, json)
            if not tunnel.has_listener():
                output.print_warning(f"Nothing listens on port {tunnel.target} of {tunnel.task} yet. Start its server.")
            tunnel.wait_for_task_end(client)


def _print_address(tunnel: Tunnel, json: bool) -> None:
    if json:
        output.emit_json(
            {"host": LISTEN_HOST, "port": tunnel.port, "job": tunnel.job, "task": tunnel.task, "target": tunnel.target}
        )
        return
    output.emit_line(f"{LISTEN_HOST}:{tunnel.port}")
    target = f"port {output.escape(tunnel.target)} of {output.escape(tunnel.task)}, {tunnel.job}"
    output.print_note(f"Forwarding to {target}. Press Ctrl-C to stop.")


def open_tunnel(client: Client, ref: str, task: str | None, asked: str, local: int | None = None) -> Tunnel:
    """Listen on a local port; `asked` is the number or name of the task's port."""
    from holdfast.core.errors import UserError
    from holdfast.sdk.inside import open_port

    job = find_accessible_job(client, ref)
    found = find_accessible_task(job, task)
    if found is None:
        open_port(client.address, job.id, task, asked).close()  # fails with the reason
        raise UserError(f"No task of {job.id} is running or held")
    if not asked.isdigit() and asked not in found.ports:
        known = ", ".join(found.ports)
        hint = f"Use a number, or one of its ports: {known}." if known else "Use a number: the job has no named ports."
        raise UserError(f"{found.task} has no port named {asked}", hint=hint)
    number = int(asked) if asked.isdigit() else found.ports[asked][0]
    return Tunnel(client.address, _open_listener(number, local), job.id, found.task, str(number))


def find_accessible_job(client: Client, ref: str) -> JobDetail:
    """Find the job to connect to, the user's own jobs first. Fails at once if shell access is denied."""
    return client.get_job(client.create_ticket(ref).job or ref)


def find_accessible_task(job: JobDetail, wanted: str | None) -> Task | None:
    """Return the named task, a held task or the first running one; None if there is none."""
    able = [task for task in job.tasks if task.state in ACCESSIBLE_STATES and wanted in (None, task.task)]
    return next((task for task in able if task.state == "Held"), able[0] if able else None)


def _open_listener(number: int, local: int | None) -> socket.socket:
    from holdfast.core.errors import UserError

    for port in [local] if local is not None else [number, 0]:
        try:
            return socket.create_server((LISTEN_HOST, port), backlog=64)
        except (OSError, OverflowError) as error:
            problem = getattr(error, "strerror", None) or str(error)
    raise UserError(
        f"Cannot listen on {LISTEN_HOST}:{local if local is not None else number}: {problem}",
        hint="Choose another local port.",
    )


@dataclass
class Tunnel:
    """A listening local port; each connection uses its own WebSocket."""

    address: Address
    listener: socket.socket
    job: str
    task: str
    target: str

    def __post_init__(self) -> None:
        self.port = int(self.listener.getsockname()[1])
        self._connection_slots = threading.BoundedSemaphore(MAX_CONNECTIONS)

    def __enter__(self) -> Tunnel:
        threading.Thread(target=self._accept_connections, name="forward", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def has_listener(self) -> bool:
        """Return whether a process listens on the port, or whether that is unknown."""
        from holdfast.sdk import ClientError
        from holdfast.sdk.inside import open_exec

        try:
            with open_exec(self.address, self.job, self.task, script=LISTENERS_SCRIPT) as session:
                parts = [part[1:] for part in session if isinstance(part, bytes) and part[0] == STDOUT_PREFIX]
        except ClientError:
            return True
        ports = parse_listening_ports(b"".join(parts).decode("ascii", "replace"))
        return ports is None or int(self.target) in ports

    def wait_for_task_end(self, client: Client) -> None:
        """Wait until the task has ended, and raise an error."""
        from holdfast.core.errors import UserError
        from holdfast.sdk import CannotConnect

        while True:
            threading.Event().wait(CHECK_INTERVAL)
            try:
                job = client.get_job(self.job)
            except CannotConnect:
                continue  # the server may come back; each connection reports the error
            if find_accessible_task(job, self.task) is None:
                raise UserError(
                    f"{self.task} of {self.job} has ended; forwarding stopped", hint=f"Run `holdfast show {self.job}`."
                )

    def _accept_connections(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return  # closed
            self._connection_slots.acquire()
            threading.Thread(target=self._serve_connection, args=(connection,), name="forward", daemon=True).start()

    def _serve_connection(self, connection: socket.socket) -> None:
        from holdfast.sdk import ClientError
        from holdfast.sdk.inside import open_port

        try:
            with open_port(self.address, self.job, self.task, self.target) as line:
                threading.Thread(target=_forward_to_task, args=(connection, line), name="forward", daemon=True).start()
                _forward_to_client(connection, line)
        except ClientError as error:
            output.print_note(f"{output.escape(error.message)}", "yellow")
        except OSError:
            pass  # the local client disconnected
        finally:
            _close_connection(connection)
            self._connection_slots.release()


def parse_listening_ports(tables: str) -> set[int] | None:
    """Return the ports of the listening sockets in the text of /proc/net/tcp; None if it could not be read."""
    if "local_address" not in tables:
        return None
    rows = [line.split() for line in tables.splitlines()]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if len(row) > 3 and row[3] == LISTEN_STATE}


def _close_connection(connection: socket.socket) -> None:
    """Close a connection and wake its reader."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def _forward_to_task(connection: socket.socket, line: TaskSession) -> None:
    with suppress(OSError):
        while data := connection.recv(CHUNK_SIZE):
            if not line.send(data):
                return
    line.send_message(end=True)


def _forward_to_client(connection: socket.socket, line: TaskSession) -> None:
    for message in line:
        if isinstance(message, bytes):
            connection.sendall(message)
        elif message.get("end"):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_WR)

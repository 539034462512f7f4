"""`holdfast forward`: a port of a task, here."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from .. import output
from ..options import JobRef, Json, connect

if TYPE_CHECKING:
    from holdfast.sdk import Client, JobDetail, Task
    from holdfast.sdk.address import Address
    from holdfast.sdk.inside import Line

LOOK_INTERVAL = 3.0  # seconds between looks whether the task is still there
MAX_CONCURRENT = 256  # connections
PIECE = 64 * 1024
HOST = "127.0.0.1"
OPEN = ("Running", "Held")


def forward(
    job: JobRef,
    port: Annotated[
        str,
        typer.Argument(
            metavar="[TASK:]PORT", help="A port of the task: a number, or the job's name for it.", show_default=False
        ),
    ],
    local: Annotated[
        int | None,
        typer.Argument(metavar="LOCALPORT", min=0, max=65535, help="Port here. Default: the same, or a free one."),
    ] = None,
    json: Json = False,
) -> None:
    """Let a port of a task be reached on this machine, until Ctrl-C."""
    task, _, asked = port.rpartition(":")
    with connect() as client:
        tunnel = open_tunnel(client, job, task or None, asked, local)
        with tunnel:
            _say(tunnel, json)
            tunnel.watch(client)


def _say(tunnel: Tunnel, json: bool) -> None:
    if json:
        output.emit_json(
            {"host": HOST, "port": tunnel.port, "job": tunnel.job, "task": tunnel.task, "target": tunnel.target}
        )
        return
    output.emit(f"{HOST}:{tunnel.port}")
    output.note(
        f"leads to port {output.safe(tunnel.target)} of {output.safe(tunnel.task)}, {tunnel.job}. Ctrl-C ends it."
    )


def open_tunnel(client: Client, ref: str, task: str | None, asked: str, local: int | None = None) -> Tunnel:
    """Listens here; `asked` is a number or a name."""
    from holdfast.core.errors import UserError
    from holdfast.sdk.inside import open_port

    job = find_to_enter(client, ref)
    found = choose_task(job, task)
    if found is None:
        open_port(client.address, job.id, task, asked).close()  # which is refused, and says why
        raise UserError(f"No task of {job.id} can be entered now")
    if not asked.isdigit() and asked not in found.ports:
        known = ", ".join(found.ports)
        hint = f"Its ports are {known}; or give a number." if known else "Give a number: the job names no ports."
        raise UserError(f"{found.task} has no port named {asked}", hint=hint)
    number = int(asked) if asked.isdigit() else found.ports[asked][0]
    return Tunnel(client.address, _listen(number, local), job.id, found.task, str(number))


def find_to_enter(client: Client, ref: str) -> JobDetail:
    """The job that the name leads into: one's own before others'. Refused now, not at the first connection, to who may
    not get in."""
    return client.job(client.ticket(ref).job or ref)


def choose_task(job: JobDetail, wanted: str | None) -> Task | None:
    """The one named, one that is held, or the first that runs; None when it cannot be entered."""
    able = [task for task in job.tasks if task.state in OPEN and wanted in (None, task.task)]
    return next((task for task in able if task.state == "Held"), able[0] if able else None)


def _listen(number: int, local: int | None) -> socket.socket:
    from holdfast.core.errors import UserError

    for port in [local] if local is not None else [number, 0]:
        try:
            return socket.create_server((HOST, port), backlog=64)
        except (OSError, OverflowError) as error:
            problem = getattr(error, "strerror", None) or str(error)
    raise UserError(
        f"Cannot listen on {HOST}:{local if local is not None else number}: {problem}", hint="Name another port."
    )


@dataclass
class Tunnel:
    """A port that listens here; each connection to it is a line of its own."""

    address: Address
    listener: socket.socket
    job: str
    task: str
    target: str

    def __post_init__(self) -> None:
        self.port = int(self.listener.getsockname()[1])
        self._turns = threading.BoundedSemaphore(MAX_CONCURRENT)

    def __enter__(self) -> Tunnel:
        threading.Thread(target=self._accept, name="forward", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def watch(self, client: Client) -> None:
        """Until the task is gone, which is told as an error."""
        from holdfast.core.errors import UserError
        from holdfast.sdk import CannotConnect

        while True:
            threading.Event().wait(LOOK_INTERVAL)
            try:
                job = client.job(self.job)
            except CannotConnect:
                continue  # it may come back; each connection says so meanwhile
            if choose_task(job, self.task) is None:
                raise UserError(
                    f"{self.task} of {self.job} has ended; nothing is forwarded any more",
                    hint=f"holdfast show {self.job}",
                )

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return  # closed
            self._turns.acquire()
            threading.Thread(target=self._serve, args=(connection,), name="forward", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        from holdfast.sdk import ClientError
        from holdfast.sdk.inside import open_port

        try:
            with open_port(self.address, self.job, self.task, self.target) as line:
                threading.Thread(target=_pass_up, args=(connection, line), name="forward", daemon=True).start()
                _pass_down(connection, line)
        except ClientError as error:
            output.note(f"{output.safe(error.message)}", "yellow")
        except OSError:
            pass  # whoever connected has left
        finally:
            _end(connection)
            self._turns.release()


def _end(connection: socket.socket) -> None:
    """Also wakes whoever reads from it."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def _pass_up(connection: socket.socket, line: Line) -> None:
    with suppress(OSError):
        while data := connection.recv(PIECE):
            if not line.send(data):
                return
    line.tell(end=True)


def _pass_down(connection: socket.socket, line: Line) -> None:
    for message in line:
        if isinstance(message, bytes):
            connection.sendall(message)
        elif message.get("end"):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_WR)

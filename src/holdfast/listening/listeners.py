"""All ports of the server, bound before anything else starts, so that a port in use has no side effects."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from holdfast.core.errors import UserError

from .binding import BindError, BoundService, BoundSocket, bind_service, find_held_port
from .endpoints import list_endpoints
from .holder import HolderSupervisor, receive_held_sockets
from .port_owner import list_port_owners

RELEASE_TIMEOUT = 1.0  # seconds for an exiting holder to close its sockets
RELEASE_INTERVAL = 0.02  # seconds

TaskDescriber = Callable[[int], str | None]  # process ID -> "task main-0 of job x", if it belongs to one


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    service: str
    host: str
    port: int  # 0: any


class Listeners:
    """Sockets of the HTTP server and the SSH gateway, and the connection to their holder."""

    def __init__(
        self, home: Path, wanted: Sequence[ServiceAddress], describe_task: TaskDescriber = lambda pid: None
    ) -> None:
        """`wanted`: the services to bind. Sockets of an earlier server on other addresses are closed first."""
        self._describe_task = describe_task
        self._home = home
        self._services: list[BoundService] = []
        self._connection, self._held = receive_held_sockets(home)
        self._release_stale_sockets(wanted)

    def _release_stale_sockets(self, wanted: Sequence[ServiceAddress]) -> None:
        stale = _find_stale_keys(wanted, self._held)
        if not stale or self._connection is None:
            return
        for key in stale:
            self._held.pop(key).close()
        try:
            self._connection.replace_sockets(self._held)
        except OSError:  # it exited and has closed them
            self._connection.close()
            self._connection = None

    def bind_http(self, host: str, port: int) -> BoundService:
        """Bind the HTTP server; raises UserError if an address is in use."""
        try:
            return self._bind_with_retry("http", host, port)
        except BindError as error:
            raise UserError(
                f"Cannot listen on {error.endpoint}: {self._format_bind_error(error)}",
                hint=self._build_bind_error_hint(error),
            ) from None
        except OSError as error:
            raise UserError(
                f"Cannot listen on {host}:{port}: {error.strerror or error}",
                hint="Choose another address with --host or HOLDFAST_SERVER_HOST.",
            ) from None

    def bind_ssh(self, host: str, port: int) -> BoundService | str:
        """Bind the SSH gateway, or return why not: the server then runs without it."""
        try:
            return self._bind_with_retry("ssh", host, port)
        except BindError as error:
            return f"The SSH gateway cannot listen on {error.endpoint}: {self._format_bind_error(error)}."
        except OSError as error:
            return f"The SSH gateway cannot listen on {host}:{port}: {error.strerror or error}."

    def _bind_with_retry(self, service: str, host: str, port: int) -> BoundService:
        until = time.monotonic() + RELEASE_TIMEOUT
        while True:
            try:
                found = bind_service(service, host, port, self._held)
            except BindError as error:
                if not error.in_use or time.monotonic() > until or not self._is_releasing(error.endpoint.port):
                    raise
                time.sleep(RELEASE_INTERVAL)
                continue
            self._services.append(found)
            return found

    def _is_releasing(self, port: int) -> bool:
        """Whether the port will probably be free soon: no visible process listens on it."""
        return self._connection is None and not list_port_owners(port)

    def _format_bind_error(self, error: BindError) -> str:
        if not error.in_use:
            return error.reason
        found = list_port_owners(error.endpoint.port)
        shown = [self._describe_process(each.pid, str(each)) for each in found]
        return f"{error.reason} by {', '.join(shown)}" if shown else error.reason

    def _describe_process(self, pid: int, process: str) -> str:
        task = self._describe_task(pid)
        return f"{process}, {task}" if task else process

    def _build_bind_error_hint(self, error: BindError) -> str:
        other = "start on another port with --port or HOLDFAST_SERVER_PORT"
        if not error.in_use:
            return f"{other[0].upper()}{other[1:]}, or on another address with --host."
        found = list_port_owners(error.endpoint.port)
        if found and any(self._describe_task(each.pid) for each in found):
            return f"Stop that process: `kill {found[0].pid}`. Or {other} and stop the job with `holdfast stop`."
        return f"Stop that process, or {other}. Find the process with `ss -ltnp`."

    @property
    def bound_sockets(self) -> list[BoundSocket]:
        return [each for service in self._services for each in service.bound]

    @property
    def ports(self) -> frozenset[int]:
        return frozenset(service.port for service in self._services)

    def create_supervisor(self) -> HolderSupervisor:
        """Return the supervisor, which then owns the connection to the holder. Call it once, after binding."""
        used = {each.endpoint.key for each in self.bound_sockets}
        for key in [key for key in self._held if key not in used]:
            self._held.pop(key).close()
        connection, self._connection = self._connection, None
        return HolderSupervisor(self._home, self.bound_sockets, connection)

    def close(self) -> None:
        for service in self._services:
            service.close()
        for each in self._held.values():
            each.close()
        if self._connection is not None:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _find_stale_keys(wanted: Sequence[ServiceAddress], held: Mapping[str, socket.socket]) -> list[str]:
    """Return the keys of services whose addresses changed: their old sockets could cover a new address."""
    keys = {key for each in wanted for key in _list_configured_keys(each, held)}
    moved = {key.split(" ")[0] for key in held if key not in keys}
    return [key for key in held if key.split(" ")[0] in moved]


def _list_configured_keys(wanted: ServiceAddress, held: Mapping[str, socket.socket]) -> list[str]:
    port = wanted.port or find_held_port(wanted.service, held)
    if not port:
        return []
    try:
        return [each.key for each in list_endpoints(wanted.service, wanted.host, port)]
    except OSError:  # the host name is not found; binding reports that
        return []

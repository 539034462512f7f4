"""All ports of the server, bound before anything else is touched, so that a taken port changes nothing."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from holdfast.core.errors import UserError

from .binding import BindError, BoundService, BoundSocket, bind_service, held_port
from .endpoints import list_endpoints
from .holder import HolderSupervisor, take_held
from .occupant import find_occupants

RELEASE_TIMEOUT = 1.0  # seconds until a holder that is ending has closed its sockets
RELEASE_INTERVAL = 0.02

DescribeTask = Callable[[int], str | None]  # process id -> "task main-0 of job x", where it is one


@dataclass(frozen=True, slots=True)
class Wanted:
    service: str
    host: str
    port: int  # 0: any


class Listeners:
    """The sockets of the HTTP server and the SSH gateway, and the process that holds them while no server runs."""

    def __init__(self, home: Path, wanted: Sequence[Wanted], describe_task: DescribeTask = lambda pid: None) -> None:
        """`wanted`: what will be bound. Sockets of an earlier server on other addresses are closed first."""
        self._describe_task = describe_task
        self._home = home
        self._services: list[BoundService] = []
        self._connection, self._held = take_held(home)
        self._release_stale(wanted)

    def _release_stale(self, wanted: Sequence[Wanted]) -> None:
        stale = _stale_keys(wanted, self._held)
        if not stale or self._connection is None:
            return
        for key in stale:
            self._held.pop(key).close()
        try:
            self._connection.keep_only(self._held)
        except OSError:  # it ended, and has closed them
            self._connection.close()
            self._connection = None

    def bind_http(self, host: str, port: int) -> BoundService:
        """UserError when an address is taken."""
        try:
            return self._bind("http", host, port)
        except BindError as error:
            raise UserError(
                f"Cannot listen on {error.endpoint}: {self._explain(error)}", hint=self._advise(error)
            ) from None
        except OSError as error:
            raise UserError(
                f"Cannot listen on {host}:{port}: {error.strerror or error}",
                hint="Choose another address with --host or HOLDFAST_SERVER_HOST.",
            ) from None

    def bind_ssh(self, host: str, port: int) -> BoundService | str:
        """Or why it cannot be had: then the server runs without its SSH gateway."""
        try:
            return self._bind("ssh", host, port)
        except BindError as error:
            return f"The SSH gateway cannot listen on {error.endpoint}: {self._explain(error)}."
        except OSError as error:
            return f"The SSH gateway cannot listen on {host}:{port}: {error.strerror or error}."

    def _bind(self, service: str, host: str, port: int) -> BoundService:
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
        """Whether the port may be free in a moment: no process has it, as far as can be seen."""
        return self._connection is None and not find_occupants(port)

    def _explain(self, error: BindError) -> str:
        if not error.in_use:
            return error.reason
        found = find_occupants(error.endpoint.port)
        shown = [self._describe(each.pid, str(each)) for each in found]
        return f"{error.reason} by {', '.join(shown)}" if shown else error.reason

    def _describe(self, pid: int, process: str) -> str:
        task = self._describe_task(pid)
        return f"{process}, {task}" if task else process

    def _advise(self, error: BindError) -> str:
        other = "start on another port with --port or HOLDFAST_SERVER_PORT"
        if not error.in_use:
            return f"{other[0].upper()}{other[1:]}, or on another address with --host."
        found = find_occupants(error.endpoint.port)
        if found and any(self._describe_task(each.pid) for each in found):
            return f"End that process: `kill {found[0].pid}`. Or {other} and stop the job with `holdfast stop`."
        return f"End that process, or {other}. See what holds it with `ss -ltnp`."

    @property
    def bound(self) -> list[BoundSocket]:
        return [each for service in self._services for each in service.bound]

    @property
    def ports(self) -> frozenset[int]:
        return frozenset(service.port for service in self._services)

    def supervise(self) -> HolderSupervisor:
        """Called once, when all is bound. The supervisor has the connection to the holder from then on."""
        used = {each.endpoint.key for each in self.bound}
        for key in [key for key in self._held if key not in used]:
            self._held.pop(key).close()
        connection, self._connection = self._connection, None
        return HolderSupervisor(self._home, self.bound, connection)

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


def _stale_keys(wanted: Sequence[Wanted], held: Mapping[str, socket.socket]) -> list[str]:
    """Of services that are not wanted on all the addresses they had: what they keep could cover a new address."""
    keys = {key for each in wanted for key in _wanted_keys(each, held)}
    moved = {key.split(" ")[0] for key in held if key not in keys}
    return [key for key in held if key.split(" ")[0] in moved]


def _wanted_keys(wanted: Wanted, held: Mapping[str, socket.socket]) -> list[str]:
    port = wanted.port or held_port(wanted.service, held)
    if not port:
        return []
    try:
        return [each.key for each in list_endpoints(wanted.service, wanted.host, port)]
    except OSError:  # the name of the host is not found, which is told when it is bound
        return []

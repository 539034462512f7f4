"""Bind the endpoints of a service, or reuse sockets that are already bound."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from .endpoints import Endpoint, list_endpoints

BACKLOG = 1024  # connections waiting to be accepted
MAX_PORT_TRIES = 50  # for port 0
_ADDRESS_ABSENT_ERRORS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


class BindError(Exception):
    """An endpoint cannot be bound."""

    def __init__(self, endpoint: Endpoint, error: OSError) -> None:
        self.endpoint = endpoint
        self.in_use = error.errno == errno.EADDRINUSE
        self.reason = error.strerror or str(error)
        super().__init__(f"{endpoint}: {self.reason}")


@dataclass(frozen=True, slots=True)
class BoundSocket:
    endpoint: Endpoint
    socket: socket.socket


@dataclass(frozen=True, slots=True)
class BoundService:
    """All sockets of one service; at least one."""

    bound: tuple[BoundSocket, ...]

    @property
    def port(self) -> int:
        return self.bound[0].endpoint.port

    @property
    def listening_sockets(self) -> list[socket.socket]:
        return [each.socket for each in self.bound if each.endpoint.serves]

    def close(self) -> None:
        for each in self.bound:
            each.socket.close()


def bind_service(service: str, host: str, port: int, held: Mapping[str, socket.socket] | None = None) -> BoundService:
    """Bind `port` on every address of the service. Port 0 uses the held port, else one free on all.

    `held`: sockets by endpoint key, used instead of new ones. Raises BindError, or OSError if the host name is not
    found.
    """
    held = held or {}
    if port:
        return BoundService(_bind_endpoints(list_endpoints(service, host, port), held))
    endpoints = list_endpoints(service, host, 0)
    failure: BindError | None = None
    for number in _iter_candidate_ports(service, endpoints, held):
        try:
            return BoundService(_bind_endpoints([replace(each, port=number) for each in endpoints], held))
        except BindError as error:
            if not error.in_use:
                raise
            failure = error
    assert failure is not None
    raise failure


def find_held_port(service: str, held: Mapping[str, socket.socket]) -> int:
    """Return the port that this service used before; 0 if none is held."""
    return next((int(key.split(" ")[2]) for key in held if key.startswith(f"{service} ")), 0)


def _iter_candidate_ports(
    service: str, endpoints: Sequence[Endpoint], held: Mapping[str, socket.socket]
) -> Iterator[int]:
    """Return the port that this service used before, then free ports of its first address."""
    known = find_held_port(service, held)
    if known:
        yield known
    first = next(each for each in endpoints if each.serves)
    for _ in range(MAX_PORT_TRIES):
        with _open_probe_socket(first) as probe:
            number = int(probe.getsockname()[1])
        yield number  # bound again by number: the kernel lets others share a port that it chose itself


def _open_probe_socket(endpoint: Endpoint) -> socket.socket:
    found = _open_socket(replace(endpoint, serves=False, required=True))
    assert found is not None
    return found


def _bind_endpoints(endpoints: Iterable[Endpoint], held: Mapping[str, socket.socket]) -> tuple[BoundSocket, ...]:
    found: list[BoundSocket] = []
    new: list[BoundSocket] = []
    try:
        for endpoint in endpoints:
            known = held.get(endpoint.key)
            if known is not None:
                found.append(BoundSocket(endpoint, known))
                continue
            made = _open_socket(endpoint)
            if made is not None:
                new.append(BoundSocket(endpoint, made))
                found.append(new[-1])
    except BaseException:
        for each in new:
            each.socket.close()
        raise
    for each in found:
        if not each.endpoint.serves:
            _reserve_address(each.socket)
    return tuple(found)


def _open_socket(endpoint: Endpoint) -> socket.socket | None:
    """Open a bound socket, listening if it serves; None if an optional address does not exist on this machine."""
    made: socket.socket | None = None
    try:
        made = _create_socket(endpoint)
        made.bind((endpoint.address, endpoint.port))
        if endpoint.serves:
            made.listen(BACKLOG)
            made.setblocking(False)
    except OSError as error:
        if made is not None:
            made.close()
        if endpoint.required or error.errno not in _ADDRESS_ABSENT_ERRORS:
            raise BindError(endpoint, error) from None
        return None
    return made


def _create_socket(endpoint: Endpoint) -> socket.socket:
    made = socket.socket(endpoint.family, socket.SOCK_STREAM)
    # Connections of an earlier server may be in TIME_WAIT. A listening socket cannot be shared even with this option.
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if endpoint.family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not endpoint.dual_stack)
    return made


def _reserve_address(reserved: socket.socket) -> None:
    """Prevent other sockets from binding an address that it covers. Serving sockets that it covers already listen."""
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)

"""Measures the TCP traffic of tasks. They share the machine's network, so it is counted by socket: the kernel reports
the traffic of each open socket (netlink's sock_diag), and of each one when it is closed.

The owner of a socket is found by its cgroup of version 2, or by the descriptors of processes. A socket that is opened
and closed between two samples has no owner. Blocking, and for one thread at a time, except for `ClosedSocketMonitor`
and where stated.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

_NETLINK_SOCK_DIAG = 4  # NETLINK_SOCK_DIAG
_SOCK_DIAG_BY_FAMILY, _DUMP_FLAGS = 20, 0x301  # SOCK_DIAG_BY_FAMILY; NLM_F_REQUEST with NLM_F_DUMP
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_MULTICAST_GROUPS = 1 << 0 | 1 << 2  # that report closed TCP sockets, IPv4 and IPv6
_HEADER_FORMAT = struct.Struct("=IHHII")  # nlmsghdr
_REQUEST_FORMAT = struct.Struct("=BBBBI48x")  # inet_diag_req_v2
_SOCKET_IDS_FORMAT = struct.Struct("=Q16xI")  # of inet_diag_msg: the socket's cookie and inode
_SOCKET_IDS_OFFSET, _ATTRIBUTES_OFFSET = 44, 72
_ATTRIBUTE_FORMAT = struct.Struct("=HH")
_INET_DIAG_INFO, _INET_DIAG_CGROUP_ID = 2, 21  # INET_DIAG_INFO, INET_DIAG_CGROUP_ID
_BYTE_COUNTERS_FORMAT = struct.Struct("=QQ")  # of tcp_info: bytes acked by the other side, bytes received
_BYTE_COUNTERS_OFFSET = 120
_TCP_STATES_MASK = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11  # those in which bytes were or can be sent
_BUFFER_SIZE = 8 << 20  # bytes
_SO_RCVBUFFORCE = 33  # SO_RCVBUFFORCE
_NETLINK_TIMEOUT = 2.0  # seconds
_MAX_SOCKETS = 50_000  # of the machine in one sample
_MAX_CLOSED_MESSAGES = 20_000  # messages kept between two samples
_MAX_READ_MESSAGES = 2000


class TrafficCounters(NamedTuple):
    received: int = 0  # bytes
    sent: int = 0


class SocketTraffic(NamedTuple):
    cookie: int  # unique for ever
    inode: int  # its inode; 0: already closed
    group: int  # 0: unknown
    flow: TrafficCounters


class TrafficUnavailable(Exception):
    """The kernel does not report traffic."""


def parse_socket_messages(data: bytes) -> Iterator[SocketTraffic]:
    """Parse messages of the kernel. NoTraffic if one of them is an error."""
    at = 0
    while at + _HEADER_FORMAT.size <= len(data):
        length, kind, *_ = _HEADER_FORMAT.unpack_from(data, at)
        if kind == _NLMSG_ERROR or length < _HEADER_FORMAT.size:
            raise TrafficUnavailable
        if kind == _SOCK_DIAG_BY_FAMILY:
            yield _parse_socket(data, at + _HEADER_FORMAT.size, at + length)
        at += (length + 3) & ~3


def _parse_socket(data: bytes, at: int, end: int) -> SocketTraffic:
    cookie, file = _SOCKET_IDS_FORMAT.unpack_from(data, at + _SOCKET_IDS_OFFSET)
    group, flow = 0, TrafficCounters()
    at += _ATTRIBUTES_OFFSET
    while at + 4 <= end:
        length, kind = _ATTRIBUTE_FORMAT.unpack_from(data, at)
        if length < 4:
            break
        if kind == _INET_DIAG_INFO and length >= 4 + _BYTE_COUNTERS_OFFSET + _BYTE_COUNTERS_FORMAT.size:
            sent, received = _BYTE_COUNTERS_FORMAT.unpack_from(data, at + 4 + _BYTE_COUNTERS_OFFSET)
            flow = TrafficCounters(received, sent)
        elif kind == _INET_DIAG_CGROUP_ID:
            (group,) = struct.unpack_from("=Q", data, at + 4)
        at += (length + 3) & ~3
    return SocketTraffic(cookie, file, group, flow)


def read_sockets() -> list[SocketTraffic]:
    """Return every connection of this machine. NoTraffic if that is denied, or there are too many."""
    found: list[SocketTraffic] = []
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG) as kernel:
            kernel.settimeout(_NETLINK_TIMEOUT)
            for family in (socket.AF_INET, socket.AF_INET6):
                request = _REQUEST_FORMAT.pack(
                    family, socket.IPPROTO_TCP, 1 << (_INET_DIAG_INFO - 1), 0, _TCP_STATES_MASK
                )
                kernel.send(
                    _HEADER_FORMAT.pack(_HEADER_FORMAT.size + len(request), _SOCK_DIAG_BY_FAMILY, _DUMP_FLAGS, 1, 0)
                    + request
                )
                _read_reply(kernel, found)
    except OSError as error:
        raise TrafficUnavailable from error
    return found


def _read_reply(kernel: socket.socket, found: list[SocketTraffic]) -> None:
    while True:
        data = kernel.recv(1 << 16)
        found += parse_socket_messages(data)
        if len(found) > _MAX_SOCKETS:
            raise TrafficUnavailable
        if _is_end_of_reply(data):
            return


def _is_end_of_reply(data: bytes) -> bool:
    """Return whether the last message ends the reply."""
    at, kind = 0, 0
    while at + _HEADER_FORMAT.size <= len(data):
        length, kind, *_ = _HEADER_FORMAT.unpack_from(data, at)
        at += (max(length, _HEADER_FORMAT.size) + 3) & ~3
    return kind == _NLMSG_DONE


class ClosedSocketMonitor:
    """Receives sockets as they are closed, and keeps them until `take`. `hear` is thread-safe."""

    def __init__(self) -> None:
        """Raise OSError if that is denied."""
        self._kernel = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG
        )
        try:
            self._enlarge_buffer()
            self._kernel.bind((0, _MULTICAST_GROUPS))
        except OSError:
            self._kernel.close()
            raise
        self._messages: deque[bytes] = deque(maxlen=_MAX_CLOSED_MESSAGES)

    def _enlarge_buffer(self) -> None:
        try:
            self._kernel.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_SIZE)
        except OSError:  # only for root
            self._kernel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_SIZE)

    @property
    def fd(self) -> int:
        return self._kernel.fileno()

    def read_events(self) -> None:
        for _ in range(_MAX_READ_MESSAGES):
            try:
                self._messages.append(self._kernel.recv(1 << 16))
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:  # the buffer overflowed
                    return

    def pop_sockets(self, most: int) -> Iterator[SocketTraffic]:
        for _ in range(most):
            try:
                data = self._messages.popleft()
            except IndexError:
                return
            with suppress(TrafficUnavailable, struct.error):
                yield from parse_socket_messages(data)

    def close(self) -> None:
        self._kernel.close()


class SocketOwners(NamedTuple):
    owners: Mapping[int, str]  # inode of a socket -> owner
    unknown: Collection[str]  # owners whose descriptors could not be read


@dataclass(slots=True)
class _SocketState:
    owner: str  # empty: not of a task
    flow: TrafficCounters


class TrafficMeter:
    """Sums the traffic of each task's sockets."""

    def __init__(self) -> None:
        self._sockets: dict[int, _SocketState] = {}
        self._totals: dict[str, TrafficCounters] = {}

    def update_totals(
        self, owners: Collection[str], groups: Mapping[int, str], find: Callable[[], SocketOwners]
    ) -> Collection[str]:
        """Read all sockets. `owners`: all running tasks, since sockets without an owner are only checked once.
        `groups`: cgroup -> owner. `find` reads the owners by descriptors, after the sockets. Returns the owners with
        incomplete data."""
        sockets = read_sockets()
        self._set_owners(owners)
        strange = [each for each in sockets if each.cookie not in self._sockets and each.group not in groups]
        files = SocketOwners({}, ())
        if len(groups) < len(owners) and any(each.inode for each in strange):
            files = find()
        for each in sockets:
            owner = groups.get(each.group) or files.owners.get(each.inode, "")
            known = self._sockets.get(each.cookie)
            if known is None and not owner and files.unknown:
                continue
            if known is None or (owner and not known.owner):  # its task may have been unknown before
                self._sockets[each.cookie] = _SocketState(owner, TrafficCounters())
            self._add_bytes(each)
        self._drop_closed_sockets({each.cookie for each in sockets}, owners)
        return files.unknown

    def _set_owners(self, owners: Collection[str]) -> None:
        for gone in set(self._totals).difference(owners):
            self.drop_owner(gone)
        for owner in owners:
            self._totals.setdefault(owner, TrafficCounters())

    def _drop_closed_sockets(self, still: Collection[int], owners: Collection[str]) -> None:
        """Drop closed sockets without an owner, or of an ended task. The kernel still reports the others."""
        gone = [cookie for cookie, known in self._sockets.items() if cookie not in still and known.owner not in owners]
        for cookie in gone:
            del self._sockets[cookie]

    def add_closed_sockets(self, closed: Iterable[SocketTraffic]) -> None:
        for each in closed:
            if each.cookie in self._sockets:
                self._add_bytes(each)
                del self._sockets[each.cookie]

    def _add_bytes(self, each: SocketTraffic) -> None:
        known = self._sockets[each.cookie]
        total = self._totals.get(known.owner)
        if total is not None:
            received, sent = total
            more = TrafficCounters(
                max(0, each.flow.received - known.flow.received), max(0, each.flow.sent - known.flow.sent)
            )
            self._totals[known.owner] = TrafficCounters(received + more.received, sent + more.sent)
        known.flow = each.flow

    def get_total(self, owner: str) -> TrafficCounters | None:
        """Return None if it was never measured."""
        return self._totals.get(owner)

    def drop_owner(self, owner: str) -> None:
        """Drop an ended task. Thread-safe."""
        self._totals.pop(owner, None)

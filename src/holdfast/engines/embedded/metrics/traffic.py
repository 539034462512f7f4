"""What tasks send and receive by TCP. They share the machine's network, so it is counted by socket: the kernel tells of
each what went through it (netlink's sock_diag), and of each that is closed what it came to.

Whose a socket is, is told by its control group of version 2, or else by whose descriptors lead to it. One that is
opened and closed between two looks is nobody's. Blocking, and for one thread at a time, except for `Closed` and where
it says so.
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

_SOCK_DIAG = 4  # NETLINK_SOCK_DIAG
_BY_FAMILY, _DUMP = 20, 0x301  # SOCK_DIAG_BY_FAMILY; NLM_F_REQUEST with NLM_F_DUMP
_ERROR, _DONE = 2, 3
_GROUPS = 1 << 0 | 1 << 2  # those that tell of closed TCP sockets, IPv4 and IPv6
_HEADER = struct.Struct("=IHHII")  # nlmsghdr
_REQUEST = struct.Struct("=BBBBI48x")  # inet_diag_req_v2
_ABOUT = struct.Struct("=Q16xI")  # of inet_diag_msg: the socket's cookie, the number of its file
_ABOUT_AT, _ATTRIBUTES_AT = 44, 72
_ATTRIBUTE = struct.Struct("=HH")
_INFO, _CGROUP = 2, 21  # INET_DIAG_INFO, INET_DIAG_CGROUP_ID
_COUNTS = struct.Struct("=QQ")  # of tcp_info: bytes acked by the other side, bytes received
_COUNTS_AT = 120
_STATES = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11  # those in which bytes have been or can be sent
_BUFFER = 8 << 20
_FORCE_BUFFER = 33  # SO_RCVBUFFORCE
_TIMEOUT = 2.0  # seconds
_MAX_SOCKETS = 50_000  # of the machine in one look
_MAX_CLOSED = 20_000  # messages kept between two looks
_BATCH_SIZE = 2000


class Flow(NamedTuple):
    received: int = 0  # bytes
    sent: int = 0


class Socket(NamedTuple):
    cookie: int  # no other socket has, or had, the same
    file: int  # by which descriptors name it; 0: it is closed already
    group: int  # 0: not told
    flow: Flow


class NoTraffic(Exception):
    """The kernel does not tell."""


def parse(data: bytes) -> Iterator[Socket]:
    """From messages of the kernel. NoTraffic when one of them is an error."""
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, *_ = _HEADER.unpack_from(data, at)
        if kind == _ERROR or length < _HEADER.size:
            raise NoTraffic
        if kind == _BY_FAMILY:
            yield _socket(data, at + _HEADER.size, at + length)
        at += (length + 3) & ~3


def _socket(data: bytes, at: int, end: int) -> Socket:
    cookie, file = _ABOUT.unpack_from(data, at + _ABOUT_AT)
    group, flow = 0, Flow()
    at += _ATTRIBUTES_AT
    while at + 4 <= end:
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < 4:
            break
        if kind == _INFO and length >= 4 + _COUNTS_AT + _COUNTS.size:
            sent, received = _COUNTS.unpack_from(data, at + 4 + _COUNTS_AT)
            flow = Flow(received, sent)
        elif kind == _CGROUP:
            (group,) = struct.unpack_from("=Q", data, at + 4)
        at += (length + 3) & ~3
    return Socket(cookie, file, group, flow)


def read_sockets() -> list[Socket]:
    """Every connection of this machine. NoTraffic where that may not be known, or there are too many."""
    found: list[Socket] = []
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _SOCK_DIAG) as kernel:
            kernel.settimeout(_TIMEOUT)
            for family in (socket.AF_INET, socket.AF_INET6):
                request = _REQUEST.pack(family, socket.IPPROTO_TCP, 1 << (_INFO - 1), 0, _STATES)
                kernel.send(_HEADER.pack(_HEADER.size + len(request), _BY_FAMILY, _DUMP, 1, 0) + request)
                _read_answer(kernel, found)
    except OSError as error:
        raise NoTraffic from error
    return found


def _read_answer(kernel: socket.socket, found: list[Socket]) -> None:
    while True:
        data = kernel.recv(1 << 16)
        found += parse(data)
        if len(found) > _MAX_SOCKETS:
            raise NoTraffic
        if _ends(data):
            return


def _ends(data: bytes) -> bool:
    """The last message says that it is the last."""
    at, kind = 0, 0
    while at + _HEADER.size <= len(data):
        length, kind, *_ = _HEADER.unpack_from(data, at)
        at += (max(length, _HEADER.size) + 3) & ~3
    return kind == _DONE


class Closed:
    """Hears of sockets as they are closed. What was heard is kept until it is taken; anybody may call `hear`."""

    def __init__(self) -> None:
        """OSError where that is not allowed."""
        self._kernel = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, _SOCK_DIAG
        )
        try:
            self._make_room()
            self._kernel.bind((0, _GROUPS))
        except OSError:
            self._kernel.close()
            raise
        self._heard: deque[bytes] = deque(maxlen=_MAX_CLOSED)

    def _make_room(self) -> None:
        try:
            self._kernel.setsockopt(socket.SOL_SOCKET, _FORCE_BUFFER, _BUFFER)
        except OSError:  # for root alone
            self._kernel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)

    @property
    def fd(self) -> int:
        return self._kernel.fileno()

    def hear(self) -> None:
        for _ in range(_BATCH_SIZE):
            try:
                self._heard.append(self._kernel.recv(1 << 16))
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:  # there were more than fit
                    return

    def take(self, most: int) -> Iterator[Socket]:
        for _ in range(most):
            try:
                data = self._heard.popleft()
            except IndexError:
                return
            with suppress(NoTraffic, struct.error):
                yield from parse(data)

    def close(self) -> None:
        self._kernel.close()


class Files(NamedTuple):
    owners: Mapping[int, str]  # the number of a socket's file -> whose it is
    unknown: Collection[str]  # owners that could not be looked through


@dataclass(slots=True)
class _Known:
    owner: str  # empty: no task's
    flow: Flow


class Traffic:
    """Adds up what went through the sockets of each task."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}
        self._totals: dict[str, Flow] = {}

    def look(self, owners: Collection[str], groups: Mapping[int, str], find: Callable[[], Files]) -> Collection[str]:
        """`owners`: all tasks that run, for whose a socket is not is found out but once. `groups`: whose a group is.
        `find` looks whose descriptors lead where, after the sockets were read. Answers those of whom not all is
        known."""
        sockets = read_sockets()
        self._welcome(owners)
        strange = [each for each in sockets if each.cookie not in self._known and each.group not in groups]
        files = Files({}, ())
        if len(groups) < len(owners) and any(each.file for each in strange):
            files = find()
        for each in sockets:
            owner = groups.get(each.group) or files.owners.get(each.file, "")
            known = self._known.get(each.cookie)
            if known is None and not owner and files.unknown:
                continue
            if known is None or (owner and not known.owner):  # its task may not have been known before
                self._known[each.cookie] = _Known(owner, Flow())
            self._count(each)
        self._forget({each.cookie for each in sockets}, owners)
        return files.unknown

    def _welcome(self, owners: Collection[str]) -> None:
        for gone in set(self._totals).difference(owners):
            self.drop(gone)
        for owner in owners:
            self._totals.setdefault(owner, Flow())

    def _forget(self, still: Collection[int], owners: Collection[str]) -> None:
        """Sockets that are gone and were no task's, or of one that has ended. Of others the kernel will tell more."""
        gone = [cookie for cookie, known in self._known.items() if cookie not in still and known.owner not in owners]
        for cookie in gone:
            del self._known[cookie]

    def count_closed(self, closed: Iterable[Socket]) -> None:
        for each in closed:
            if each.cookie in self._known:
                self._count(each)
                del self._known[each.cookie]

    def _count(self, each: Socket) -> None:
        known = self._known[each.cookie]
        total = self._totals.get(known.owner)
        if total is not None:
            received, sent = total
            more = Flow(max(0, each.flow.received - known.flow.received), max(0, each.flow.sent - known.flow.sent))
            self._totals[known.owner] = Flow(received + more.received, sent + more.sent)
        known.flow = each.flow

    def of(self, owner: str) -> Flow | None:
        """None: nobody has looked."""
        return self._totals.get(owner)

    def drop(self, owner: str) -> None:
        """It has ended. From any thread."""
        self._totals.pop(owner, None)

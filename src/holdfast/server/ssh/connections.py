"""Open SSH connections: how many there may be, and which of them have not logged in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Protocol

from holdfast.services import Services
from holdfast.services.inside.service import BetweenTasksLimit, limit_open

from .ports import is_loopback, neighbourhood

MAX_UNKNOWN = 300  # connections that have not logged in
MAX_UNKNOWN_FROM_ONE = 128  # address; all of this machine's loopback is one
MAX_TOTAL = 2000
SPARE = 20  # connections that one user may have besides one for each session


class Connection(Protocol):
    address: str

    def send_away(self, why: str) -> None: ...
    def drop(self) -> None: ...


class Connections:
    def __init__(self, services: Services) -> None:
        self._engine = services.place.engine
        most = services.settings.ssh.sessions_per_user + SPARE
        self.of_users = limit_open("SSH connections", most, MAX_TOTAL)
        self.between_tasks = BetweenTasksLimit("SSH connections between tasks", most, MAX_TOTAL // 2)
        self._open: set[Connection] = set()
        self._unknown: dict[Connection, str] = {}  # -> where from; the oldest first
        self._addresses: Counter[str] = Counter()  # of those

    def __len__(self) -> int:
        return len(self._open)

    def send_all_away(self, why: str) -> None:
        for connection in list(self._open):
            connection.send_away(why)

    def welcome(self, connection: Connection) -> Callable[[], None] | None:
        """Somebody connected: what to do when they leave; None when they may not stay. Where too many have not logged
        in, the one who has had most time for it makes room: who only waits keeps nobody out."""
        address = neighbourhood(connection.address)
        if self._addresses[address] >= MAX_UNKNOWN_FROM_ONE:
            self._drop_oldest(address)
        elif len(self._unknown) >= MAX_UNKNOWN:
            self._drop_oldest(self._addresses.most_common(1)[0][0])
        if len(self._open) >= MAX_TOTAL:
            return None
        self._open.add(connection)
        self._unknown[connection] = address
        self._addresses[address] += 1
        return lambda: self._left(connection)

    def _drop_oldest(self, address: str) -> None:
        oldest = next(connection for connection, where in self._unknown.items() if where == address)
        self._left(oldest)
        oldest.drop()

    def known(self, connection: Connection) -> None:
        """They have logged in."""
        address = self._unknown.pop(connection, None)
        if address is not None:
            self._addresses[address] -= 1
            if not self._addresses[address]:
                del self._addresses[address]

    def _left(self, connection: Connection) -> None:
        self.known(connection)
        self._open.discard(connection)

    def addresses(self) -> Iterator[str]:
        """By which tasks are reached, as they share the machine's."""
        for node in self._engine.nodes():
            yield node.name
            yield node.address

    def is_of_tasks(self, address: str) -> bool:
        """Whether tasks come from there: this machine, and others that run them."""
        return is_loopback(address) or address in (node.address for node in self._engine.nodes())

"""Open SSH connections: their limits, and which have not logged in yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Protocol

from holdfast.core.messages import msg
from holdfast.services import Services
from holdfast.services.inside.service import IntraJobLimiter, build_connection_limiter

from .ports import get_peer_network, is_loopback

MAX_UNAUTHENTICATED = 300  # connections that have not logged in
MAX_UNAUTHENTICATED_PER_ADDRESS = 128  # per address; all loopback addresses count as one
MAX_CONNECTIONS = 2000
SPARE_CONNECTIONS = 20  # connections of one user in addition to one per session


class Connection(Protocol):
    address: str

    def disconnect_client(self, why: str) -> None: ...
    def abort_connection(self) -> None: ...


class ConnectionRegistry:
    def __init__(self, services: Services) -> None:
        self._engine = services.installation.engine
        most = services.settings.ssh.sessions_per_user + SPARE_CONNECTIONS
        self.user_limiter = build_connection_limiter(msg("SSH connections"), most, MAX_CONNECTIONS)
        self.intra_job_limiter = IntraJobLimiter(msg("SSH connections between tasks"), most, MAX_CONNECTIONS // 2)
        self._open: set[Connection] = set()
        self._unauthenticated: dict[Connection, str] = {}  # -> address; the oldest first
        self._unauthenticated_counts: Counter[str] = Counter()  # per address

    def __len__(self) -> int:
        return len(self._open)

    def disconnect_all(self, why: str) -> None:
        for connection in list(self._open):
            connection.disconnect_client(why)

    def add_connection(self, connection: Connection) -> Callable[[], None] | None:
        """Add a connection. Return a function to call when it closes; None when it is rejected. With too many before
        login, the oldest one is closed, so that idle clients block no others."""
        address = get_peer_network(connection.address)
        if self._unauthenticated_counts[address] >= MAX_UNAUTHENTICATED_PER_ADDRESS:
            self._drop_oldest(address)
        elif len(self._unauthenticated) >= MAX_UNAUTHENTICATED:
            self._drop_oldest(self._unauthenticated_counts.most_common(1)[0][0])
        if len(self._open) >= MAX_CONNECTIONS:
            return None
        self._open.add(connection)
        self._unauthenticated[connection] = address
        self._unauthenticated_counts[address] += 1
        return lambda: self._remove_connection(connection)

    def _drop_oldest(self, address: str) -> None:
        oldest = next(connection for connection, where in self._unauthenticated.items() if where == address)
        self._remove_connection(oldest)
        oldest.abort_connection()

    def mark_logged_in(self, connection: Connection) -> None:
        address = self._unauthenticated.pop(connection, None)
        if address is not None:
            self._unauthenticated_counts[address] -= 1
            if not self._unauthenticated_counts[address]:
                del self._unauthenticated_counts[address]

    def _remove_connection(self, connection: Connection) -> None:
        self.mark_logged_in(connection)
        self._open.discard(connection)

    def iter_node_addresses(self) -> Iterator[str]:
        """Addresses of the nodes, which tasks share."""
        for node in self._engine.list_nodes():
            yield node.name
            yield node.address

    def is_node_address(self, address: str) -> bool:
        """Return whether tasks connect from this address: this machine or another node."""
        return is_loopback(address) or address in (node.address for node in self._engine.list_nodes())

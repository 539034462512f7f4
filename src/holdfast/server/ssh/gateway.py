"""Takes SSH clients in. Strangers can neither fill the memory nor keep others waiting: few may be unknown at one
time, and not for long."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import asyncssh

from holdfast.services import Services
from holdfast.services.inside.service import Places, PlacesBetween, once

from .ports import is_loopback, neighbourhood
from .visitor import Visitor

LOGIN_TIME = 30.0  # seconds that somebody has to log in
ALIVE_EVERY = 60.0  # seconds after which a silent client is asked whether it is there
MOST_SILENT = 10  # such questions without an answer
MOST_UNKNOWN = 300  # connections that have not logged in
MOST_UNKNOWN_FROM_ONE = 128  # address; all of this machine's loopback is one
MOST_IN_ALL = 2000
SPARE = 20  # connections that one user may have besides one for each session
FAREWELL = 2.0  # seconds that clients get to hear that the server stops

KEY_EXCHANGES = (
    "mlkem768x25519-sha256",
    "curve25519-sha256",
    "curve25519-sha256@libssh.org",
    "ecdh-sha2-nistp256",
    "ecdh-sha2-nistp384",
    "ecdh-sha2-nistp521",
)
# Not ChaCha20, which OpenSSH would choose: here it is half as fast.
CIPHERS = ("aes256-gcm@openssh.com", "aes128-gcm@openssh.com", "aes256-ctr", "aes192-ctr", "aes128-ctr")
MACS = ("hmac-sha2-256-etm@openssh.com", "hmac-sha2-512-etm@openssh.com", "hmac-sha2-256", "hmac-sha2-512")
SIGNATURES = (
    "ssh-ed25519",
    "sk-ssh-ed25519@openssh.com",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "rsa-sha2-256",
    "rsa-sha2-512",
)


class Gateway:
    def __init__(self, services: Services) -> None:
        self.services = services
        most = services.settings.ssh.sessions_per_user + SPARE
        self.places = Places("SSH connections", most, MOST_IN_ALL)
        self.places_between = PlacesBetween("SSH connections between tasks", most, MOST_IN_ALL // 2)
        self._visitors: set[Visitor] = set()
        self._unknown: dict[Visitor, str] = {}  # -> where from; the oldest first
        self._addresses: Counter[str] = Counter()  # of those
        self._acceptors: list[asyncssh.SSHAcceptor] = []

    # -- open and shut

    async def serve(self, listeners: Sequence[socket.socket]) -> None:
        """Take clients in who come there, until `close`."""
        asyncssh.set_log_level(logging.WARNING)  # below, it writes down what people do
        for listener in listeners:
            self._acceptors.append(await self._serve(listener))

    async def _serve(self, listener: socket.socket) -> asyncssh.SSHAcceptor:
        pair = self.services.ssh_gate.pair()
        return await asyncssh.listen(
            sock=listener,
            server_factory=lambda: Visitor(self),
            server_host_keys=[asyncssh.import_private_key(pair.private)],
            server_version="Holdfast",
            config=None,
            gss_host=None,
            encoding=None,
            line_editor=False,
            agent_forwarding=False,
            x11_forwarding=False,
            host_based_auth=False,
            compression_algs=None,
            kex_algs=KEY_EXCHANGES,
            encryption_algs=CIPHERS,
            mac_algs=MACS,
            signature_algs=SIGNATURES,
            utf8_decode_errors="replace",
            login_timeout=LOGIN_TIME,
            keepalive_interval=ALIVE_EVERY,
            keepalive_count_max=MOST_SILENT,
        )

    async def close(self) -> None:
        for acceptor in self._acceptors:
            acceptor.close()
        for visitor in list(self._visitors):
            visitor.send_away("The server stops; tasks run on")
        waited = 0.0
        while self._visitors and waited < FAREWELL:
            await asyncio.sleep(0.02)
            waited += 0.02

    # -- who is here

    def welcome(self, visitor: Visitor) -> Callable[[], None] | None:
        """Somebody connected: what to do when they leave; None when they may not stay. Where too many have not logged
        in, the one who has had most time for it makes room: who only waits keeps nobody out."""
        address = neighbourhood(visitor.address)
        if self._addresses[address] >= MOST_UNKNOWN_FROM_ONE:
            self._drop_oldest(address)
        elif len(self._unknown) >= MOST_UNKNOWN:
            self._drop_oldest(self._addresses.most_common(1)[0][0])
        if len(self._visitors) >= MOST_IN_ALL:
            return None
        self._visitors.add(visitor)
        self._unknown[visitor] = address
        self._addresses[address] += 1
        return once(lambda: self._left(visitor))

    def _drop_oldest(self, address: str) -> None:
        oldest = next(visitor for visitor, where in self._unknown.items() if where == address)
        self._left(oldest)
        oldest.drop()

    def known(self, visitor: Visitor) -> None:
        """They have logged in."""
        address = self._unknown.pop(visitor, None)
        if address is not None:
            self._addresses[address] -= 1
            if not self._addresses[address]:
                del self._addresses[address]

    def _left(self, visitor: Visitor) -> None:
        self.known(visitor)
        self._visitors.discard(visitor)

    def addresses(self) -> Iterator[str]:
        """By which tasks are reached, as they share the machine's."""
        for node in self.services.place.engine.nodes():
            yield node.name
            yield node.address

    def is_of_tasks(self, address: str) -> bool:
        """Whether tasks come from there: this machine, and others that run them."""
        return is_loopback(address) or address in (node.address for node in self.services.place.engine.nodes())

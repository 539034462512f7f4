"""Accepts SSH clients. Clients before login can neither fill the memory nor block others: their number and time are
limited."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Sequence

import asyncssh

from holdfast.services import Services

from .connection import SshConnection
from .connections import ConnectionRegistry

LOGIN_TIMEOUT = 30.0  # seconds for the login
KEEPALIVE_INTERVAL = 60.0  # seconds without data before a keepalive request
MAX_UNANSWERED_KEEPALIVES = 10  # keepalive requests without a response
DISCONNECT_TIMEOUT = 2.0  # seconds to send the disconnect message

KEY_EXCHANGE_ALGORITHMS = (
    "mlkem768x25519-sha256",
    "curve25519-sha256",
    "curve25519-sha256@libssh.org",
    "ecdh-sha2-nistp256",
    "ecdh-sha2-nistp384",
    "ecdh-sha2-nistp521",
)
# Without ChaCha20, OpenSSH's default: it is half as fast here.
CIPHERS = ("aes256-gcm@openssh.com", "aes128-gcm@openssh.com", "aes256-ctr", "aes192-ctr", "aes128-ctr")
MAC_ALGORITHMS = ("hmac-sha2-256-etm@openssh.com", "hmac-sha2-512-etm@openssh.com", "hmac-sha2-256", "hmac-sha2-512")
SIGNATURE_ALGORITHMS = (
    "ssh-ed25519",
    "sk-ssh-ed25519@openssh.com",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "rsa-sha2-256",
    "rsa-sha2-512",
)


class GatewayServer:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._connections = ConnectionRegistry(services)
        self._acceptors: list[asyncssh.SSHAcceptor] = []

    # -- start and stop

    async def serve_listeners(self, listeners: Sequence[socket.socket]) -> None:
        """Accept clients on these sockets until `close`."""
        asyncssh.set_log_level(logging.WARNING)  # the library logs every action of users at lower levels
        for listener in listeners:
            self._acceptors.append(await self._serve_listener(listener))

    async def _serve_listener(self, listener: socket.socket) -> asyncssh.SSHAcceptor:
        pair = self._services.ssh_gateway.derive_host_key()
        return await asyncssh.listen(
            sock=listener,
            server_factory=lambda: SshConnection(self._services, self._connections),
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
            kex_algs=KEY_EXCHANGE_ALGORITHMS,
            encryption_algs=CIPHERS,
            mac_algs=MAC_ALGORITHMS,
            signature_algs=SIGNATURE_ALGORITHMS,
            utf8_decode_errors="replace",
            login_timeout=LOGIN_TIMEOUT,
            keepalive_interval=KEEPALIVE_INTERVAL,
            keepalive_count_max=MAX_UNANSWERED_KEEPALIVES,
        )

    async def close(self) -> None:
        for acceptor in self._acceptors:
            acceptor.close()
        self._connections.disconnect_all("The server is stopping; tasks keep running")
        waited = 0.0
        while len(self._connections) and waited < DISCONNECT_TIMEOUT:
            await asyncio.sleep(0.02)
            waited += 0.02

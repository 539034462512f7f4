"""Takes SSH clients in. Strangers can neither fill the memory nor keep others waiting: few may be unknown at one
time, and not for long."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Sequence

import asyncssh

from holdfast.services import Services

from .connection import SshConnection
from .connections import Connections

LOGIN_TIME = 30.0  # seconds that somebody has to log in
ALIVE_INTERVAL = 60.0  # seconds after which a silent client is asked whether it is there
MAX_SILENT = 10  # such questions without an answer
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
        self._services = services
        self._connections = Connections(services)
        self._acceptors: list[asyncssh.SSHAcceptor] = []

    # -- open and shut

    async def serve(self, listeners: Sequence[socket.socket]) -> None:
        """Take clients in who come there, until `close`."""
        asyncssh.set_log_level(logging.WARNING)  # below, it writes down what people do
        for listener in listeners:
            self._acceptors.append(await self._serve(listener))

    async def _serve(self, listener: socket.socket) -> asyncssh.SSHAcceptor:
        pair = self._services.ssh_gate.pair()
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
            kex_algs=KEY_EXCHANGES,
            encryption_algs=CIPHERS,
            mac_algs=MACS,
            signature_algs=SIGNATURES,
            utf8_decode_errors="replace",
            login_timeout=LOGIN_TIME,
            keepalive_interval=ALIVE_INTERVAL,
            keepalive_count_max=MAX_SILENT,
        )

    async def close(self) -> None:
        for acceptor in self._acceptors:
            acceptor.close()
        self._connections.send_all_away("The server stops; tasks run on")
        waited = 0.0
        while len(self._connections) and waited < FAREWELL:
            await asyncio.sleep(0.02)
            waited += 0.02

"""State of the SSH gateway, and the SSH commands that connect to tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from shlex import quote

from holdfast.launching.keys import KeyPair, make_job_key_pair
from holdfast.settings_sections import SshSettings

from .service import ExecTarget

SSH_PORT = 22
HOST_KEY_PURPOSE = b"ssh-host-key"  # purpose of the derived seed


@dataclass(frozen=True, slots=True)
class SshCommand:
    task: str
    command: str  # complete, quoted for a shell
    user: str
    host: str
    port: int
    held: bool


@dataclass(slots=True)
class SshGateway:
    """Set by the server that opens the gateway."""

    settings: SshSettings
    derive: Callable[[bytes], bytes] | None = None
    reserved_ports: frozenset[int] = frozenset()  # of the server; clients cannot forward them
    port: int | None = None  # None: not listening
    host_key: str = ""  # public key, one line; loaded on first use
    trouble: str = ""  # why it could not start: a sentence
    settled: asyncio.Event = field(default_factory=asyncio.Event)  # it has started or failed to

    @property
    def is_open(self) -> bool:
        return self.port is not None

    def derive_host_key(self) -> KeyPair:
        """Derive the host key, which is the same at every start. The first call blocks briefly."""
        assert self.derive is not None
        return make_job_key_pair(self.derive(HOST_KEY_PURPOSE))

    async def load_host_key(self) -> str:
        """Return the host key, derived on first use to keep startup fast."""
        if not self.host_key and self.derive is not None:
            pair = await asyncio.to_thread(self.derive_host_key)
            self.host_key = " ".join(pair.public.split(" ")[:2])
        return self.host_key

    def resolve_host(self, reached_by: str) -> str:
        """Return the public host, or the name by which the client reached this server."""
        return self.settings.public_host or reached_by

    @property
    def public_port(self) -> int:
        return self.settings.public_port or self.port or self.settings.port

    def build_command(self, entrance: ExecTarget, reached_by: str) -> SshCommand:
        user, host, port = f"{entrance.job.id}.{entrance.task}", self.resolve_host(reached_by), self.public_port
        words = ["ssh", *([] if port == SSH_PORT else ["-p", str(port)]), quote(f"{user}@{host}")]
        return SshCommand(entrance.task, " ".join(words), user, host, port, entrance.held)

"""Where the SSH gateway stands, and the lines by which people come in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from shlex import quote

from holdfast.launching.keys import Pair, job_pair
from holdfast.settings import SshSettings

from .service import Entrance

SSH_PORT = 22
HOST_KEY = b"ssh-host-key"  # what the seed of the host key is derived for


@dataclass(frozen=True, slots=True)
class SshLine:
    task: str
    command: str  # to be typed as it is
    user: str
    host: str
    port: int
    held: bool


@dataclass(slots=True)
class SshGateway:
    """Told by whoever opens the gateway."""

    settings: SshSettings
    derive: Callable[[bytes], bytes] | None = None
    reserved_ports: frozenset[int] = frozenset()  # of the server: no client may listen on them through the gateway
    port: int | None = None  # that it listens on; None: it does not
    host_key: str = ""  # its public key, one line; see `find_key`
    trouble: str = ""  # why it does not listen although it should: a sentence
    settled: asyncio.Event = field(default_factory=asyncio.Event)  # it has opened, or cannot

    @property
    def is_open(self) -> bool:
        return self.port is not None

    def pair(self) -> Pair:
        """Its host key: the same at every start. Blocks for a moment, the first time."""
        assert self.derive is not None
        return job_pair(self.derive(HOST_KEY))

    async def find_key(self) -> str:
        """`host_key`, found when it is first asked for: what that takes need not be loaded before."""
        if not self.host_key and self.derive is not None:
            pair = await asyncio.to_thread(self.pair)
            self.host_key = " ".join(pair.public.split(" ")[:2])
        return self.host_key

    def host(self, reached_by: str) -> str:
        """Where people find it, who found us by that name or address."""
        return self.settings.public_host or reached_by

    @property
    def public_port(self) -> int:
        return self.settings.public_port or self.port or self.settings.port

    def line(self, entrance: Entrance, reached_by: str) -> SshLine:
        user, host, port = f"{entrance.job.id}.{entrance.task}", self.host(reached_by), self.public_port
        words = ["ssh", *([] if port == SSH_PORT else ["-p", str(port)]), quote(f"{user}@{host}")]
        return SshLine(entrance.task, " ".join(words), user, host, port, entrance.held)

"""Where tasks find the SSH gateway, which opens a little later than jobs may start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from holdfast.core.messages import msg
from holdfast.launching import Gateway
from holdfast.services.inside.ssh_gateway import SshGateway

TIMEOUT = 10.0  # seconds for it to open

_EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


class GatewayOf:
    """The gateway as tasks of this machine reach it: they share its network."""

    def __init__(self, gate: Callable[[], SshGateway]) -> None:
        self._gate = gate
        self._open: Gateway | None = None

    async def __call__(self) -> Gateway:
        gate = self._gate()
        if not gate.settings.enabled:
            return Gateway(trouble=msg("The SSH gateway is switched off on this server."))
        with suppress(TimeoutError):
            await asyncio.wait_for(gate.settled.wait(), TIMEOUT)
        if gate.port is not None:
            host = _EVERYWHERE.get(gate.settings.host, gate.settings.host)
            self._open = Gateway(host=host, port=gate.port, host_key=await gate.find_key())
        return self._open or Gateway(trouble=gate.trouble or msg("The SSH gateway is not open."))

"""Address of the SSH gateway for tasks; it opens shortly after jobs can start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from holdfast.core.messages import msg
from holdfast.launching import GatewayAddress
from holdfast.services.inside.ssh_gateway import SshGateway

OPEN_TIMEOUT = 10.0  # seconds for it to open

_LOOPBACK_BY_WILDCARD = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


class GatewayAddressProvider:
    """The gateway's address for tasks of this node, which share its network."""

    def __init__(self, gate: Callable[[], SshGateway]) -> None:
        self._get_gateway = gate
        self._address: GatewayAddress | None = None

    async def __call__(self) -> GatewayAddress:
        gate = self._get_gateway()
        if not gate.settings.enabled:
            return GatewayAddress(unavailable_reason=msg("The SSH gateway is disabled on this server."))
        with suppress(TimeoutError):
            await asyncio.wait_for(gate.settled.wait(), OPEN_TIMEOUT)
        if gate.port is not None:
            host = _LOOPBACK_BY_WILDCARD.get(gate.settings.host, gate.settings.host)
            self._address = GatewayAddress(host=host, port=gate.port, host_key=await gate.load_host_key())
        return self._address or GatewayAddress(
            unavailable_reason=gate.trouble or msg("The SSH gateway is not running.")
        )

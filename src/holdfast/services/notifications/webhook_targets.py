"""Which machines webhooks may reach: what users write must not lead the server into places that only it can reach.

Names are looked up here, and the connection goes to the very address that was found to be allowed: a name that stands
for another address a moment later leads nowhere.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from holdfast.core.errors import UserError
from holdfast.core.messages import msg

Ip = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

LOOKUPS = 4  # at a time
LOOKUP_SECONDS = 10.0
# Besides loopback, link-local, unspecified, multicast and reserved ones: where clouds tell a machine its secrets.
_NEVER: tuple[Network, ...] = tuple(
    ipaddress.ip_network(text) for text in ("0.0.0.0/8", "100.100.100.200/32", "168.63.129.16/32", "fd00:ec2::254/128")
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class NotAllowed(Exception):
    """The address is one that webhooks may not reach."""


class NotFoundByName(Exception):
    """The name stands for no address just now."""


@dataclass(frozen=True, slots=True)
class Receiver:
    host: str  # as written, for TLS and the Host header
    port: int
    addresses: tuple[str, ...]  # that may be connected to


class Receivers:
    def __init__(self, allow: Iterable[str] = (), refuse: Iterable[str] = ()) -> None:
        self._hosts, self._allowed = _split(allow)
        hosts, self._refused = _split(refuse)
        if hosts:
            raise UserError(
                msg("notifications.refuse: {hosts} is not a network", hosts=repr(min(hosts))),
                field="notifications.refuse",
                hint=msg("Write addresses: 10.0.0.0/8, 192.0.2.7."),
            )
        self._lookups = ThreadPoolExecutor(LOOKUPS, thread_name_prefix="notification-lookup")  # of its own: it may hang

    async def find(self, url: str, *, anywhere: bool = False) -> Receiver:
        """Where to connect for this address. `anywhere`: an admin's, who may reach all that the server can."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        found = await self._look_up(host, port)
        allowed = tuple(ip for ip in found if anywhere or self._allows(host, ipaddress.ip_address(ip)))
        if not allowed:
            raise NotAllowed(msg("{host} is an address that webhooks may not reach here", host=host))
        return Receiver(host, port, allowed)

    def _allows(self, host: str, ip: Ip) -> bool:
        seen = _inner(ip)
        if host.lower() in self._hosts or _within(seen, self._allowed):
            return True
        return not (
            seen.is_loopback
            or str(seen) in _own_addresses()  # services that trust this machine's own connections
            or seen.is_link_local
            or seen.is_unspecified
            or seen.is_multicast
            or seen.is_reserved
            or _within(seen, _NEVER)
            or _within(seen, self._refused)
        )

    async def _look_up(self, host: str, port: int) -> list[str]:
        """An address that is written as one is taken at once, however slow names are found just now."""
        with suppress(ValueError):
            return [str(ipaddress.ip_address(host))]

        def ask() -> list[str]:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            return list(dict.fromkeys(str(row[4][0]).partition("%")[0] for row in rows))

        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                return await asyncio.get_running_loop().run_in_executor(self._lookups, ask)
        except (OSError, UnicodeError, TimeoutError):
            raise NotFoundByName(msg("no address was found for {host}", host=host)) from None


def _inner(ip: Ip) -> Ip:
    """The address that one of version 6 stands for, where it wraps one of version 4."""
    if not isinstance(ip, ipaddress.IPv6Address):
        return ip
    if ip in _NAT64:
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour or ip


def _within(ip: Ip, networks: Iterable[Network]) -> bool:
    return any(ip.version == network.version and ip in network for network in networks)


def _own_addresses() -> set[str]:
    """Of all this machine's interfaces."""
    import psutil

    return {each.address.partition("%")[0] for found in psutil.net_if_addrs().values() for each in found}


def _split(written: Iterable[str]) -> tuple[frozenset[str], tuple[Network, ...]]:
    """Names, and networks."""
    hosts, networks = set(), []
    for text in written:
        try:
            networks.append(ipaddress.ip_network(text.strip(), strict=False))
        except ValueError:
            hosts.add(text.strip().lower())
    return frozenset(hosts), tuple(networks)

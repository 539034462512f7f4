"""The hosts that webhooks can reach: users must not make the server connect to internal addresses (SSRF).

Names are resolved here, and the connection uses the address that was checked, so that a later DNS change has no
effect.
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

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

MAX_CONCURRENT_LOOKUPS = 4
LOOKUP_TIMEOUT = 10.0  # seconds
# In addition to loopback, link-local, unspecified, multicast and reserved ones: metadata services of clouds.
_BLOCKED_NETWORKS: tuple[IpNetwork, ...] = tuple(
    ipaddress.ip_network(text) for text in ("0.0.0.0/8", "100.100.100.200/32", "168.63.129.16/32", "fd00:ec2::254/128")
)
_NAT64_NETWORK = ipaddress.ip_network("64:ff9b::/96")


class WebhookHostNotAllowed(Exception):
    """Webhooks to this address are not allowed."""


class HostNotResolved(Exception):
    """The host name cannot be resolved."""


@dataclass(frozen=True, slots=True)
class WebhookHost:
    host: str  # as written, for TLS and the Host header
    port: int
    addresses: tuple[str, ...]  # that are allowed


class WebhookHostResolver:
    def __init__(self, allow: Iterable[str] = (), refuse: Iterable[str] = ()) -> None:
        self._allowed_hosts, self._allowed_networks = _split_hosts_and_networks(allow)
        hosts, self._refused_networks = _split_hosts_and_networks(refuse)
        if hosts:
            raise UserError(
                msg("notifications.refuse: {hosts} is not a network", hosts=repr(min(hosts))),
                field="notifications.refuse",
                hint=msg("Use networks or addresses, such as 10.0.0.0/8 or 192.0.2.7."),
            )
        self._lookup_pool = ThreadPoolExecutor(
            MAX_CONCURRENT_LOOKUPS, thread_name_prefix="notification-lookup"
        )  # separate: it may hang

    async def resolve_webhook_host(self, url: str, *, anywhere: bool = False) -> WebhookHost:
        """Resolve the receiver of this URL. `anywhere`: for admins, who can use all addresses."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        found = await self._resolve_host(host, port)
        allowed = tuple(ip for ip in found if anywhere or self._is_allowed(host, ipaddress.ip_address(ip)))
        if not allowed:
            raise WebhookHostNotAllowed(msg("webhooks to {host} are not allowed on this server", host=host))
        return WebhookHost(host, port, allowed)

    def _is_allowed(self, host: str, ip: IpAddress) -> bool:
        seen = _unwrap_ip(ip)
        if host.lower() in self._allowed_hosts or _is_in_networks(seen, self._allowed_networks):
            return True
        return not (
            seen.is_loopback
            or str(seen) in _get_own_addresses()  # services that trust local connections
            or seen.is_link_local
            or seen.is_unspecified
            or seen.is_multicast
            or seen.is_reserved
            or _is_in_networks(seen, _BLOCKED_NETWORKS)
            or _is_in_networks(seen, self._refused_networks)
        )

    async def _resolve_host(self, host: str, port: int) -> list[str]:
        """Return the IP addresses of a host; a literal IP address needs no lookup."""
        with suppress(ValueError):
            return [str(ipaddress.ip_address(host))]

        def query_dns() -> list[str]:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            return list(dict.fromkeys(str(row[4][0]).partition("%")[0] for row in rows))

        try:
            async with asyncio.timeout(LOOKUP_TIMEOUT):
                return await asyncio.get_running_loop().run_in_executor(self._lookup_pool, query_dns)
        except (OSError, UnicodeError, TimeoutError):
            raise HostNotResolved(msg("could not resolve {host}", host=host)) from None


def _unwrap_ip(ip: IpAddress) -> IpAddress:
    """Return the IPv4 address that an IPv6 address embeds, or the address itself."""
    if not isinstance(ip, ipaddress.IPv6Address):
        return ip
    if ip in _NAT64_NETWORK:
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour or ip


def _is_in_networks(ip: IpAddress, networks: Iterable[IpNetwork]) -> bool:
    return any(ip.version == network.version and ip in network for network in networks)


def _get_own_addresses() -> set[str]:
    """Return the addresses of all local interfaces."""
    import psutil

    return {each.address.partition("%")[0] for found in psutil.net_if_addrs().values() for each in found}


def _split_hosts_and_networks(written: Iterable[str]) -> tuple[frozenset[str], tuple[IpNetwork, ...]]:
    hosts, networks = set(), []
    for text in written:
        try:
            networks.append(ipaddress.ip_network(text.strip(), strict=False))
        except ValueError:
            hosts.add(text.strip().lower())
    return frozenset(hosts), tuple(networks)

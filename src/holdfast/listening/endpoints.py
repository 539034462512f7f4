"""Addresses that a service binds.

Jobs share the host's network, so a job could bind an address of the service's port that is left free. Clients that
connect to `localhost` try ::1 as well as 127.0.0.1, and on Debian the host name resolves to 127.0.1.1: these are always
served. A service on all IPv4 addresses also binds [::] without listening, so that IPv6 clients cannot reach a job.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

LOOPBACK_ADDRESSES = ("127.0.0.1", "::1")
HOSTS_FILE = Path("/etc/hosts")
MAX_HOSTS_SIZE = 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address and port of a service."""

    service: str  # http or ssh
    address: str
    port: int
    serves: bool = True  # False: bound without listening, so that no other program can bind it
    required: bool = True  # False: skipped if the machine does not have this address
    dual_stack: bool = False  # an IPv6 socket that also accepts IPv4 connections

    @property
    def family(self) -> socket.AddressFamily:
        return socket.AF_INET6 if ":" in self.address else socket.AF_INET

    @property
    def key(self) -> str:
        """Equal for two endpoints that can share one socket."""
        kind = "serve" if self.serves else "reserve"
        return f"{self.service} {self.address} {self.port} {kind}{' dual' if self.dual_stack else ''}"

    def __str__(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


def list_endpoints(service: str, host: str, port: int) -> list[Endpoint]:
    """Those that only reserve an address come first. Raises OSError if the host name is not found."""
    if host in ("", "::") and _has_ipv6():
        return [Endpoint(service, "::", port, dual_stack=True)]
    if host in ("", "::", "0.0.0.0"):
        return [
            Endpoint(service, "::", port, serves=False, required=False),
            Endpoint(service, "0.0.0.0", port),
            Endpoint(service, "::1", port, required=False),
        ]
    chosen = _resolve_host(host)
    extra = [address for address in (*LOOPBACK_ADDRESSES, *_find_named_loopbacks()) if address not in chosen]
    return [
        *(Endpoint(service, address, port) for address in chosen),
        *(Endpoint(service, address, port, required=False) for address in extra),
    ]


def _resolve_host(host: str) -> list[str]:
    rows = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(row[4][0]) for row in rows))


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::", 0))
    except OSError:
        return False
    return True


def _find_named_loopbacks(hosts_file: Path = HOSTS_FILE) -> list[str]:
    """Return other loopback addresses in the hosts file, such as 127.0.1.1."""
    try:
        with hosts_file.open(errors="replace") as file:
            lines = file.read(MAX_HOSTS_SIZE).splitlines()
    except OSError:
        return []
    return list(dict.fromkeys(_parse_loopbacks(lines)))


def _parse_loopbacks(lines: Iterable[str]) -> Iterable[str]:
    for line in lines:
        words = line.partition("#")[0].split()
        if len(words) < 2:
            continue
        try:
            address = ipaddress.ip_address(words[0])
        except ValueError:
            continue
        if address.is_loopback and str(address) not in LOOPBACK_ADDRESSES:
            yield str(address)

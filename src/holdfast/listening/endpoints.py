"""Which addresses a service binds.

Jobs share the machine's network, so an address of the service's port that is left free can be taken by a job. Clients
that connect to `localhost` try ::1 as well as 127.0.0.1, and on Debian the host's own name is 127.0.1.1: these are
always served. A service on all IPv4 addresses also keeps IPv6 clients from reaching a job, by binding [::] without
listening.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

LOOPBACK = ("127.0.0.1", "::1")
HOSTS_FILE = Path("/etc/hosts")
MAX_HOSTS_SIZE = 1 << 20  # bytes of /etc/hosts that are read


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address and port of a service."""

    service: str  # http or ssh
    address: str
    port: int
    serves: bool = True  # False: bound and never listening, so that no other program can bind it
    required: bool = True  # False: left out where the machine does not have this address
    dual_stack: bool = False  # an IPv6 socket that takes IPv4 connections too

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
    """All addresses to bind for a service on `host`. Those that only reserve an address come first. OSError when the
    name of the host is not found."""
    if host in ("", "::") and _has_ipv6():
        return [Endpoint(service, "::", port, dual_stack=True)]
    if host in ("", "::", "0.0.0.0"):
        return [
            Endpoint(service, "::", port, serves=False, required=False),
            Endpoint(service, "0.0.0.0", port),
            Endpoint(service, "::1", port, required=False),
        ]
    chosen = _resolve(host)
    extra = [address for address in (*LOOPBACK, *_named_loopback()) if address not in chosen]
    return [
        *(Endpoint(service, address, port) for address in chosen),
        *(Endpoint(service, address, port, required=False) for address in extra),
    ]


def _resolve(host: str) -> list[str]:
    rows = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(row[4][0]) for row in rows))


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::", 0))
    except OSError:
        return False
    return True


def _named_loopback(hosts_file: Path = HOSTS_FILE) -> list[str]:
    """Further loopback addresses that names of this machine stand for, such as 127.0.1.1."""
    try:
        with hosts_file.open(errors="replace") as file:
            lines = file.read(MAX_HOSTS_SIZE).splitlines()
    except OSError:
        return []
    return list(dict.fromkeys(_loopback_of(lines)))


def _loopback_of(lines: Iterable[str]) -> Iterable[str]:
    for line in lines:
        words = line.partition("#")[0].split()
        if len(words) < 2:
            continue
        try:
            address = ipaddress.ip_address(words[0])
        except ValueError:
            continue
        if address.is_loopback and str(address) not in LOOPBACK:
            yield str(address)

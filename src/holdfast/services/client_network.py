"""The network of a client, for limits per client."""

from __future__ import annotations

import ipaddress

MAX_INVALID_ADDRESS_LENGTH = 100  # characters of an invalid address
LOOPBACK_NETWORK = ipaddress.ip_network("127.0.0.0/8")


def normalize_address(address: str) -> str:
    """Return the IPv4 address of an IPv4-mapped IPv6 address; any other address unchanged."""
    try:
        mapped = ipaddress.IPv6Address(address).ipv4_mapped
    except ValueError:
        return address
    return address if mapped is None else str(mapped)


def get_client_network(address: str) -> str:
    """Return an IPv4 address itself, and an IPv6 address as its /64, since a client usually has all of it. The IPv4
    loopback is one network: any process on this machine can use all of it."""
    try:
        found = ipaddress.ip_address(normalize_address(address).partition("%")[0])
    except ValueError:
        return address[:MAX_INVALID_ADDRESS_LENGTH]
    if isinstance(found, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((int(found) >> 64 << 64, 64)))
    return str(LOOPBACK_NETWORK if found in LOOPBACK_NETWORK else found)


def get_network_or_loopback(address: str) -> str:
    """Return the client network, with IPv4 and IPv6 loopback as one."""
    try:
        found = ipaddress.ip_address(normalize_address(address).partition("%")[0])
    except ValueError:
        return get_client_network(address)
    return "loopback" if found.is_loopback else get_client_network(address)

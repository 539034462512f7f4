"""The network of a client, as limits count it."""

from __future__ import annotations

import ipaddress

MAX_LENGTH = 100  # characters of an address that is none
LOOPBACK = ipaddress.ip_network("127.0.0.0/8")


def plain_address(address: str) -> str:
    """The IPv4 address that an IPv4-mapped IPv6 address stands for; any other address unchanged."""
    try:
        mapped = ipaddress.IPv6Address(address).ipv4_mapped
    except ValueError:
        return address
    return address if mapped is None else str(mapped)


def client_network(address: str) -> str:
    """An IPv4 address by itself, an IPv6 address as its /64: a client with one IPv6 address has 2**64 of them. The IPv4
    loopback is one network: any process on this machine can use all of it."""
    try:
        found = ipaddress.ip_address(plain_address(address).partition("%")[0])
    except ValueError:
        return address[:MAX_LENGTH]
    if isinstance(found, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((int(found) >> 64 << 64, 64)))
    return str(LOOPBACK if found in LOOPBACK else found)


def client_neighbourhood(address: str) -> str:
    """The same, and all of the loopback as one: every user of this machine has all of its addresses."""
    try:
        found = ipaddress.ip_address(plain_address(address).partition("%")[0])
    except ValueError:
        return client_network(address)
    return "loopback" if found.is_loopback else client_network(address)

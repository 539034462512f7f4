"""A TLS connection that is read and written at the same time, against a server in a thread of its own."""

from __future__ import annotations

import hashlib
import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from holdfast.sdk.tls_socket import TlsSocket
from tests.services.certificates import make_certificate

TIMEOUT = 60.0  # seconds; only ever reached when something is broken
AMOUNT = 24 * 1024 * 1024
PIECE = 40_000


@dataclass
class Pair:
    client: TlsSocket
    server: ssl.SSLSocket


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    certificate, serving = make_certificate(tmp_path_factory.mktemp("certificate"))
    return serving, ssl.create_default_context(cafile=str(certificate))


@pytest.fixture
def pair(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> Iterator[Pair]:
    serving, trusting = contexts
    ours, theirs = socket.socketpair()
    for each in (ours, theirs):
        each.settimeout(TIMEOUT)
    with ThreadPoolExecutor(1) as pool:
        accepting = pool.submit(serving.wrap_socket, theirs, server_side=True)
        connected = trusting.wrap_socket(ours, server_hostname="127.0.0.1")
        server = accepting.result()
    client = TlsSocket(connected)
    try:
        yield Pair(client, server)
    finally:
        client.close()
        server.close()


def pattern(name: bytes) -> bytes:
    return hashlib.sha256(name).digest() * (AMOUNT // 32)


def receive(end: TlsSocket | ssl.SSLSocket, amount: int) -> bytes:
    found = bytearray()
    while len(found) < amount:
        data = end.recv(65536)
        assert data, f"it ended after {len(found)} bytes"
        found += data
    return bytes(found)


def test_what_is_sent_while_it_is_read_arrives(pair: Pair) -> None:
    """The server answers each piece, so that both directions are busy all the time."""
    up, down = pattern(b"up"), pattern(b"down")

    def serve() -> bytes:
        found = bytearray()
        for at in range(0, AMOUNT, PIECE):
            found += receive(pair.server, min(PIECE, AMOUNT - at))
            pair.server.sendall(down[at : at + PIECE])
        return bytes(found)

    def send() -> None:
        for at in range(0, AMOUNT, PIECE):
            pair.client.sendall(up[at : at + PIECE])

    with ThreadPoolExecutor(3) as pool:
        served, sent, received = (pool.submit(serve), pool.submit(send), pool.submit(receive, pair.client, AMOUNT))
        try:
            sent.result(TIMEOUT)
            assert received.result(TIMEOUT) == down
            assert served.result(TIMEOUT) == up
        finally:  # threads that still wait end with it
            pair.client.close()
            pair.server.close()


def test_a_thread_that_reads_is_woken_up_when_it_is_closed(pair: Pair) -> None:
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pair.client.recv(10)), daemon=True)
    reader.start()
    while not pair.client._polling_thread_count:
        assert reader.is_alive()
    pair.client.close()
    reader.join(TIMEOUT)
    assert found == [b""]
    assert pair.client.fileno() == -1
    pair.client.close()
    assert pair.client.recv(10) == b""
    with pytest.raises(OSError, match="Bad file descriptor"):
        pair.client.sendall(b"too late")


def test_the_other_side_may_end_it(pair: Pair) -> None:
    pair.server.sendall(b"last")
    pair.server.close()
    assert receive(pair.client, 4) == b"last"
    assert pair.client.recv(10) == b""


def test_sending_may_have_a_time_limit(pair: Pair) -> None:
    pair.client.settimeout(0.05)
    with pytest.raises(TimeoutError):
        pair.client.sendall(bytes(AMOUNT))  # it is not read

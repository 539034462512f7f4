"""Proof that a connection leads to the server that issued our token, before the token is sent on it.

Over plain HTTP anything may answer at an address: on the server's own machine a job, too. So each new connection begins
with a request that names the token and a random nonce, and holds no secret. The server answers with an HMAC of the
nonce, keyed by the hash of the token that it keeps. What does not know the token cannot answer, and gets nothing.
Addresses with https:// need none of this: there the certificate is the proof.
"""

from __future__ import annotations

import hmac
import json
import os
from hashlib import sha256
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urlencode, urlsplit

from holdfast import __version__

from .address import Address, hint_for
from .errors import ApiError, CannotConnect, UnexpectedReply, UnprovenServer
from .exchange import Reply, api_error

if TYPE_CHECKING:
    import socket

PATH = "/api/v1/identity"
CONTEXT = b"holdfast server proof\0"  # what the HMAC is about
NONCE_SIZE = 32  # bytes
MAX_REPLY_SIZE = 64 * 1024  # bytes
READ_SIZE = 16 * 1024
STOPPED = "server_stopped"  # the code with which a port is answered while its server is down


class ServerProof:
    """One exchange on a new connection. Does no I/O: send `request`, then `feed` what comes until it returns True."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._nonce = os.urandom(NONCE_SIZE).hex()
        token_id, self._secret = _split_token(address.token or "")
        self._received = bytearray()
        parts = urlsplit(address.url)
        target = f"{parts.path}{PATH}?{urlencode({'token': token_id, 'nonce': self._nonce})}"
        lines = [
            f"GET {target} HTTP/1.1",
            f"Host: {parts.netloc}",
            f"User-Agent: holdfast/{__version__}",
            "Accept: application/json",
        ]
        self.request = "\r\n".join([*lines, "", ""]).encode()

    def feed(self, data: bytes) -> bool:
        """True: it is our server, and the connection can be used. Raises a ClientError where it is not, or says so."""
        self._received += data
        if not data:
            raise self.failure("it closed the connection")
        head, end, body = bytes(self._received).partition(b"\r\n\r\n")
        size = _body_size(head) if end else None
        if len(self._received) > MAX_REPLY_SIZE or (end and size is None):
            raise _not_holdfast(self._address.url)
        if size is None or len(body) < size:
            return False
        status, headers = _read_head(head, self._address.url)
        self._check(Reply(status, headers, body), size)
        return True

    def _check(self, reply: Reply, size: int) -> None:
        if reply.status != 200:
            self._refuse(reply)
        if len(reply.body) != size or not hmac.compare_digest(_proof_in(reply.body), self._expected()):
            raise UnprovenServer(self._address.url)
        if reply.headers.get("connection", "").lower() == "close":
            raise UnexpectedReply(
                f"{self._address.url} closes each connection, so your token cannot be sent safely",
                hint="Reach the server by https://, or allow keep-alive connections in the proxy before it.",
            )

    def _refuse(self, reply: Reply) -> NoReturn:
        if reply.status == 404:
            raise _not_holdfast(self._address.url)
        error = api_error(reply)
        if isinstance(error, ApiError) and error.code == STOPPED:
            raise self.failure("the server is stopped")
        raise error

    def _expected(self) -> str:
        key = sha256(self._secret.encode()).hexdigest()  # as the server keeps it
        return hmac.digest(key.encode(), CONTEXT + self._nonce.encode(), "sha256").hex()

    def failure(self, reason: str) -> CannotConnect:
        """Nothing of the caller's own request was sent yet."""
        return CannotConnect(self._address.url, reason, hint=hint_for(self._address))


def needs_proof(address: Address) -> bool:
    return address.token is not None and address.url.startswith("http:")


def prove_socket(connected: socket.socket, address: Address) -> None:
    """Have the server prove itself on a new connection. Raises a ClientError where it does not."""
    if not needs_proof(address):
        return
    proof = ServerProof(address)
    try:
        connected.sendall(proof.request)
        while not proof.feed(connected.recv(READ_SIZE)):
            pass
    except TimeoutError:
        raise proof.failure("it did not answer in time") from None
    except OSError as error:
        raise proof.failure(error.strerror or str(error)) from None


def _split_token(token: str) -> tuple[str, str]:
    """Its id, which is no secret, and its secret."""
    parts = token.split("_", 2)
    if len(parts) != 3 or parts[0] != "hf" or not parts[1] or not parts[2]:
        raise ApiError(
            "This token is not valid",
            code="not_logged_in",
            status=401,
            hint="Log in again with `holdfast login`, or set HOLDFAST_TOKEN.",
        )
    return parts[1], parts[2]


def _read_head(head: bytes, url: str) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdecimal():
        raise _not_holdfast(url)
    headers = (line.partition(":") for line in lines)
    return int(words[1]), {name.strip().lower(): value.strip() for name, _, value in headers}


def _body_size(head: bytes) -> int | None:
    """None where it is not told, or is not what a server of ours would send."""
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit() and len(value) < 10:
            return int(value)
    return None


def _proof_in(body: bytes) -> str:
    try:
        found = json.loads(body)["proof"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return found if isinstance(found, str) and found.isascii() else ""


def _not_holdfast(url: str) -> UnexpectedReply:
    return UnexpectedReply(
        f"What answers at {url} is no Holdfast server of this version. Your token was not sent",
        hint="Check the address, and that client and server have the same version.",
    )

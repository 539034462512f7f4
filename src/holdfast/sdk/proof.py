"""Proof that a connection leads to the server that issued the token, before the token is sent.

Over plain HTTP any process can listen at an address, on the server's machine also a job. So each new connection begins
with a request that contains the token id and a random nonce, but no secret. The server responds with an HMAC of the
nonce, keyed by the stored hash of the token. A process without the token cannot respond, and receives nothing.
Addresses with https:// do not need this: the certificate is the proof.
"""

from __future__ import annotations

import hmac
import json
import os
from hashlib import sha256
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urlencode, urlsplit

from holdfast import __version__

from .address import Address
from .calls import Reply, parse_error
from .errors import ApiError, UnexpectedReply, UnprovenServer

if TYPE_CHECKING:
    import socket

IDENTITY_PATH = "/api/v1/identity"
HMAC_CONTEXT = b"holdfast server proof\0"  # domain separation of the HMAC
NONCE_SIZE = 32  # bytes
MAX_REPLY_SIZE = 64 * 1024  # bytes
READ_SIZE = 16 * 1024  # bytes
SERVER_STOPPED_CODE = "server_stopped"  # error code of the port holder while the server is stopped


class ServerProof:
    """One proof exchange. Does no I/O: send `request`, then `feed` received data until it returns True."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._nonce = os.urandom(NONCE_SIZE).hex()
        token_id, self._secret = _split_token(address.token or "")
        self._received = bytearray()
        parts = urlsplit(address.url)
        target = f"{parts.path}{IDENTITY_PATH}?{urlencode({'token': token_id, 'nonce': self._nonce})}"
        lines = [
            f"GET {target} HTTP/1.1",
            f"Host: {parts.netloc}",
            f"User-Agent: holdfast/{__version__}",
            "Accept: application/json",
        ]
        self.request = "\r\n".join([*lines, "", ""]).encode()

    def feed(self, data: bytes) -> bool:
        """Add received data. True: the server is proven. Raises a ClientError if the proof fails."""
        self._received += data
        if not data:
            raise self._address.build_connection_error("the server closed the connection")
        head, end, body = bytes(self._received).partition(b"\r\n\r\n")
        size = _parse_content_length(head) if end else None
        if len(self._received) > MAX_REPLY_SIZE or (end and size is None):
            raise _build_incompatible_error(self._address.url)
        if size is None or len(body) < size:
            return False
        status, headers = _parse_response_head(head, self._address.url)
        self._check_response(Reply(status, headers, body), size)
        return True

    def _check_response(self, reply: Reply, size: int) -> None:
        if reply.status != 200:
            self._raise_refusal(reply)
        if len(reply.body) != size or not hmac.compare_digest(_parse_proof(reply.body), self._compute_proof()):
            raise UnprovenServer(self._address.url)
        if reply.headers.get("connection", "").lower() == "close":
            raise UnexpectedReply(
                f"{self._address.url} closes every connection, so your token cannot be sent safely",
                hint="Use https://, or enable keep-alive in the proxy.",
            )

    def _raise_refusal(self, reply: Reply) -> NoReturn:
        if reply.status == 404:
            raise _build_incompatible_error(self._address.url)
        error = parse_error(reply)
        if isinstance(error, ApiError) and error.code == SERVER_STOPPED_CODE:
            raise self._address.build_connection_error("the server is stopped")
        raise error

    def _compute_proof(self) -> str:
        key = sha256(self._secret.encode()).hexdigest()  # as stored by the server
        return hmac.digest(key.encode(), HMAC_CONTEXT + self._nonce.encode(), "sha256").hex()


def needs_proof(address: Address) -> bool:
    return address.token is not None and address.url.startswith("http:")


def run_proof_on_socket(connected: socket.socket, address: Address) -> None:
    """Run the proof on a new connection. Raises a ClientError if it fails."""
    if not needs_proof(address):
        return
    proof = ServerProof(address)
    try:
        connected.sendall(proof.request)
        while not proof.feed(connected.recv(READ_SIZE)):
            pass
    except TimeoutError:
        raise address.build_connection_error("no response in time") from None
    except OSError as error:
        raise address.build_connection_error(error.strerror or str(error)) from None


def _split_token(token: str) -> tuple[str, str]:
    """Return the id, which is not secret, and the secret of a token."""
    parts = token.split("_", 2)
    if len(parts) != 3 or parts[0] != "hf" or not parts[1] or not parts[2]:
        raise ApiError(
            "This token is not valid",
            code="not_logged_in",
            status=401,
            hint="Log in again with `holdfast login`, or set HOLDFAST_TOKEN.",
        )
    return parts[1], parts[2]


def _parse_response_head(head: bytes, url: str) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdecimal():
        raise _build_incompatible_error(url)
    headers = (line.partition(":") for line in lines)
    return int(words[1]), {name.strip().lower(): value.strip() for name, _, value in headers}


def _parse_content_length(head: bytes) -> int | None:
    """Return the Content-Length; None if it is missing or invalid."""
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit() and len(value) < 10:
            return int(value)
    return None


def _parse_proof(body: bytes) -> str:
    try:
        found = json.loads(body)["proof"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return found if isinstance(found, str) and found.isascii() else ""


def _build_incompatible_error(url: str) -> UnexpectedReply:
    return UnexpectedReply(
        f"The server at {url} is not a compatible Holdfast server. Your token was not sent",
        hint="Check the address, and that client and server have the same version.",
    )

"""A lean HTTP/1.1 client on one kept connection: some 30 µs a request, so that a measurement is the server's own.

It knows just what our server sends: replies with a length, and chunked streams.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

PIECE = 256 * 1024


class Connection:
    def __init__(self, port: int, token: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=120)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.head = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
        self.rest = b""

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def request(self, method: str, path: str, body: bytes = b"", headers: str = "") -> tuple[int, bytes]:
        status, found = self._send(method, path, body, headers)
        if "chunked" in found.get("transfer-encoding", ""):
            return status, b"".join(self._chunks())
        return status, self._take(int(found.get("content-length", "0")))

    def get(self, path: str, **query: Any) -> Any:
        """JSON; anything but 200 is an error."""
        status, body = self.request("GET", with_query(path, query))
        if status != 200:
            raise RuntimeError(f"GET {path}: {status} {body[:500]!r}")
        return json.loads(body)

    def submit(self, text: str, headers: str = "") -> dict[str, Any]:
        status, body = self.request("POST", "/api/v1/jobs", text.encode(), "Content-Type: text/yaml\r\n" + headers)
        if status != 201:
            raise RuntimeError(f"POST /jobs: {status} {body[:500]!r}")
        return dict(json.loads(body))

    def stream(self, path: str, **query: Any) -> Iterator[bytes]:
        """The pieces of an answer without a length, as they come."""
        status, found = self._send("GET", with_query(path, query), b"", "")
        if status != 200 or "chunked" not in found.get("transfer-encoding", ""):
            raise RuntimeError(f"GET {path}: {status}, not a stream")
        yield from self._chunks()

    def _send(self, method: str, path: str, body: bytes, headers: str) -> tuple[int, dict[str, str]]:
        length = f"Content-Length: {len(body)}\r\n" if body or method != "GET" else ""
        self.socket.sendall(f"{method} {path} HTTP/1.1\r\n{self.head}{headers}{length}\r\n".encode() + body)
        first, *lines = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        found = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        return int(first.split(" ", 2)[1]), found

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self._until(b"\r\n"), 16):
            while size:
                piece = self._some(min(size, PIECE))
                size -= len(piece)
                yield piece
            self._take(2)
        self._take(2)

    def _until(self, mark: bytes) -> bytes:
        while (at := self.rest.find(mark)) < 0:
            self.rest += self._receive(65536)
        found, self.rest = self.rest[:at], self.rest[at + len(mark) :]
        return found

    def _take(self, count: int) -> bytes:
        pieces = []
        while count:
            pieces.append(self._some(count))
            count -= len(pieces[-1])
        return b"".join(pieces)

    def _some(self, most: int) -> bytes:
        if self.rest:
            found, self.rest = self.rest[:most], self.rest[most:]
            return found
        return self._receive(most)

    def _receive(self, most: int) -> bytes:
        piece = self.socket.recv(most)
        if not piece:
            raise ConnectionError("the server closed the connection")
        return piece


def with_query(path: str, query: dict[str, Any]) -> str:
    chosen = {name: value for name, value in query.items() if value is not None}
    return f"/api/v1{path}?{urlencode(chosen)}" if chosen else f"/api/v1{path}"

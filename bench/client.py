"""A small HTTP/1.1 client on one persistent connection. A request costs it about 30 µs, so times are the server's.

It supports only what Holdfast's server sends: responses with a length, and chunked streams.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

MAX_CHUNK_SIZE = 256 * 1024  # bytes


class Connection:
    """A persistent HTTP connection to a server on this machine."""

    def __init__(self, port: int, token: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=120)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.header_lines = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
        self._received = b""

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def request(self, method: str, path: str, body: bytes = b"", headers: str = "") -> tuple[int, bytes]:
        """Return the status and the body of the response."""
        status, response_headers = self._send_request(method, path, body, headers)
        if "chunked" in response_headers.get("transfer-encoding", ""):
            return status, b"".join(self._iter_chunks())
        return status, self._read_exactly(int(response_headers.get("content-length", "0")))

    def get_json(self, path: str, **query: Any) -> Any:
        """Return the JSON of a path of the REST API. Raise RuntimeError unless the status is 200."""
        status, body = self.request("GET", build_path(path, query))
        if status != 200:
            raise RuntimeError(f"GET {path}: {status} {body[:500]!r}")
        return json.loads(body)

    def submit_job(self, text: str, headers: str = "") -> dict[str, Any]:
        status, body = self.request("POST", "/api/v1/jobs", text.encode(), "Content-Type: text/yaml\r\n" + headers)
        if status != 201:
            raise RuntimeError(f"POST /jobs: {status} {body[:500]!r}")
        return dict(json.loads(body))

    def iter_stream(self, path: str, **query: Any) -> Iterator[bytes]:
        """Iterate over the chunks of a chunked response as they arrive."""
        status, response_headers = self._send_request("GET", build_path(path, query), b"", "")
        if status != 200 or "chunked" not in response_headers.get("transfer-encoding", ""):
            raise RuntimeError(f"GET {path}: {status}, not a stream")
        yield from self._iter_chunks()

    def _send_request(self, method: str, path: str, body: bytes, headers: str) -> tuple[int, dict[str, str]]:
        """Send a request. Return the status and the headers of the response; its body is still to be read."""
        length = f"Content-Length: {len(body)}\r\n" if body or method != "GET" else ""
        self.socket.sendall(f"{method} {path} HTTP/1.1\r\n{self.header_lines}{headers}{length}\r\n".encode() + body)
        status_line, *lines = self._read_until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        fields = (line.partition(":") for line in lines)
        return int(status_line.split(" ", 2)[1]), {name.strip().lower(): value.strip() for name, _, value in fields}

    def _iter_chunks(self) -> Iterator[bytes]:
        while size := int(self._read_until(b"\r\n"), 16):
            while size:
                chunk = self._read_available(min(size, MAX_CHUNK_SIZE))
                size -= len(chunk)
                yield chunk
            self._read_exactly(2)
        self._read_exactly(2)

    def _read_until(self, separator: bytes) -> bytes:
        """Return the bytes before the separator, and drop the separator."""
        while (index := self._received.find(separator)) < 0:
            self._received += self._receive(65536)
        head, self._received = self._received[:index], self._received[index + len(separator) :]
        return head

    def _read_exactly(self, count: int) -> bytes:
        chunks = []
        while count:
            chunks.append(self._read_available(count))
            count -= len(chunks[-1])
        return b"".join(chunks)

    def _read_available(self, max_size: int) -> bytes:
        if self._received:
            head, self._received = self._received[:max_size], self._received[max_size:]
            return head
        return self._receive(max_size)

    def _receive(self, max_size: int) -> bytes:
        chunk = self.socket.recv(max_size)
        if not chunk:
            raise ConnectionError("the server closed the connection")
        return chunk


def build_path(path: str, query: dict[str, Any]) -> str:
    """Return the full path of a REST resource with its query. Parameters that are None are left out."""
    parameters = {name: value for name, value in query.items() if value is not None}
    return f"/api/v1{path}?{urlencode(parameters)}" if parameters else f"/api/v1{path}"

"""A small real HTTP server that answers as a test tells it to, and breaks connections where a real one might."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass
class Asked:
    """A request as it arrived."""

    method: str
    path: str
    params: dict[str, str]
    headers: dict[str, str]
    body: bytes


@dataclass
class Say:
    """An answer. `cut`: the connection breaks after the body, before the answer is whole."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False


class Drop:
    """Break the connection without a word, after the request was read."""


class Silence:
    """Say nothing until the client goes away."""


Answer = Say | Drop | Silence
Route = Callable[[Asked], Answer]


def proof_of(secret: str, nonce: str) -> bytes:
    """The body with which a server that knows the token answers."""
    key = hashlib.sha256(secret.encode()).hexdigest().encode()
    return json.dumps({"proof": hmac.digest(key, b"holdfast server proof\0" + nonce.encode(), "sha256").hex()}).encode()


def json_say(data: Any, status: int = 200) -> Say:
    return Say(json.dumps(data).encode(), status, {"Content-Type": "application/json"})


def error_say(code: str, status: int, message: str = "no", **more: Any) -> Say:
    body = {"code": code, "message": message, "field": None, "hint": None, "request_id": "r1", **more}
    return json_say({"error": body}, status)


class ScriptedServer:
    """`on(method, path)` gives answers in turn; the last one goes on for ever."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.proofs = 0  # times that it was asked to prove itself
        self.tokens = {"a": "secret", "of": "the_machine", "b": "mine"}  # id -> secret
        self._routes: dict[tuple[str, str], list[Route]] = {}
        self._lock = threading.Lock()
        self._restart: threading.Thread | None = None
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """On the port it had before, so that it can be restarted."""
        server = self

        class Handler(_Handler):
            scripted = server

        self._http = _Http(("127.0.0.1", self.port), Handler)
        self.port = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        if self._restart is not None and self._restart is not threading.current_thread():
            self._restart.join()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def restart_soon(self) -> None:
        """Go down and come up again on the same port, from a thread of its own: a handler cannot stop its server."""

        def restart() -> None:
            self.stop()
            self.start()

        self._restart = threading.Thread(target=restart)
        self._restart.start()

    def on(self, method: str, path: str, *answers: Answer | Route) -> None:
        routes = [answer if callable(answer) else _always(answer) for answer in answers]
        self._routes[method, "/api/v1" + path] = routes

    def answer(self, asked: Asked) -> Answer:
        with self._lock:
            self.asked.append(asked)
            routes = self._routes.get((asked.method, asked.path))
            if not routes:
                return error_say("not_found", 404, f"{asked.method} {asked.path} is not scripted")
            route = routes.pop(0) if len(routes) > 1 else routes[0]
        return route(asked)


def _always(answer: Answer) -> Route:
    return lambda asked: answer


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True


class _Handler(BaseHTTPRequestHandler):
    scripted: ScriptedServer
    protocol_version = "HTTP/1.1"

    def _handle(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = Asked(self.command, parts.path, dict(parse_qsl(parts.query)), headers, body)
        if parts.path == "/api/v1/identity":
            self.scripted.proofs += 1
            self._say_whole(proof_of(self.scripted.tokens[asked.params["token"]], asked.params["nonce"]))
            return
        answer = self.scripted.answer(asked)
        if isinstance(answer, Say):
            self._say(answer)
        else:
            if isinstance(answer, Silence):
                self.connection.recv(1)  # returns when the other side closes
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle

    def _say_whole(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _say(self, answer: Say) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if answer.body:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(answer.body), answer.body))
        if answer.cut:
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: Any) -> None:
        pass


def a_job(**changes: Any) -> dict[str, Any]:
    job = {
        "id": "job-1",
        "name": "train",
        "user": "ann",
        "group": "default",
        "state": "Running",
        "message": "",
        "submitted_at": "2026-01-31T12:00:00.5Z",
        "started_at": None,
        "finished_at": None,
        "exit_code": None,
        "exit_kind": None,
        "attempt": 0,
        "task_count": 1,
        "resources": {"cpu": 1.0, "memory": 1024, "gpu": 0},
        "priority": 0,
        "dialect": "holdfast",
        "tags": [],
        "rerun_of": None,
        "stopping": False,
    }
    return job | changes


def a_task(**changes: Any) -> dict[str, Any]:
    task = {"task": "main-0", "role": "main", "index": 0, "attempt": 0, "number": 0, "state": "Running"}
    return task | changes

"""Receivers of notifications to try: a web server and a mail server that do as they are told, on real sockets."""

from __future__ import annotations

import json
import socketserver
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TIMEOUT = 60.0  # seconds; a test that needs them has failed


@dataclass(frozen=True)
class Post:
    path: str
    headers: dict[str, str]
    raw: bytes
    status: int  # what it was answered; 0: nothing

    @property
    def body(self) -> Any:
        return json.loads(self.raw)

    @property
    def id(self) -> str:
        return self.headers["Holdfast-Notification"]


@dataclass
class Seen:
    """What came, in order; told to whoever waits for it."""

    items: list[Any] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def add(self, item: Any) -> None:
        with self.changed:
            self.items.append(item)
            self.changed.notify_all()

    def wait(self, enough: Callable[[list[Any]], bool]) -> list[Any]:
        with self.changed:
            assert self.changed.wait_for(lambda: enough(self.items), TIMEOUT), f"only {len(self.items)} came"
            return list(self.items)


class Hook:
    """A web server. `answers` are given in turn, then 200: a status, HANG_UP, or SILENT until `speak` is set."""

    HANG_UP = -1
    SILENT = 0

    def __init__(self, *answers: int, headers: dict[str, str] | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.answers = list(answers)
        self.tls = tls
        self.headers = headers or {}
        self.seen = Seen()
        self.speak = threading.Event()
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None
        self.port = 0
        self.open()

    def open(self) -> None:
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                with hook._lock:
                    status = hook.answers.pop(0) if hook.answers else 200
                hook.seen.add(Post(self.path, dict(self.headers.items()), raw, max(status, 0)))
                if status == Hook.SILENT:
                    hook.speak.wait(TIMEOUT)
                if status > 0:
                    self.send_response(status)
                    for name, value in hook.headers.items():
                        self.send_header(name, value)
                    self.end_headers()
                    with suppress(OSError):
                        self.wfile.write(b"secret words of the receiver")

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False
            request_queue_size = 100

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass

        self._server = Quiet(("127.0.0.1", self.port), Handler)
        if self.tls is not None:
            self._server.socket = self.tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}/hook/abcdefghijklmnop"

    @property
    def posts(self) -> list[Post]:
        return list(self.seen.items)

    @property
    def taken(self) -> list[Post]:
        """What was said to have arrived."""
        return [post for post in self.posts if 200 <= post.status < 300]

    def wait(self, taken: int) -> list[Post]:
        self.seen.wait(lambda posts: sum(200 <= post.status < 300 for post in posts) >= taken)
        return self.taken

    def close(self) -> None:
        self.speak.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


@dataclass(frozen=True)
class Mail:
    sender: str
    to: str
    text: str  # as it came over the wire, dots undone
    encrypted: bool = False


class MailServer:
    """`refusals` are answered to RCPT in turn; then it takes everything. With TLS it takes no mail without, from the
    beginning or from STARTTLS on."""

    def __init__(
        self,
        *refusals: int,
        silent: bool = False,
        tls: ssl.SSLContext | None = None,
        starttls: ssl.SSLContext | None = None,
    ) -> None:
        self.tls = tls
        self.starttls = starttls
        self.refusals = list(refusals)
        self.silent = silent
        self.seen = Seen()
        self.over = threading.Event()
        mails = self

        class Handler(socketserver.StreamRequestHandler):
            encrypted = False

            def encrypt(self, tls: ssl.SSLContext) -> None:
                self.request = tls.wrap_socket(self.request, server_side=True)
                self.encrypted = True
                self.setup()

            def say(self, text: str) -> None:
                self.wfile.write(f"{text}\r\n".encode())

            def handle(self) -> None:
                sender = to = ""
                if mails.tls is not None:
                    self.encrypt(mails.tls)
                self.say("220 here")
                while raw := self.rfile.readline():
                    line = raw.decode().strip()
                    verb = line.split(" ")[0].split(":")[0].upper()
                    if mails.starttls is not None and not self.encrypted and verb != "QUIT":
                        if verb == "STARTTLS":
                            self.say("220 go on")
                            self.encrypt(mails.starttls)
                        else:
                            self.say("250-here\r\n250 STARTTLS" if verb == "EHLO" else "530 STARTTLS first")
                        continue
                    if verb == "MAIL":
                        sender = line.partition("<")[2].partition(">")[0]
                    if verb == "RCPT" and mails.refusals:
                        self.say(f"{mails.refusals.pop(0)} not now")
                        continue
                    if verb == "RCPT":
                        to = line.partition("<")[2].partition(">")[0]
                    if verb == "DATA":
                        self.say("354 go on")
                        text = ""
                        while (part := self.rfile.readline().decode()) != ".\r\n":
                            text += part.removeprefix(".") if part.startswith("..") else part
                        mails.seen.add(Mail(sender, to, text, self.encrypted))
                        if mails.silent:
                            mails.over.wait(TIMEOUT)
                            return
                    self.say("221 bye" if verb == "QUIT" else "250 fine")
                    if verb == "QUIT":
                        return

        class Quiet(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True
            block_on_close = False

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def mails(self) -> list[Mail]:
        return list(self.seen.items)

    def close(self) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()

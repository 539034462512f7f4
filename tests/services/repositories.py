"""Real git repositories, and real servers of them on this machine."""

from __future__ import annotations

import base64
import getpass
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

SSHD = Path("/usr/sbin/sshd")
HAS_SSH = SSHD.exists() and all(shutil.which(program) for program in ("ssh", "ssh-keygen"))
TIMEOUT = 20.0  # seconds; only ever reached when something is broken


class Repository:
    """With a work tree to commit from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")

    @property
    def url(self) -> str:
        return f"file://{self.folder}"

    def git(self, *arguments: str, given: str | None = None) -> str:
        who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        environ = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(
            ["git", *who, *arguments],
            cwd=self.folder,
            env=environ,
            input=given,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def commit(self, **files: str) -> str:
        for name, text in files.items():
            (self.folder / name).write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", "x")
        return self.git("rev-parse", "HEAD")


# -- by http


@dataclass
class HttpGit:
    url: str
    seen: list[str | None] = field(default_factory=list)  # what each request brought to get in
    moved_to: str | None = None  # where it sends everybody
    echo: bool = False  # say back what was brought


@contextmanager
def git_over_http(root: Path, password: str) -> Iterator[HttpGit]:
    """Repositories below a folder, for whoever brings the password."""
    backend = Path(subprocess.check_output(["git", "--exec-path"], text=True).strip()) / "git-http-backend"
    told = HttpGit("")

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            brought = self.headers.get("Authorization")
            told.seen.append(brought)
            if told.moved_to is not None:
                self.send_response(301)
                self.send_header("Location", told.moved_to + self.path)
                self.end_headers()
                return
            decoded = base64.b64decode((brought or "").removeprefix("Basic ")).decode()
            if decoded.rpartition(":")[2] != password:
                self.refuse(decoded)
                return
            self.hand_over(backend)

        do_POST = do_GET

        def refuse(self, decoded: str) -> None:
            self.send_response(403 if told.echo and decoded else 401)
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
            self.send_header("Content-Type", "text/plain")
            self.end_headers()
            if told.echo:
                self.wfile.write(f"not {decoded}\n".encode())

        def hand_over(self, backend: Path) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            environ = {
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": parts.path,
                "QUERY_STRING": parts.query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            }
            said = subprocess.run([backend], env=environ, input=body, capture_output=True, check=False).stdout
            head, _, rest = said.partition(b"\r\n\r\n")
            self.send_response(200)
            for line in head.decode().splitlines():
                name, _, value = line.partition(": ")
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(rest)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        told.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield told
        finally:
            server.shutdown()
            thread.join()


# -- by ssh


@dataclass
class SshGit:
    url: str  # before a repository's path
    key: str  # that lets one in
    other_key: str  # that does not
    host_key: Path
    restart: Any  # with whatever host key is there now


@contextmanager
def git_over_ssh(folder: Path) -> Iterator[SshGit]:
    """An sshd of our own user, for one key."""
    folder.mkdir(mode=0o700)
    for name in ("host", "good", "bad"):
        new_key(folder / name)
    (folder / "authorized").write_text((folder / "good.pub").read_text())
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\n"
        f"StrictModes no\nUsePAM no\nPasswordAuthentication no\nPidFile {folder}/pid\nPermitRootLogin yes\n"
    )
    running: list[subprocess.Popen[bytes]] = []

    def stop() -> None:
        for process in running:
            process.kill()
            process.wait()
        running.clear()

    def start() -> None:
        stop()
        Path("/run/sshd").mkdir(exist_ok=True) if os.geteuid() == 0 else None
        running.append(subprocess.Popen([SSHD, "-D", "-e", "-f", folder / "config"], stderr=subprocess.PIPE))
        for line in running[-1].stderr or ():
            if b"Server listening" in line:
                return
        raise AssertionError("sshd did not start")

    start()
    try:
        keys = ((folder / name).read_text() for name in ("good", "bad"))
        yield SshGit(f"ssh://{getpass.getuser()}@127.0.0.1:{port}", *keys, folder / "host", start)
    finally:
        stop()


def new_key(path: Path) -> None:
    path.unlink(missing_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)

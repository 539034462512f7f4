"""A real nginx or Caddy in front of a real server, by the example configuration in deploy/."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from holdfast.sdk.tls_socket import TlsSocket
from tests.free_ports import reserve_port
from tests.services.certificates import make_certificate

from .server import TIMEOUT, Server

DEPLOY = Path(__file__).parents[2] / "deploy"
PROGRAMS = ("nginx", "caddy")
ADDRESS = "127.0.0.1"  # of the proxy; its certificate is made for it
SYSTEM_PATH = "/usr/sbin:/usr/local/sbin"  # where an ordinary user's PATH does not look


def find_program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}")


class _TlsConnection(ClientConnection):
    def __init__(self, sock: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(TlsSocket(sock), *args, **kwargs)  # type: ignore[arg-type]


class Proxy:
    def __init__(self, folder: Path, program: str) -> None:
        self.folder = folder
        self.program = program
        self.port = reserve_port()
        self.url = f"https://{ADDRESS}:{self.port}"
        self.certificate, _ = make_certificate(folder)
        self.trust = ssl.create_default_context(cafile=str(self.certificate))

    def connect(self, source: str = "127.0.0.2", **headers: str) -> httpx.Client:
        """A client whose connections to the proxy come from `source`."""
        transport = httpx.HTTPTransport(local_address=source, verify=self.trust)
        return httpx.Client(base_url=self.url, transport=transport, headers=headers, timeout=TIMEOUT)

    def open_websocket(self, path: str, origin: str, cookies: str) -> ClientConnection:
        return connect(
            self.url.replace("https:", "wss:") + path,
            ssl=self.trust,
            origin=Origin(origin),
            additional_headers={"Cookie": cookies},
            open_timeout=TIMEOUT,
            create_connection=_TlsConnection,
        )

    @contextmanager
    def running(self, server: Server) -> Iterator[None]:
        argv = self._nginx(server) if self.program == "nginx" else self._caddy(server)
        env = {**os.environ, "HOME": str(self.folder), "XDG_DATA_HOME": str(self.folder)}
        with open(self.folder / "proxy.log", "wb") as log:
            process = subprocess.Popen(argv, stdout=log, stderr=log, env=env, cwd=self.folder)
        try:
            self._wait_ready(process)
            yield
        finally:
            process.terminate()
            process.wait(TIMEOUT)

    def _wait_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not self._answers():
            log = (self.folder / "proxy.log").read_text()
            assert process.poll() is None, log
            assert time.monotonic() < deadline, log
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            with self.connect() as client:
                return client.get("/api/v1/health").is_success
        except httpx.HTTPError:
            return False

    def _nginx(self, server: Server) -> list[str]:
        """The example, with this server's ports and certificate, and nothing of the machine's own configuration."""
        example = (DEPLOY / "nginx/holdfast.conf").read_text()
        for old, new in (
            ("listen 80;", f"listen {ADDRESS}:{reserve_port()};"),
            ("listen [::]:80;", ""),
            ("listen 443 ssl http2;", f"listen {ADDRESS}:{self.port} ssl http2;"),
            ("listen [::]:443 ssl http2;", ""),
            ("holdfast.example.org", ADDRESS),
            ("/etc/ssl/holdfast/fullchain.pem", str(self.certificate)),
            ("/etc/ssl/holdfast/privkey.pem", str(self.folder / "key.pem")),
            ("http://127.0.0.1:8080", server.url),
        ):
            assert old in example, old
            example = example.replace(old, new)
        paths = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        temporary = "".join(f"{name}_temp_path {self.folder / name};\n" for name in paths)
        user = "user root;\n" if os.geteuid() == 0 else ""  # or it may not read the test's folder
        main = f"daemon off;\n{user}pid {self.folder / 'nginx.pid'};\nerror_log stderr;\nevents {{}}\n"
        config = self.folder / "nginx.conf"
        config.write_text(f"{main}http {{\naccess_log off;\n{temporary}{example}}}\n")
        return [str(find_program("nginx")), "-c", str(config), "-p", str(self.folder)]

    def _caddy(self, server: Server) -> list[str]:
        example = (DEPLOY / "caddy/Caddyfile").read_text()
        files = f"{self.certificate} {self.folder / 'key.pem'}"
        for old, new in (
            ("holdfast.example.org {", f"https://{ADDRESS}:{self.port} {{\n\tbind {ADDRESS}"),
            ("# tls /etc/ssl/holdfast/fullchain.pem /etc/ssl/holdfast/privkey.pem", f"tls {files}"),
            ("127.0.0.1:8080", server.url.removeprefix("http://")),
        ):
            assert old in example, old
            example = example.replace(old, new)
        config = self.folder / "Caddyfile"
        config.write_text(f"{{\n\tadmin off\n\tauto_https disable_redirects\n}}\n{example}")
        return [str(find_program("caddy")), "run", "--config", str(config), "--adapter", "caddyfile"]

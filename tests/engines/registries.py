"""Registries for tests: Debian's docker-registry as a process, and one in memory that can misbehave."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.free_ports import reserve_port

from .archives import ARCHITECTURE

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

START_TIMEOUT = 20.0  # seconds
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
DOCKER_MANIFEST_TYPE = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_LIST_TYPE = "application/vnd.docker.distribution.manifest.list.v2+json"
USERNAME, PASSWORD = "alice", "opensesame"
PASSWORD_FILE = "alice:$2y$05$abcdefghijklmnopqrstuuQbLfdQZSxZ9gjhA5V9o8Tyc6aQRO0Qi\n"  # bcrypt


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, 1, mtime=0),
    "zstd": zstd.compress,
    "none": lambda data: data,
}


@dataclass(kw_only=True)
class BuiltImage:
    """An image as a registry stores it."""

    manifest: bytes
    media_type: str
    blobs: dict[str, bytes]
    layers: list[str]  # digests of blobs

    @property
    def digest(self) -> str:
        return digest_of(self.manifest)


def build_image(
    layers: list[bytes], compression: str = "gzip", media_type: str = MANIFEST_TYPE, **settings: Any
) -> BuiltImage:
    """Build an image from uncompressed tars. `architecture`, `os`, `diff_ids` and `sizes` can be wrong on purpose."""
    diff_ids = settings.pop("diff_ids", None) or [digest_of(layer) for layer in layers]
    config = {
        "architecture": settings.pop("architecture", ARCHITECTURE),
        "os": settings.pop("os", "linux"),
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    }
    sizes = settings.pop("sizes", {})
    config["config"] = settings
    content = json.dumps(config).encode()
    packed = [COMPRESS[compression](layer) for layer in layers]
    vendor = "oci.image.layer.v1.tar" if media_type == MANIFEST_TYPE else "docker.image.rootfs.diff.tar"
    manifest = {
        "schemaVersion": 2,
        "mediaType": media_type,
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json"
            if media_type == MANIFEST_TYPE
            else "application/vnd.docker.container.image.v1+json",
            "digest": digest_of(content),
            "size": len(content),
        },
        "layers": [
            {
                "mediaType": f"application/vnd.{vendor}" + ("" if compression == "none" else f"+{compression}")
                if media_type == MANIFEST_TYPE
                else f"application/vnd.{vendor}.gzip",
                "digest": digest_of(data),
                "size": sizes.get(number, len(data)),
            }
            for number, data in enumerate(packed)
        ],
    }
    return BuiltImage(
        manifest=json.dumps(manifest).encode(),
        media_type=media_type,
        blobs={digest_of(data): data for data in [*packed, content]},
        layers=[digest_of(data) for data in packed],
    )


def build_index(entries: Iterable[tuple[BuiltImage, dict[str, str]]], media_type: str = INDEX_TYPE) -> bytes:
    manifests = [
        {"mediaType": image.media_type, "digest": image.digest, "size": len(image.manifest), "platform": platform}
        for image, platform in entries
    ]
    return json.dumps({"schemaVersion": 2, "mediaType": media_type, "manifests": manifests}).encode()


# -- the real one


@dataclass
class RealRegistry:
    host: str
    url: str
    log: Path
    certificate: Path | None = None

    def push_image(self, name: str, image: BuiltImage) -> None:
        repository, _, tag = name.partition(":")
        with self._connect() as client:
            for digest, data in image.blobs.items():
                place = client.post(f"/v2/{repository}/blobs/uploads/").raise_for_status().headers["location"]
                client.put(httpx.URL(place).copy_merge_params({"digest": digest}), content=data).raise_for_status()
            for version in {tag or "latest", image.digest}:
                self._put_manifest(client, f"/v2/{repository}/manifests/{version}", image.manifest, image.media_type)

    def push_index(self, name: str, content: bytes, media_type: str) -> None:
        repository, _, tag = name.partition(":")
        with self._connect() as client:
            self._put_manifest(client, f"/v2/{repository}/manifests/{tag or 'latest'}", content, media_type)

    def _put_manifest(self, client: httpx.Client, path: str, content: bytes, media_type: str) -> None:
        client.put(path, content=content, headers={"Content-Type": media_type}).raise_for_status()

    def _connect(self) -> httpx.Client:
        verify = ssl.create_default_context(cafile=self.certificate) if self.certificate else True
        return httpx.Client(base_url=self.url, auth=(USERNAME, PASSWORD), verify=verify, timeout=30)


@contextmanager
def start_registry(folder: Path, *, tls: bool = False, password: bool = False) -> Iterator[RealRegistry]:
    program = shutil.which("docker-registry")
    if program is None:
        pytest.skip("docker-registry is not installed (Debian package docker-registry)")
    folder.mkdir(parents=True)
    port = reserve_port()
    host, certificate = f"localhost:{port}", folder / "cert.pem"
    http: dict[str, Any] = {"addr": f"127.0.0.1:{port}", "secret": "x"}
    config: dict[str, Any] = {
        "version": 0.1,
        "log": {"level": "error", "accesslog": {"disabled": False}},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
        "http": http,
    }
    if tls:
        make_certificate(certificate, folder / "key.pem")
        http["tls"] = {"certificate": str(certificate), "key": str(folder / "key.pem")}
    if password:
        (folder / "htpasswd").write_text(PASSWORD_FILE)
        config["auth"] = {"htpasswd": {"realm": "test", "path": str(folder / "htpasswd")}}
    (folder / "config.yml").write_text(json.dumps(config))  # YAML is a superset of JSON
    log = folder / "log"
    with open(log, "wb") as output:
        process = subprocess.Popen([program, "serve", str(folder / "config.yml")], stdout=output, stderr=output)
    try:
        wait_for_port(port, process, log)
        url = f"{'https' if tls else 'http'}://{host}"
        yield RealRegistry(host, url, log, certificate if tls else None)
    finally:
        process.terminate()
        process.wait()


def wait_for_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while process.poll() is None and time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise AssertionError(f"docker-registry did not start: {log.read_text()}")


def make_certificate(certificate: Path, key: Path) -> None:
    """A self-signed certificate for localhost."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("openssl is not installed")
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    subprocess.run([program, "req", "-x509", *kind, *files, *subject], check=True, capture_output=True)


# -- the one in memory


@dataclass
class Request:
    method: str
    path: str  # without the query
    query: str
    headers: dict[str, str]  # by lower-case name

    @property
    def start(self) -> int:
        found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("range", ""))
        return int(found[1]) if found else 0


@dataclass
class Reply:
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    stream: AsyncIterator[bytes] | None = None  # instead of the body; the headers are sent as they are


Hook = Callable[[Request], "Reply | Awaitable[Reply | None] | None"]


class FakeRegistry:
    """A registry in memory. A `hook` can answer any request in its place."""

    def __init__(self) -> None:
        self.manifests: dict[tuple[str, str], tuple[str, bytes]] = {}  # repository and version -> type and content
        self.blobs: dict[tuple[str, str], bytes] = {}  # repository and digest -> content
        self.requests: list[Request] = []
        self.sent = 0  # bytes of blobs
        self.hook: Hook = lambda request: None
        self.host = ""
        self._tasks: set[asyncio.Task[None]] = set()

    def add_image(self, name: str, image: BuiltImage) -> None:
        repository, _, tag = name.partition(":")
        for version in (tag or "latest", image.digest):
            self.manifests[repository, version] = image.media_type, image.manifest
        self.blobs.update({(repository, digest): data for digest, data in image.blobs.items()})

    def add_index(self, name: str, content: bytes, media_type: str = INDEX_TYPE) -> None:
        repository, _, tag = name.partition(":")
        self.manifests[repository, tag or "latest"] = media_type, content

    def count(self, method: str, part: str) -> int:
        return sum(1 for request in self.requests if request.method == method and part in request.path)

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[FakeRegistry]:
        server = await asyncio.start_server(self._handle, "127.0.0.1", 0)
        self.host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for task in list(self._tasks):
                task.cancel()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while (first := await reader.readexactly(1)) != b"\x16":  # no TLS here
                await self._answer(_parse_request(first + await reader.readuntil(b"\r\n\r\n")), writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError, asyncio.LimitOverrunError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        self.requests.append(request)
        reply: Any = self.hook(request)
        if asyncio.iscoroutine(reply):
            reply = await reply
        reply = reply or self.reply_normally(request)
        headers = dict(reply.headers)
        if reply.stream is None:
            headers.setdefault("Content-Length", str(len(reply.body)))
        lines = [f"HTTP/1.1 {reply.status} X", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        if request.method == "HEAD":
            await writer.drain()
            return
        if reply.stream is None:
            writer.write(reply.body)
            await writer.drain()
            return
        async for chunk in reply.stream:
            writer.write(chunk)
            await writer.drain()
        writer.close()

    def reply_normally(self, request: Request) -> Reply:
        found = re.fullmatch(r"/v2/(.+)/(manifests|blobs)/([^/]+)", request.path)
        if found is None:
            return Reply(404)
        repository, kind, version = found.groups()
        if kind == "manifests" and (repository, version) in self.manifests:
            media_type, content = self.manifests[repository, version]
            return Reply(200, {"Content-Type": media_type, "Docker-Content-Digest": digest_of(content)}, content)
        if kind == "blobs" and (repository, version) in self.blobs:
            content = self.blobs[repository, version]
            body = content[request.start :]
            self.sent += len(body) if request.method == "GET" else 0
            headers = {"Content-Range": f"bytes {request.start}-{len(content) - 1}/{len(content)}"}
            return Reply(206, headers, body) if request.start else Reply(200, {}, body)
        return Reply(404)


def _parse_request(head: bytes) -> Request:
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    path, _, query = target.partition("?")
    pairs = (line.partition(":") for line in lines if line)
    return Request(method, path, query, {name.lower(): value.strip() for name, _, value in pairs})

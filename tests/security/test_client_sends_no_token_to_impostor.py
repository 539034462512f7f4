"""Something else answers at the server's address. Clients must find out before they send their token."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

from holdfast.sdk import AsyncClient, CannotConnect, Client, ClientError, inside, logs
from holdfast.sdk import plain_client as plain_client
from holdfast.sdk.address import Address, save_login
from holdfast.sdk.httpx_adapter import build_client_options
from holdfast.sdk.inside import open_exec
from holdfast.sdk.plain_client import PlainClient
from tests.e2e.server import TIMEOUT, Server
from tests.preloaded import run_holdfast
from tests.sdk.scripted import ScriptedServer, json_say, proof_of

SECRET = "qv3R9x_theSecretOfTheToken"
TOKEN = f"hf_a234567_{SECRET}"
VERSION = {"name": "holdfast", "version": "7", "api": "v1"}


def _json(status: str, body: object) -> bytes:
    text = json.dumps(body).encode()
    return f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text


ANSWERS = {
    "nothing": b"",
    "garbage": b"SSH-2.0-OpenSSH_9\r\n",
    "an endless head": b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20_000,
    "success to all": _json("200 OK", VERSION),
    "a proof by guess": _json("200 OK", {"proof": "0" * 64}),
    "a proof of another nonce": _json("200 OK", json.loads(proof_of(SECRET, "f" * 64))),
    "a proof that is no text": _json("200 OK", {"proof": None}),
    "no such address": _json("404 Not Found", {"error": {"code": "not_found", "message": "no"}}),
    "log in again": _json("401 Unauthorized", {"error": {"code": "not_logged_in", "message": "Log in"}}),
    "elsewhere": b"HTTP/1.1 302 Found\r\nLocation: /api/v1/identity\r\nContent-Length: 0\r\n\r\n",
    "a server that is stopped": _json("503 No", {"error": {"code": "server_stopped", "message": "stopped"}}),
    "two answers at once": _json("200 OK", {"proof": ""}) * 2,
}


class Impostor:
    """Answers everything in the same way, and keeps all that it is sent."""

    def __init__(self, answer: bytes, port: int = 0) -> None:
        self.heard = b""
        self.connections = 0
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port = int(self._listener.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with connection:
                connection.settimeout(TIMEOUT)
                try:
                    while data := connection.recv(65536):
                        self.heard += data
                        if not self._answer:
                            break
                        connection.sendall(self._answer)
                except OSError:
                    continue

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()


@contextmanager
def impostor(answer: bytes, port: int = 0) -> Iterator[Impostor]:
    found = Impostor(answer, port)
    try:
        yield found
    finally:
        found.stop()


SILENCE = 1.0  # seconds until a client gives up an answer that does not end


def blocking(url: str) -> None:
    with Client(url, TOKEN, timeout=SILENCE) as client:
        client.get_current_user()


def awaiting(url: str) -> None:
    async def go() -> None:
        async with AsyncClient(url, TOKEN, timeout=SILENCE) as client:
            await client.get_current_user()

    asyncio.run(go())


def plain(url: str) -> None:
    with PlainClient(Address(url, TOKEN, "given")) as client:
        client.list_ssh_commands("job-1")


def streaming(url: str) -> None:
    with Client(url, TOKEN, timeout=SILENCE) as client:
        list(client.stream_log("job-1", retry_timeout=0))


def line(url: str) -> None:
    open_exec(Address(url, TOKEN, "given"), "job-1").close()


@pytest.mark.release_after(20)
@pytest.mark.parametrize("kind", ANSWERS)
@pytest.mark.parametrize("use", [blocking, awaiting, plain, streaming, line])
def test_no_client_sends_its_token(use: Callable[[str], None], kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_client, "REQUEST_TIMEOUT", SILENCE)
    monkeypatch.setattr(inside, "OPEN_TIMEOUT", SILENCE)
    monkeypatch.setattr(logs, "IDLE_TIMEOUT", SILENCE)
    with impostor(ANSWERS[kind]) as found, pytest.raises(ClientError):
        use(found.url)
    assert found.connections
    assert b"/api/v1/identity?token=a234567&nonce=" in found.heard
    assert SECRET.encode() not in found.heard
    assert b"authorization" not in found.heard.lower()


def _run(env: dict[str, str], *words: str) -> subprocess.CompletedProcess[bytes]:
    return run_holdfast(words, env=env, timeout=TIMEOUT)


def _env(tmp_path: Path, **more: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("HOLDFAST_")}
    return kept | {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")} | more


@pytest.mark.release_after(2)
@pytest.mark.parametrize("by", ["saved login", "environment"])
@pytest.mark.parametrize("words", [("ls",), ("exec", "job-1", "--", "id"), ("logs", "job-1"), ("ssh", "job-1")])
def test_the_command_line_says_so(tmp_path: Path, by: str, words: tuple[str, ...]) -> None:
    with impostor(ANSWERS["success to all"]) as found:
        env = _env(tmp_path)
        if by == "environment":
            env |= {"HOLDFAST_URL": found.url, "HOLDFAST_TOKEN": TOKEN}
        else:
            save_login(found.url, TOKEN, "ann", None, environ=env)
        ran = _run(env, *words)
    assert ran.returncode == 1
    assert "did not issue your token. The token was not sent" in ran.stderr.decode()
    assert SECRET.encode() not in found.heard


def test_an_impostor_that_comes_later_is_noticed() -> None:
    """The connection to the real server is gone; the client connects anew."""
    real = ScriptedServer()
    real.tokens = {"a234567": SECRET}
    real.on("GET", "/version", json_say(VERSION))
    with Client(real.url, TOKEN) as client:
        assert client.get_version().version == "7"
        assert real.asked[0].headers["authorization"] == f"Bearer {TOKEN}"
        client._http.close()
        client._http = httpx.Client(**build_client_options(client.address, TIMEOUT))
        real.stop()
        with impostor(ANSWERS["success to all"], real.port) as found, pytest.raises(ClientError):
            client.get_version()
    assert SECRET.encode() not in found.heard


def test_one_proof_serves_all_calls_of_a_connection() -> None:
    real = ScriptedServer()
    real.tokens = {"a234567": SECRET}
    real.on("GET", "/version", json_say(VERSION))
    try:
        with Client(real.url, TOKEN) as client:
            for _ in range(3):
                client.get_version()
    finally:
        real.stop()
    assert real.proofs == 1
    assert len(real.asked) == 3


@pytest.mark.release
def test_a_real_server_proves_itself_and_knows_only_its_own_tokens(tmp_path: Path) -> None:
    server = Server(tmp_path / "home")
    server.start()
    try:
        with Client(server.url, server.token) as client:
            assert client.get_current_user().name == "admin"
        with pytest.raises(ClientError, match="is not valid"), Client(server.url, TOKEN) as client:
            client.get_current_user()
        reply = server.get("/identity", token=server.token.split("_")[1], nonce="short")
        assert reply.status_code in (400, 422)
    finally:
        server.stop()


def test_a_stopped_server_is_told_from_an_impostor(tmp_path: Path) -> None:
    with impostor(ANSWERS["a server that is stopped"]) as found, pytest.raises(CannotConnect) as caught:
        blocking(found.url)
    assert "the server is stopped" in caught.value.message
    assert not caught.value.lost


def test_the_challenge_holds_no_secret_and_is_another_each_time() -> None:
    asked = []
    for _ in range(2):
        with impostor(b"") as found, pytest.raises(CannotConnect):
            blocking(found.url)
        query = urlsplit(found.heard.split(b" ")[1].decode()).query
        asked.append(dict(parse_qsl(query)))
    assert asked[0]["token"] == asked[1]["token"] == "a234567"
    assert asked[0]["nonce"] != asked[1]["nonce"]

"""The token a server leaves for its own user is shown to nobody else who listens on its port."""

from __future__ import annotations

import asyncio
import fcntl
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.sdk import AsyncClient, CannotConnect, Client
from holdfast.sdk.address import find_address

from .scripted import ScriptedServer, json_say

TOKEN = "hf_of_the_machine"


class Thief:
    """Listens where the server was, and keeps what it is told."""

    def __init__(self) -> None:
        self.connections = 0
        self.heard = b""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            with connection:
                self.connections += 1
                said = connection.recv(65536)
                if said == b"end":
                    return
                self.heard += said

    def stop(self) -> None:
        with socket.create_connection(self._socket.getsockname()) as last:
            last.sendall(b"end")
        self._thread.join()
        self._socket.close()
        self.connections -= 1


@pytest.fixture
def thief() -> Iterator[Thief]:
    found = Thief()
    yield found
    found.stop()


def left_behind(home: Path, url: str) -> Path:
    """What a server leaves in its state folder."""
    home.mkdir()
    (home / "client.json").write_text(json.dumps({"url": url, "token": TOKEN}))
    (home / "server.lock").touch()
    return home


@contextmanager
def serving(home: Path) -> Iterator[None]:
    with open(home / "server.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def ask(kind: str, home: Path, *, url: str | None = None, token: str | None = None, retry_timeout: float = 0.0) -> str:
    if kind == "blocking":
        with Client(url, token, home=home, retry_timeout=retry_timeout) as client:
            return client.get_version().version

    async def go() -> str:
        async with AsyncClient(url, token, home=home, retry_timeout=retry_timeout) as client:
            return (await client.get_version()).version

    return asyncio.run(go())


both = pytest.mark.parametrize("kind", ["blocking", "asyncio"])


@both
@pytest.mark.parametrize("named", ["found", "same address", "same address and token"])
def test_nothing_is_sent_while_no_server_runs(tmp_path: Path, thief: Thief, kind: str, named: str) -> None:
    home = left_behind(tmp_path / "home", thief.url)
    url = None if named == "found" else thief.url
    token = TOKEN if named.endswith("token") else None
    with pytest.raises(CannotConnect) as caught:
        ask(kind, home, url=url, token=token)
    assert "holdfast up" in (caught.value.hint or "")
    assert not caught.value.lost
    (home / "server.lock").unlink()
    with pytest.raises(CannotConnect):
        ask(kind, home, url=url, token=token)
    assert (thief.connections, thief.heard) == (0, b"")


def test_streams_are_no_way_around_it(tmp_path: Path, thief: Thief) -> None:
    home = left_behind(tmp_path / "home", thief.url)
    with pytest.raises(CannotConnect), Client(home=home) as client:
        list(client.stream_log("job-1"))
    assert (thief.connections, thief.heard) == (0, b"")


@both
def test_a_server_that_holds_its_lock_is_shown_the_token(tmp_path: Path, server: ScriptedServer, kind: str) -> None:
    home = left_behind(tmp_path / "home", server.url)
    server.on("GET", "/version", json_say({"name": "holdfast", "version": "7", "api": "v1"}))
    with serving(home):
        assert ask(kind, home) == "7"
    assert server.asked[0].headers["authorization"] == f"Bearer {TOKEN}"
    with pytest.raises(CannotConnect):
        ask(kind, home)
    assert len(server.asked) == 1


@both
def test_the_patient_wait_for_the_lock_to_be_held(
    tmp_path: Path, server: ScriptedServer, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each try looks anew: here the server starts after the second look."""
    home = left_behind(tmp_path / "home", server.url)
    server.on("GET", "/version", json_say({"name": "holdfast", "version": "7", "api": "v1"}))
    looks: list[int] = []
    lock = open(home / "server.lock", "a")  # noqa: SIM115 - closed below
    flock = fcntl.flock

    def counted(file: object, operation: int) -> None:
        looks.append(operation)
        flock(file, operation)  # type: ignore[arg-type]
        if len(looks) == 2:
            file.close()  # type: ignore[attr-defined]
            flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    monkeypatch.setattr(fcntl, "flock", counted)
    with lock:
        assert ask(kind, home, retry_timeout=30) == "7"
    assert len(looks) == 3


def test_a_token_of_ones_own_goes_where_one_says(tmp_path: Path, server: ScriptedServer) -> None:
    home = left_behind(tmp_path / "home", server.url)
    server.on("GET", "/version", json_say({"name": "holdfast", "version": "7", "api": "v1"}))
    assert ask("blocking", home, url=server.url, token="hf_b_mine") == "7"
    env = {"HOLDFAST_URL": server.url, "HOLDFAST_TOKEN": "hf_b_mine", "HOLDFAST_HOME": str(home)}
    assert find_address(environ=env).is_server_running

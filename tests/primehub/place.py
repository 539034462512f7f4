"""A real server with a few people, and PrimeHub's own clients of it, unchanged: the command and the library.

boss is an admin, ann looks after the group research_A, bob is a member of it, and zoe of another.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from primehub import PrimeHub, PrimeHubConfig
from tests.e2e.server import TIMEOUT, Server

GROUP = "research_A"
PASSWORD = "correct-horse-1"
FORM = {"displayName": "demo", "instanceType": "cpu-1", "image": "host", "command": "echo hi"}


class CommandFailed(Exception):
    def __init__(self, output: str) -> None:
        super().__init__(output)
        self.output = output


@dataclass
class User:
    """One person with PrimeHub's clients, configured in a home of their own."""

    name: str
    server: Server
    home: Path
    token: str
    group: str = GROUP

    @property
    def endpoint(self) -> str:
        return f"{self.server.url}/api/graphql"

    def run(self, *arguments: str, given: str | None = None) -> str:
        """What `primehub ...` prints. `given` is what it reads; without, its input stays open and silent."""
        command = [str(Path(sys.executable).with_name("primehub")), *arguments]
        env = {"HOME": str(self.home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
        with subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdin is not None
            if given is not None:
                process.stdin.write(given)
                process.stdin.flush()
                process.stdin.close()
                process.stdin = None
            output, errors = _collect(process)
        if process.returncode:
            raise CommandFailed(output + errors)
        return output

    def json(self, *arguments: str, given: Any = None) -> Any:
        """The same as data."""
        printed = self.run("--json", *arguments, given=None if given is None else json.dumps(given))
        return json.loads(printed or "[]")  # of an empty list nothing is printed

    def fails(self, *arguments: str, given: Any = None) -> str:
        """What is printed when it ends with an error."""
        try:
            printed = self.run(*arguments, given=None if given is None else json.dumps(given))
        except CommandFailed as failed:
            return failed.output
        raise AssertionError(f"{arguments} did not fail: {printed}")

    def library(self) -> PrimeHub:
        """The SDK as scripts use it."""
        hub = PrimeHub(PrimeHubConfig(config=str(self.home / ".primehub" / "config.json")))
        assert hub.is_ready()
        return hub

    def rest(self, path: str) -> Any:
        """What our own API says to this user."""
        headers = {"Authorization": f"Bearer {self.token}"}
        reply = httpx.get(f"{self.server.url}/api/v1{path}", headers=headers, timeout=TIMEOUT)
        return reply.raise_for_status().json()


def _collect(process: subprocess.Popen[str]) -> tuple[str, str]:
    """All it prints, with its input left as it is."""
    found: dict[str, str] = {}

    def read(name: str, stream: Any) -> None:
        found[name] = stream.read()

    readers = [threading.Thread(target=read, args=(name, getattr(process, name))) for name in ("stdout", "stderr")]
    for reader in readers:
        reader.start()
    try:
        process.wait(TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    finally:
        for reader in readers:
            reader.join()
    return found["stdout"], found["stderr"]


@dataclass
class Place:
    server: Server
    boss: User
    ann: User
    bob: User
    zoe: User

    def admin(self, method: str, address: str, **body: Any) -> Any:
        """As the machine's own admin, through our API."""
        with self.server.client() as client:
            reply = client.request(method, address, **({"json": body} if body else {}))
        assert reply.is_success, reply.text
        return reply.json() if reply.content else None

    def submit(self, user: User, **more: Any) -> str:
        """The id of a job, through the command."""
        return str(user.json("jobs", "submit", given={**FORM, **more})["id"])


@contextmanager
def place(folder: Path, **settings: str) -> Iterator[Place]:
    server = Server(folder / "server", HOLDFAST_NODE_CPUS="8", **settings)
    server.start()
    try:
        with server.client() as admin:
            for group in (GROUP, "others"):
                admin.post("/groups", json={"name": group}).raise_for_status()
            for name in ("boss", "ann", "bob", "zoe"):
                person = {"name": name, "password": PASSWORD, "admin": name == "boss", "email": f"{name}@example.org"}
                admin.post("/users", json=person).raise_for_status()
            for name, group, looks_after in (
                ("boss", GROUP, False),
                ("ann", GROUP, True),
                ("bob", GROUP, False),
                ("zoe", "others", False),
            ):
                body = {"admin": looks_after}
                admin.put(f"/groups/{group}/members/{name}", json=body).raise_for_status()
        people = [_configured(server, folder / name, name) for name in ("boss", "ann", "bob")]
        yield Place(server, *people, _configured(server, folder / "zoe", "zoe", "others"))
    finally:
        server.stop()


def _configured(server: Server, home: Path, name: str, group: str = GROUP) -> User:
    """As in PrimeHub's own guide: endpoint, token, group."""
    login = httpx.post(f"{server.url}/api/v1/login", json={"user": name, "password": PASSWORD}, timeout=TIMEOUT)
    user = User(name, server, home, str(login.raise_for_status().json()["token"]), group)
    home.mkdir()
    user.run("config", "set-endpoint", user.endpoint)
    user.run("config", "set-token", user.token)
    user.run("config", "set-group", group)
    return user

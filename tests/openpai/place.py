"""A real server with a few people: boss is an admin; ann and bob are not. The groups vision and speech are empty."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.server import TIMEOUT, Server

PASSWORD = "correct-horse-1"
FINAL = ("SUCCEEDED", "FAILED", "STOPPED")


@contextmanager
def place(home: Path, **settings: str) -> Iterator[Server]:
    server = Server(home, HOLDFAST_NODE_CPUS="8", **settings)  # as many as the samples ask for, on any machine
    server.start()
    try:
        with server.client() as admin:
            for name in ("vision", "speech"):
                admin.post("/groups", json={"name": name}).raise_for_status()
            for name in ("boss", "ann", "bob"):
                person = {"name": name, "password": PASSWORD, "admin": name == "boss"}
                admin.post("/users", json=person).raise_for_status()
        yield server
    finally:
        server.stop()


def without_runtime(log: str) -> str:
    """What the job itself wrote: the lines about its start and end are OpenPAI's runtime's."""
    return "".join(line for line in log.splitlines(keepends=True) if "[openpai-runtime]" not in line)


class Pai:
    """A user of OpenPAI's REST API who writes the calls by hand."""

    def __init__(self, server: Server, user: str = "ann") -> None:
        self.user = user
        self.http = httpx.Client(base_url=f"{server.url}/rest-server/api", timeout=TIMEOUT)
        login = self.http.post("/v1/token", data={"username": user, "password": PASSWORD}).raise_for_status().json()
        self.http.headers["Authorization"] = f"Bearer {login['token']}"

    def submit(self, text: str) -> None:
        reply = self.http.post("/v2/jobs", content=text, headers={"Content-Type": "text/yaml"})
        assert reply.status_code == 202, reply.text

    def submit_first(self, text: str) -> None:
        reply = self.http.post(f"/v1/user/{self.user}/jobs", content=text, headers={"Content-Type": "application/json"})
        assert reply.status_code == 202, reply.text

    def job(self, name: str, rest: str = "") -> Any:
        return self.http.get(f"/v2/jobs/{self.user}~{name}{rest}").raise_for_status().json()

    def end(self, name: str) -> dict[str, Any]:
        """The job's detail once it is over."""
        began = time.monotonic()
        while time.monotonic() - began < TIMEOUT:
            found = self.job(name)
            if found["jobStatus"]["state"] in FINAL:
                return dict(found)
            time.sleep(0.2)
        raise AssertionError(f"{name} does not end: {found['jobStatus']}")

    def log(
        self, name: str, role: str, index: int = 0, *, attempt: int = 0, retry: int = 0, stream: str = "all"
    ) -> str:
        where = f"/attempts/{attempt}/taskRoles/{role}/taskIndex/{index}/attempts/{retry}/logs"
        uri = next(found["uri"] for found in self.job(name, where)["locations"] if found["name"] == stream)
        return without_runtime(self.http.get(httpx.URL(self.http.base_url).join(uri)).raise_for_status().text)

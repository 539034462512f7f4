"""A plain user of a real server, who may be an attacker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from tests.e2e.server import TIMEOUT, Server

PASSWORD = "a long enough one"


class Member:
    """A plain user of the server."""

    def __init__(self, server: Server, name: str) -> None:
        self._server = server
        self.name = name
        with server.client() as client:
            made = client.post("/users", json={"name": name, "password": PASSWORD})
            assert made.status_code == 201, made.text
        login = httpx.post(f"{server.url}/api/v1/login", json={"user": name, "password": PASSWORD}, timeout=TIMEOUT)
        assert login.status_code == 200, login.text
        self._headers = {"Authorization": f"Bearer {login.json()['token']}"}

    def call(self, method: str, path: str, **more: Any) -> httpx.Response:
        url = f"{self._server.url}/api/v1{path}"
        return httpx.request(method, url, headers=self._headers, timeout=TIMEOUT, **more)

    def submit(self, script: str) -> str:
        made = self.call("POST", "/jobs", content=f"name: look\ncommands:\n  - |\n    {script}\n")
        assert made.status_code == 201, made.text
        return str(made.json()["id"])

    def log(self, job_id: str) -> str:
        found = self.call("GET", f"/jobs/{job_id}/log")
        assert found.status_code == 200, found.text
        return found.text


def look_around(home: Path) -> str:
    """What the attacker's job does."""
    return f"cat {home}/secret.key >/dev/null 2>&1 && echo READ-THE-KEY; grep Seccomp: /proc/self/status; echo ran"

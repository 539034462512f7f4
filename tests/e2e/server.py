"""A real server in its own process, on its own state folder and a free port."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.free_ports import reserve_port
from tests.preloaded import start_holdfast

TIMEOUT = 60.0  # seconds; only ever reached when something is broken


class Server:
    def __init__(self, home: Path, **settings: str) -> None:
        self.home = home
        self.port = reserve_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.settings = settings
        self.process: subprocess.Popen[bytes] | None = None
        self.token = ""
        self.prefix: list[str] = []  # a command that runs the server, such as unshare
        self.user: int | None = None  # runs it; None: the one who runs the tests
        self.afresh = False  # in an interpreter of its own, as users start it

    def start(self) -> float:
        """Returns the seconds until it answered."""
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("HOLDFAST_")}
        env = {key: value for key, value in inherited.items() if key != "PYTHONDONTWRITEBYTECODE"}  # slow starts
        env |= {"HOLDFAST_HOME": str(self.home), "HOLDFAST_SERVER_PORT": str(self.port), "HOLDFAST_SSH_PORT": "0"}
        env |= {"HOLDFAST_IMAGES_UNKNOWN": "fail"}  # no test reaches a registry by accident
        env |= {"HOLDFAST_DISK_RESERVE_BYTES": "1048576"}  # many servers' folders are kept until the tests end
        env |= self.settings
        self.home.mkdir(parents=True, exist_ok=True)
        with open(self.home / "server.log", "ab") as log:
            output: dict[str, Any] = {"stdout": log, "stderr": log, "start_new_session": True}
            if self.prefix or self.user is not None or self.afresh:
                self.process = self._start_afresh(env, output)
            else:
                self.process = start_holdfast(["up"], env=env, **output)
        try:
            return self.wait_ready()
        except BaseException:
            self.kill()  # leave nothing behind
            raise

    def _start_afresh(self, env: dict[str, str], output: dict[str, Any]) -> subprocess.Popen[bytes]:
        command = [*self.prefix, sys.executable, "-m", "holdfast", "up"]
        groups = () if self.user is not None else None
        return subprocess.Popen(command, env=env, user=self.user, group=self.user, extra_groups=groups, **output)

    def wait_ready(self) -> float:
        assert self.process is not None
        began = time.monotonic()
        while time.monotonic() - began < TIMEOUT:
            try:
                self.get("/health").raise_for_status()
            except httpx.HTTPError:
                if self.process.poll() is not None:
                    raise AssertionError(f"the server ended by itself:\n{self.log()[-3000:]}") from None
                time.sleep(0.02)
                continue
            self.token = json.loads((self.home / "client.json").read_text())["token"]
            return time.monotonic() - began
        raise AssertionError(f"the server did not answer:\n{self.log()[-3000:]}")

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """It stands still meanwhile, as on a node that has no time for it."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(TIMEOUT)

    def log(self) -> str:
        return (self.home / "server.log").read_text(errors="replace")

    def client(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=TIMEOUT, verify=False)

    def submit(self, text: str, **query: str) -> dict[str, Any]:
        with self.client() as client:
            reply = client.post("/jobs", content=text, params=query)
        assert reply.status_code == 201, reply.text
        return dict(reply.json())

    def wait(self, job_id: str) -> dict[str, Any]:
        began = time.monotonic()
        with self.client() as client:
            while time.monotonic() - began < TIMEOUT:
                reply = client.get(f"/jobs/{job_id}/wait", params={"timeout": 30}).json()
                if reply["state"] in ("Succeeded", "Failed", "Cancelled"):
                    return dict(reply)
        raise AssertionError(f"{job_id} is still {reply['state']}: {reply['message']}")

    def get(self, path: str, **query: Any) -> httpx.Response:
        with self.client() as client:
            return client.get(path, params=query)

"""A real Prometheus, as Debian packages it, that reads a real server by the example configuration in deploy/."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.free_ports import reserve_port

from .server import TIMEOUT, Server

DEPLOY = Path(__file__).parents[2] / "deploy"
MISSING = None if shutil.which("prometheus") and shutil.which("promtool") else "Prometheus is missing"


def example_config(folder: Path, target: str, token: str) -> Path:
    """The example, with this server's address and token, in a hurry, beside the alerts."""
    config = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    del config["alerting"]
    (scrape,) = config["scrape_configs"]
    scrape["static_configs"][0]["targets"] = [target]
    scrape["authorization"]["credentials_file"] = str(folder / "holdfast.token")
    (folder / "holdfast.token").write_text(token)
    shutil.copy(DEPLOY / "prometheus/alerts.yml", folder / "alerts.yml")
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    return path


class Prometheus:
    def __init__(self, folder: Path, server: Server) -> None:
        self.folder = folder
        self.config = example_config(folder, server.url.removeprefix("http://"), server.token)
        self.address = f"127.0.0.1:{reserve_port()}"
        self.client = httpx.Client(base_url=f"http://{self.address}", timeout=TIMEOUT, verify=False)

    @contextmanager
    def running(self) -> Iterator[None]:
        argv = ["prometheus", f"--config.file={self.config}", f"--storage.tsdb.path={self.folder / 'data'}"]
        with open(self.folder / "prometheus.log", "wb") as log:
            process = subprocess.Popen([*argv, f"--web.listen-address={self.address}"], stdout=log, stderr=log)
        try:
            self.until(self._is_ready)
            yield
        finally:
            process.terminate()
            process.wait(TIMEOUT)
            self.client.close()

    def _is_ready(self) -> bool:
        try:
            return self.client.get("/-/ready").status_code == 200
        except httpx.TransportError:
            return False

    def ask(self, path: str, **query: str) -> Any:
        answer = self.client.get(f"/api/v1/{path}", params=query).json()
        assert answer["status"] == "success", (query, answer)
        return answer["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        return list(self.ask("query", query=expression)["result"])

    def until(self, holds: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + TIMEOUT
        while not (found := holds()):
            assert time.monotonic() < deadline, (self.folder / "prometheus.log").read_text()[-3000:]
            time.sleep(0.1)
        return found


def panel_expressions() -> Iterator[tuple[str, str]]:
    """Dashboard and panel, and each expression in it."""
    for path in sorted((DEPLOY / "grafana").glob("*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel["targets"]:
                yield f"{path.stem}: {panel['title']}", target["expr"]

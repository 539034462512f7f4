"""One real server for all CLI tests, started and stopped by the CLI itself."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .cli_runner import Cli, clean_env, end_started, run_program


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    yield
    end_started()


@pytest.fixture(scope="session")
def place() -> Iterator[dict[str, str]]:
    """The environment of a user with a server of their own."""
    home = Path(tempfile.mkdtemp(prefix="holdfast-cli-"))
    env = clean_env(home, HOLDFAST_SSH_PORT="0")  # others may have the usual one
    try:
        started = run_program("up", "--detach", "--port", "0", "--json", env=env)
        assert started.code == 0, started.err
        env["FIRST_PASSWORD"] = json.loads(started.out)["server"]["first_password"]
        yield env
        run_program("down", env=env)
    finally:
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Cli:
    """The CLI of a user who has no server."""
    _use(monkeypatch, clean_env(tmp_path))
    return Cli(monkeypatch, capfdbinary)


@pytest.fixture
def cli(
    place: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> Cli:
    """The CLI of the user whose server runs; logins are kept apart per test."""
    _use(monkeypatch, {**place, "XDG_CONFIG_HOME": str(tmp_path / "config")})
    return Cli(monkeypatch, capfdbinary)


def _use(monkeypatch: pytest.MonkeyPatch, env: dict[str, str]) -> None:
    for name in [name for name in os.environ if name.startswith("HOLDFAST_")]:
        monkeypatch.delenv(name)
    for name, value in env.items():
        monkeypatch.setenv(name, value)

"""Running command lines: in this process where that will do, as a program where signals, pipes or terminals matter."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.main import run_command_line
from tests.preloaded import run_holdfast, start_holdfast

TIMEOUT = 60.0  # seconds; only ever reached when something is broken


@dataclass(frozen=True)
class Result:
    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        """The error that --json puts on stderr."""
        return json.loads(self.err)["error"]


class Cli:
    """cli("ls", "--json") in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[bytes]) -> None:
        self._monkeypatch = monkeypatch
        self._capture = capture

    def __call__(self, *args: str, stdin: bytes = b"") -> Result:
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        self._capture.readouterr()
        code = run_command_line(args)
        out, err = self._capture.readouterr()
        return Result(code, out, err.decode())

    def ok(self, *args: str, stdin: bytes = b"") -> Result:
        result = self(*args, stdin=stdin)
        assert result.code == 0, result.err
        return result


STARTED: list[subprocess.Popen[bytes]] = []


def start(*args: str, env: Mapping[str, str], **kwargs: Any) -> subprocess.Popen[bytes]:
    """Left running; whatever a failing test does not end is ended after it."""
    process = start_holdfast(args, env=env, start_new_session=True, **kwargs)
    STARTED.append(process)
    return process


def end_started() -> None:
    while STARTED:
        process = STARTED.pop()
        if process.poll() is None:
            process.kill()
            process.wait()


def run_program(*args: str, env: Mapping[str, str]) -> Result:
    done = run_holdfast(args, env=env, timeout=TIMEOUT)
    return Result(done.returncode, done.stdout, done.stderr.decode())


def run_on_terminal(*args: str, env: Mapping[str, str], columns: int = 100) -> Result:
    """All that a person would see, stdout and stderr on one terminal."""
    ours, theirs = pty.openpty()
    process = start(*args, env={**env, "TERM": "xterm-256color", "COLUMNS": str(columns)}, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # what Linux says when the last one to hold the terminal is gone
            break
        if not piece:
            break
        seen += piece
    os.close(ours)
    return Result(process.wait(TIMEOUT), seen, "")


def clean_env(home: Path, **more: str) -> dict[str, str]:
    """The environment without any server or login of whoever runs the tests."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("HOLDFAST_")}
    env |= {"HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "HOLDFAST_HOME": str(home / "state")}
    return env | more

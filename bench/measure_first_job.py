"""A newcomer's first command: a fresh clone, no environment yet, the packages already on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from .harness import ROOT, Options, clean_env, end_tasks_below, folder, free_port, say
from .rows import Row, below

LIMIT = 300  # seconds; then it is given up
KNOWN_LINE = "Hello"  # what examples/hello.yaml prints


def measure(options: Options) -> list[Row]:
    with folder("first-job", options) as place:
        clone, home = place / "holdfast", place / "home"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        env = _env(place, home)
        say("first job: make up ARGS=--detach in a fresh clone")
        try:
            seconds, output = _time_until_log(clone, env)
        finally:
            _stop(home)
            end_tasks_below(place)
    if seconds is None:
        raise RuntimeError(f"make up did not show the first job's log:\n{output[-3000:]}")
    return [Row("first job's log after make up", seconds, "s", below(60), "fresh clone, warm package cache")]


def _env(place: Path, home: Path) -> dict[str, str]:
    """Nothing of this user's home, save the packages pip has fetched before."""
    cache = subprocess.run(
        [sys.executable, "-m", "pip", "cache", "dir"], capture_output=True, text=True, check=True
    ).stdout.strip()
    (place / "nobody").mkdir()
    kept = {
        name: value for name, value in clean_env().items() if name not in ("VIRTUAL_ENV", "PYTHONPATH", "MAKEFLAGS")
    }
    return kept | {
        "HOME": str(place / "nobody"),
        "PIP_CACHE_DIR": cache,
        "HOLDFAST_HOME": str(home),
        "HOLDFAST_SERVER_PORT": str(free_port()),
    }


def _time_until_log(clone: Path, env: dict[str, str]) -> tuple[float | None, str]:
    began = time.monotonic()
    shown, lines = None, []
    out = clone.parent / "make.out"
    with open(out, "wb") as sink:
        make = subprocess.Popen(["make", "up", "ARGS=--detach"], cwd=clone, env=env, stdout=sink, stderr=sink)
    while shown is None and time.monotonic() - began < LIMIT:
        ended = make.poll() is not None
        lines = out.read_text(errors="replace").splitlines()
        if any(line.strip().startswith(KNOWN_LINE) for line in lines):
            shown = time.monotonic() - began
        elif ended:
            break
        time.sleep(0.05)
    try:
        make.wait(30)
    except subprocess.TimeoutExpired:
        make.kill()
    return shown, "\n".join(lines)


def _stop(home: Path) -> None:
    """The server was detached; it says its process in its state folder."""
    try:
        server = psutil.Process(int(json.loads((home / "server.json").read_text())["pid"]))
        os.kill(server.pid, signal.SIGTERM)
        server.wait(20)
    except (OSError, ValueError, KeyError, psutil.Error):
        return

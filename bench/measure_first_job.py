"""Time from `make up` in a new clone to the first job's log, without an environment but with a pip cache."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from .harness import (
    ROOT,
    Options,
    build_clean_env,
    create_bench_folder,
    find_free_port,
    kill_processes_below,
    print_progress,
)
from .rows import Row, below

TIMEOUT = 300  # seconds
EXPECTED_LINE_START = "Hello"  # of the output of examples/hello.yaml


def measure(options: Options) -> list[Row]:
    with create_bench_folder("first-job", options) as folder:
        clone, home = folder / "holdfast", folder / "home"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        env = _build_env(folder, home)
        print_progress("first job: make up ARGS=--detach in a fresh clone")
        try:
            seconds, output = _measure_seconds_until_log(clone, env)
        finally:
            _stop_server(home)
            kill_processes_below(folder)
    if seconds is None:
        raise RuntimeError(f"make up did not show the first job's log:\n{output[-3000:]}")
    return [Row("first job's log after make up", seconds, "s", below(60), "fresh clone, warm package cache")]


def _build_env(folder: Path, home: Path) -> dict[str, str]:
    """Return an environment with an empty home folder and this user's pip cache."""
    cache = subprocess.run(
        [sys.executable, "-m", "pip", "cache", "dir"], capture_output=True, text=True, check=True
    ).stdout.strip()
    (folder / "nobody").mkdir()
    env = {
        name: value
        for name, value in build_clean_env().items()
        if name not in ("VIRTUAL_ENV", "PYTHONPATH", "MAKEFLAGS")
    }
    return env | {
        "HOME": str(folder / "nobody"),
        "PIP_CACHE_DIR": cache,
        "HOLDFAST_HOME": str(home),
        "HOLDFAST_SERVER_PORT": str(find_free_port()),
    }


def _measure_seconds_until_log(clone: Path, env: dict[str, str]) -> tuple[float | None, str]:
    started = time.monotonic()
    seconds, lines = None, []
    output_path = clone.parent / "make.out"
    with open(output_path, "wb") as file:
        make = subprocess.Popen(["make", "up", "ARGS=--detach"], cwd=clone, env=env, stdout=file, stderr=file)
    while seconds is None and time.monotonic() - started < TIMEOUT:
        has_ended = make.poll() is not None
        lines = output_path.read_text(errors="replace").splitlines()
        if any(line.strip().startswith(EXPECTED_LINE_START) for line in lines):
            seconds = time.monotonic() - started
        elif has_ended:
            break
        time.sleep(0.05)
    try:
        make.wait(30)
    except subprocess.TimeoutExpired:
        make.kill()
    return seconds, "\n".join(lines)


def _stop_server(home: Path) -> None:
    """Stop the detached server, whose process id is in its state folder."""
    try:
        server = psutil.Process(int(json.loads((home / "server.json").read_text())["pid"]))
        os.kill(server.pid, signal.SIGTERM)
        server.wait(20)
    except (OSError, ValueError, KeyError, psutil.Error):
        return

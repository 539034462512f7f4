"""Running tasks on a real engine in a mount namespace of its own, where a test may mount what it likes."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from holdfast.engines.base import LogStream
from holdfast.engines.embedded import EmbeddedEngine
from tests.contracts.engine_contract import Rig, read_all, sweep
from tests.engines.sessions import inside

ROOT = Path(__file__).parents[2]
_TIMEOUT = 100  # seconds
_ENTER = 'set -e; eval "$1"; shift; exec "$@"'


def host(command: str) -> tuple[str, str]:
    """A step that runs on the machine, beside the server."""
    return "host", command


def task(script: str) -> tuple[str, str]:
    """A step that runs as a task."""
    return "task", script


def background(script: str) -> tuple[str, str]:
    """A step that starts a task, which prints `up` and goes on."""
    return "background", script


def session(script: str) -> tuple[str, str]:
    """A step that runs inside the task in the background."""
    return "session", script


def run_steps(home: Path, steps: Sequence[tuple[str, str]], *, before: str = "true") -> list[str]:
    """What the tasks and sessions among the steps printed. `before` runs in the namespace ahead of the server."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("needs root and unshare: it mounts filesystems in a namespace of its own")
    program = [sys.executable, "-m", __name__, str(home), json.dumps(steps)]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", _ENTER, "sh", before, *program],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src"},
    )
    assert done.returncode == 0, done.stderr
    printed: list[str] = json.loads(done.stdout)
    return printed


async def _run(home: Path, steps: Sequence[tuple[str, str]]) -> list[str]:
    rig = Rig(lambda: EmbeddedEngine(home))
    await rig.open()
    printed = []
    try:
        for number, (where, command) in enumerate(steps):
            if where == "host":
                subprocess.run(["sh", "-ec", command], check=True, stdout=subprocess.DEVNULL)
                continue
            if where == "background":
                await rig.start_and_wait_for(b"up", "background", command)
                continue
            if where == "session":
                printed.append((await inside(rig.engine, "background", command)).out)
                continue
            seen = await rig.run(f"t{number}", command)
            said = (await read_all(rig.log(f"t{number}", LogStream.MERGED))).decode()
            assert seen.code == 0, (seen, said)
            printed.append(said)
    finally:
        await sweep(rig.engine, [])
        await rig.close()
    return printed


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(_run(Path(sys.argv[1]), json.loads(sys.argv[2])))))

"""From the moment a program fails to a prompt inside its task, by one command: a shell in the container that is held,
by ssh and by exec; the debugger at the crash.

The program prints the time as its last act. The command is started as soon as the server tells that the task is held,
or that a debugger waits; it has a terminal, on which the prompt is waited for.
"""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Sequence

from .harness import TIMEOUT, BenchServer, Options, clean_env, say, server
from .rows import Row, below, percentile

WARM_UP = 1
HELD = """\
name: fails
command: echo "$EPOCHREALTIME"; exit 3
hold: {for: 1h}
resources: {cpu: 1, memory: 256Mi}
"""
CRASHED = """\
name: crashes
command: python3 -c "$PROGRAM"
env:
  PROGRAM: |
    import paipdb, time
    try:
        {}["missing"]
    except KeyError:
        print(time.time(), flush=True)
        paipdb.post_mortem()
resources: {cpu: 1, memory: 256Mi}
"""


def measure(options: Options) -> list[Row]:
    count = options.pick(10, 3)
    with server("inside", options) as running:
        shells = {way: [_shell(running, way) for _ in range(WARM_UP + count)][WARM_UP:] for way in ("ssh", "exec")}
        say(f"inside: {count} shells by ssh, {count} by exec")
        prompts = [_debugger(running) for _ in range(WARM_UP + count)][WARM_UP:]
    rows = [_row(f"inside: p50 from failed to a shell, holdfast {way}", times) for way, times in shells.items()]
    return [*rows, _row("inside: p50 from crashed to (Pdb), holdfast debug", prompts)]


def _row(name: str, seconds: Sequence[float]) -> Row:
    note = f"{len(seconds)} jobs, p95 {percentile(seconds, 95):.2f} s"
    return Row(name, percentile(seconds, 50), "s", below(1), note)


def _shell(running: BenchServer, way: str) -> float:
    job = running.submit(HELD)
    running.wait_for_state(job, "Held")
    seconds = _until_prompt(running, [way, job], b"# ") - _printed(running, job)
    _stop(running, job)
    return seconds


def _debugger(running: BenchServer) -> float:
    job = running.submit(CRASHED)
    deadline = time.monotonic() + TIMEOUT
    with running.connect() as connection:
        while not connection.get(f"/jobs/{job}")["debuggers"]:
            if time.monotonic() > deadline:
                raise RuntimeError("no debugger came to wait")
            time.sleep(0.02)
    seconds = _until_prompt(running, ["debug", job], b"(Pdb) ") - _printed(running, job)
    _stop(running, job)
    return seconds


def _printed(running: BenchServer, job: str) -> float:
    """When the program failed."""
    return float(running.log(job, stream="stdout").split(b"\n")[0])


def _stop(running: BenchServer, job: str) -> None:
    with running.connect() as connection:
        status, answer = connection.request("POST", f"/api/v1/jobs/{job}/stop")
    if status not in (200, 202):
        raise RuntimeError(f"cannot stop {job}: {status} {answer[:300]!r}")
    running.wait(job)


def _until_prompt(running: BenchServer, words: list[str], prompt: bytes) -> float:
    """When it was there; the command is ended then."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(ours, (30, 100))
    env = clean_env() | {"HOLDFAST_HOME": str(running.home), "TERM": "xterm-256color", "NO_COLOR": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", *words],
        env=env,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        return _read(ours, prompt)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _read(terminal: int, prompt: bytes) -> float:
    seen, deadline = b"", time.monotonic() + TIMEOUT
    while prompt not in seen:
        ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
        try:
            piece = os.read(terminal, 65536) if ready else b""
        except OSError:
            piece = b""
        if not piece:
            raise RuntimeError(f"no prompt came: {seen!r}")
        seen += piece
    return time.time()

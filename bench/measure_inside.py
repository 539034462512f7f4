"""Time from the failure of a program to a prompt in its task, with one command: a shell in the held task, by ssh and by
exec, and the debugger at the crash.

The program prints the time before it fails. The command starts as soon as the server reports the hold or the waiting
debugger. It has a terminal, and ends at its prompt.
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

from .harness import TIMEOUT, BenchServer, Options, build_clean_env, print_progress, start_server
from .rows import Row, below, percentile

WARM_UP_JOBS = 1
FAILING_JOB = """\
name: fails
command: echo "$EPOCHREALTIME"; exit 3
hold: {for: 1h}
resources: {cpu: 1, memory: 256Mi}
"""
CRASHING_JOB = """\
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
    count = options.pick_size(10, 3)
    with start_server("inside", options) as server:
        shells = {
            command: [_measure_shell(server, command) for _ in range(WARM_UP_JOBS + count)][WARM_UP_JOBS:]
            for command in ("ssh", "exec")
        }
        print_progress(f"inside: {count} shells by ssh, {count} by exec")
        prompts = [_measure_debugger(server) for _ in range(WARM_UP_JOBS + count)][WARM_UP_JOBS:]
    rows = [
        _make_row(f"inside: p50 from failed to a shell, holdfast {command}", times) for command, times in shells.items()
    ]
    return [*rows, _make_row("inside: p50 from crashed to (Pdb), holdfast debug", prompts)]


def _make_row(name: str, seconds: Sequence[float]) -> Row:
    note = f"{len(seconds)} jobs, p95 {percentile(seconds, 95):.2f} s"
    return Row(name, percentile(seconds, 50), "s", below(1), note)


def _measure_shell(server: BenchServer, command: str) -> float:
    job = server.submit_job(FAILING_JOB)
    server.wait_for_state(job, "Held")
    seconds = _run_until_prompt(server, [command, job], b"# ") - _read_failure_time(server, job)
    _stop_job(server, job)
    return seconds


def _measure_debugger(server: BenchServer) -> float:
    job = server.submit_job(CRASHING_JOB)
    deadline = time.monotonic() + TIMEOUT
    with server.connect() as connection:
        while not connection.get_json(f"/jobs/{job}")["debuggers"]:
            if time.monotonic() > deadline:
                raise RuntimeError("no debugger came to wait")
            time.sleep(0.02)
    seconds = _run_until_prompt(server, ["debug", job], b"(Pdb) ") - _read_failure_time(server, job)
    _stop_job(server, job)
    return seconds


def _read_failure_time(server: BenchServer, job: str) -> float:
    """Return the time that the program printed before it failed."""
    return float(server.read_log(job, stream="stdout").split(b"\n")[0])


def _stop_job(server: BenchServer, job: str) -> None:
    with server.connect() as connection:
        status, response = connection.request("POST", f"/api/v1/jobs/{job}/stop")
    if status not in (200, 202):
        raise RuntimeError(f"cannot stop {job}: {status} {response[:300]!r}")
    server.wait_for_end(job)


def _run_until_prompt(server: BenchServer, arguments: list[str], prompt: bytes) -> float:
    """Run a command on a terminal until its prompt. Return the time of the prompt."""
    controller_end, terminal_end = pty.openpty()
    termios.tcsetwinsize(controller_end, (30, 100))
    env = build_clean_env() | {"HOLDFAST_HOME": str(server.home), "TERM": "xterm-256color", "NO_COLOR": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", *arguments],
        env=env,
        stdin=terminal_end,
        stdout=terminal_end,
        stderr=terminal_end,
        start_new_session=True,
    )
    os.close(terminal_end)
    try:
        return _wait_for_prompt(controller_end, prompt)
    finally:
        process.kill()
        process.wait()
        os.close(controller_end)


def _wait_for_prompt(terminal: int, prompt: bytes) -> float:
    output, deadline = b"", time.monotonic() + TIMEOUT
    while prompt not in output:
        ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
        try:
            chunk = os.read(terminal, 65536) if ready else b""
        except OSError:
            chunk = b""
        if not chunk:
            raise RuntimeError(f"no prompt came: {output!r}")
        output += chunk
    return time.time()

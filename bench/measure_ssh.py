"""SSH to tasks: echo time of a keystroke with 100 shells in 10 tasks, time to open a shell, and rate of scp."""

from __future__ import annotations

import asyncio
import filecmp
import json
import os
import random
import shutil
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from .harness import MB, TIMEOUT, BenchServer, Options, create_bench_folder, print_progress
from .rows import Row, at_least, below, percentile

JOB_FILE = """\
name: rooms
roles:
  room:
    instances: {count}
    resources: {{cpu: 1, memory: 128Mi}}
    command: sleep 3600
"""
SESSIONS_PER_TASK = 10
KEYSTROKE_INTERVAL = 0.2  # seconds between two keystrokes of a session: fast typing
MAX_CONCURRENT = 10  # sessions that are opened at the same time
PROMPT = b"ready>"


def measure(options: Options) -> list[Row]:
    tasks, keystrokes = options.pick_size(10, 3), options.pick_size(50, 10)
    with create_bench_folder("ssh", options) as folder:
        server = BenchServer(folder / "home", HOLDFAST_NODE_CPUS=str(tasks))  # so that no task is throttled
        try:
            server.start()
            addresses = _start_tasks(server, tasks)
            print_progress(f"ssh: {tasks} tasks run")
            return asyncio.run(_measure(server, folder, addresses, keystrokes, options.pick_size(200, 20)))
        finally:
            server.stop()


def _start_tasks(server: BenchServer, tasks: int) -> list[dict[str, Any]]:
    """Start a job, and wait until all tasks run. Return their SSH addresses."""
    job = server.submit_job(JOB_FILE.format(count=tasks))
    started = time.monotonic()
    with server.connect() as connection:
        while time.monotonic() - started < TIMEOUT:
            addresses = connection.get_json(f"/jobs/{job}/ssh")["items"]
            if len(addresses) == tasks:
                return list(addresses)
            time.sleep(0.05)
    raise RuntimeError("the tasks do not all start, or the gateway is off")


async def _measure(
    server: BenchServer, folder: Path, addresses: list[dict[str, Any]], keystrokes: int, megabytes: int
) -> list[Row]:
    key = asyncssh.generate_private_key("ssh-ed25519")
    _register_key(server, key)
    session_addresses = [address for address in addresses for _ in range(SESSIONS_PER_TASK)]
    async with AsyncExitStack() as stack:
        semaphore = asyncio.Semaphore(MAX_CONCURRENT)
        sessions = await asyncio.gather(
            *(_open_session(stack, semaphore, address, key) for address in session_addresses)
        )
        print_progress(f"ssh: {len(sessions)} people are inside")
        durations = await asyncio.gather(*(session.measure_keystrokes(keystrokes) for session in sessions))
    echo_times = sorted(seconds * 1000 for session_durations in durations for seconds in session_durations)
    concurrent = [session.opening_seconds * 1000 for session in sessions]
    scale = f"{len(sessions)} sessions in {len(addresses)} tasks"
    single = await _measure_single_sessions(addresses[0], key)
    return [
        Row(
            f"ssh: keystroke and back, {scale}, p95",
            percentile(echo_times, 95),
            "ms",
            below(100),
            _format_spread(echo_times),
        ),
        Row("ssh: from connecting to a prompt, p50", percentile(single, 50), "ms", below(1000), _format_spread(single)),
        Row("ssh: the same, 10 at a time", percentile(concurrent, 50), "ms", None, _format_spread(concurrent)),
        *await asyncio.to_thread(_measure_scp, addresses[0], key, folder, megabytes),
    ]


def _register_key(server: BenchServer, key: asyncssh.SSHKey) -> None:
    body = json.dumps({"public_key": key.export_public_key().decode().strip()}).encode()
    with server.connect() as connection:
        status, response = connection.request("POST", "/api/v1/ssh/keys", body, "Content-Type: application/json\r\n")
    if status != 201:
        raise RuntimeError(f"the key is not taken: {status} {response[:300]!r}")


def _format_spread(values: list[float]) -> str:
    p50, p99 = percentile(values, 50), percentile(values, 99)
    return f"p50 {p50:.1f} ms, p99 {p99:.1f} ms, worst {max(values):.1f} ms of {len(values)}"


@asynccontextmanager
async def _connect(address: dict[str, Any], key: asyncssh.SSHKey) -> AsyncIterator[asyncssh.SSHClientConnection]:
    async with asyncssh.connect(
        "127.0.0.1",
        address["port"],
        username=address["user"],
        client_keys=[key],
        known_hosts=None,
        config=None,
        agent_path=None,
        compression_algs=None,
    ) as client:
        yield client


@dataclass
class _ShellSession:
    shell: asyncssh.SSHClientProcess[bytes]
    opening_seconds: float  # from connecting to a prompt

    async def measure_keystrokes(self, count: int) -> list[float]:
        """Return the seconds from each keystroke to its echo by the task's terminal."""
        await asyncio.sleep(random.random() * KEYSTROKE_INTERVAL)  # so that sessions do not type in step
        durations = []
        for number in range(count):
            character = b"%c" % (97 + number % 26)
            started = time.perf_counter()
            self.shell.stdin.write(character)
            while character not in await self.shell.stdout.read(1024):
                pass
            durations.append(time.perf_counter() - started)
            await asyncio.sleep(KEYSTROKE_INTERVAL)
        return durations


async def _open_session(
    stack: AsyncExitStack, semaphore: asyncio.Semaphore, address: dict[str, Any], key: asyncssh.SSHKey
) -> _ShellSession:
    async with semaphore:
        started = time.perf_counter()
        client = await stack.enter_async_context(_connect(address, key))
        shell = await _open_shell(client)
        return _ShellSession(shell, time.perf_counter() - started)


async def _open_shell(client: asyncssh.SSHClientConnection) -> asyncssh.SSHClientProcess[bytes]:
    """Open a shell, and wait for its prompt."""
    shell: asyncssh.SSHClientProcess[bytes] = await client.create_process(
        "PS1='rea''dy>' exec bash --norc -i", term_type="xterm", term_size=(80, 24), encoding=None
    )
    output = b""
    while PROMPT not in output:
        output += await asyncio.wait_for(shell.stdout.read(4096), TIMEOUT)
    return shell


async def _measure_single_sessions(address: dict[str, Any], key: asyncssh.SSHKey) -> list[float]:
    """Return the milliseconds to open each of some sessions, one after the other."""
    durations = []
    for _ in range(10):
        started = time.perf_counter()
        async with _connect(address, key) as client:
            await _open_shell(client)
            durations.append((time.perf_counter() - started) * 1000)
    return durations


def _measure_scp(address: dict[str, Any], key: asyncssh.SSHKey, folder: Path, megabytes: int) -> list[Row]:
    """Copy a file to the task and back, with OpenSSH's scp."""
    if shutil.which("scp") is None:
        return [Row("ssh: files by scp", None, "MB/s", None, "skipped: OpenSSH is not installed")]
    source, returned, remote = folder / "source", folder / "back", f"{address['user']}@127.0.0.1:big"
    source.write_bytes(os.urandom(megabytes * MB))
    upload_seconds = _run_scp(address, key, folder, str(source), remote)
    download_seconds = _run_scp(address, key, folder, remote, str(returned))
    if not filecmp.cmp(source, returned, shallow=False):
        raise RuntimeError("what came back is not what was sent")
    note = f"{megabytes} MB, compared"
    return [
        Row("ssh: scp into a task", megabytes / upload_seconds, "MB/s", at_least(20), note),
        Row("ssh: scp out of a task", megabytes / download_seconds, "MB/s", at_least(20), note),
    ]


def _run_scp(address: dict[str, Any], key: asyncssh.SSHKey, folder: Path, source: str, target: str) -> float:
    """Run scp. Return its duration in seconds."""
    key_path = folder / "key"
    key.write_private_key(str(key_path))
    key_path.chmod(0o600)
    identity = (f"IdentityFile={key_path}", "IdentityAgent=none", "BatchMode=yes", "StrictHostKeyChecking=no")
    host = (f"UserKnownHostsFile={folder / 'known_hosts'}", "LogLevel=ERROR")
    options = [argument for option in (*identity, *host) for argument in ("-o", option)]
    started = time.perf_counter()
    subprocess.run(["scp", "-F", "none", *options, "-P", str(address["port"]), source, target], check=True)
    return time.perf_counter() - started

"""Getting inside by SSH: 100 people at shells in 10 tasks at once, how long a keystroke takes to come back; how long a
shell takes to open; and how fast files go through."""

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

from .harness import MB, TIMEOUT, BenchServer, Options, folder, say
from .rows import Row, at_least, below, percentile

TASKS = """\
name: rooms
roles:
  room:
    instances: {count}
    resources: {{cpu: 1, memory: 128Mi}}
    command: sleep 3600
"""
PEOPLE_PER_TASK = 10
INTERVAL = 0.2  # seconds between two keystrokes of one person: quick typing
MAX_CONCURRENT = 10  # who come in at one time
PROMPT = b"ready>"


def measure(options: Options) -> list[Row]:
    tasks, keys = options.pick(10, 3), options.pick(50, 10)
    with folder("ssh", options) as place:
        running = BenchServer(place / "home", HOLDFAST_NODE_CPUS=str(tasks))  # none is slowed down by its limit
        try:
            running.start()
            lines = _begin(running, tasks)
            say(f"ssh: {tasks} tasks run")
            return asyncio.run(_measure(running, place, lines, keys, options.pick(200, 20)))
        finally:
            running.stop()


def _begin(running: BenchServer, tasks: int) -> list[dict[str, Any]]:
    """The ssh lines of a job whose tasks all run."""
    job = running.submit(TASKS.format(count=tasks))
    began = time.monotonic()
    with running.connect() as connection:
        while time.monotonic() - began < TIMEOUT:
            found = connection.get(f"/jobs/{job}/ssh")["items"]
            if len(found) == tasks:
                return list(found)
            time.sleep(0.05)
    raise RuntimeError("the tasks do not all start, or the gateway is off")


async def _measure(
    running: BenchServer, place: Path, lines: list[dict[str, Any]], keys: int, megabytes: int
) -> list[Row]:
    key = asyncssh.generate_private_key("ssh-ed25519")
    _register(running, key)
    where = [line for line in lines for _ in range(PEOPLE_PER_TASK)]
    async with AsyncExitStack() as stack:
        few = asyncio.Semaphore(MAX_CONCURRENT)
        people = await asyncio.gather(*(_come_in(stack, few, line, key) for line in where))
        say(f"ssh: {len(people)} people are inside")
        took = await asyncio.gather(*(person.type(keys) for person in people))
    trips = sorted(trip * 1000 for each in took for trip in each)
    opened = [person.opened * 1000 for person in people]
    crowd = f"{len(people)} sessions in {len(lines)} tasks"
    alone = await _alone(lines[0], key)
    return [
        Row(f"ssh: keystroke and back, {crowd}, p95", percentile(trips, 95), "ms", below(100), _spread(trips)),
        Row("ssh: from connecting to a prompt, p50", percentile(alone, 50), "ms", below(1000), _spread(alone)),
        Row("ssh: the same, 10 at a time", percentile(opened, 50), "ms", None, _spread(opened)),
        *await asyncio.to_thread(_copy, lines[0], key, place, megabytes),
    ]


def _register(running: BenchServer, key: asyncssh.SSHKey) -> None:
    body = json.dumps({"public_key": key.export_public_key().decode().strip()}).encode()
    with running.connect() as connection:
        status, answer = connection.request("POST", "/api/v1/ssh/keys", body, "Content-Type: application/json\r\n")
    if status != 201:
        raise RuntimeError(f"the key is not taken: {status} {answer[:300]!r}")


def _spread(values: list[float]) -> str:
    p50, p99 = percentile(values, 50), percentile(values, 99)
    return f"p50 {p50:.1f} ms, p99 {p99:.1f} ms, worst {max(values):.1f} ms of {len(values)}"


@asynccontextmanager
async def _connected(line: dict[str, Any], key: asyncssh.SSHKey) -> AsyncIterator[asyncssh.SSHClientConnection]:
    async with asyncssh.connect(
        "127.0.0.1",
        line["port"],
        username=line["user"],
        client_keys=[key],
        known_hosts=None,
        config=None,
        agent_path=None,
        compression_algs=None,
    ) as client:
        yield client


@dataclass
class _Person:
    shell: asyncssh.SSHClientProcess[bytes]
    opened: float  # seconds from connecting to a prompt

    async def type(self, count: int) -> list[float]:
        """Seconds from each keystroke to its echo, which the terminal inside gives."""
        await asyncio.sleep(random.random() * INTERVAL)  # so that they do not type in step
        took = []
        for number in range(count):
            letter = b"%c" % (97 + number % 26)
            began = time.perf_counter()
            self.shell.stdin.write(letter)
            while letter not in await self.shell.stdout.read(1024):
                pass
            took.append(time.perf_counter() - began)
            await asyncio.sleep(INTERVAL)
        return took


async def _come_in(
    stack: AsyncExitStack, few: asyncio.Semaphore, line: dict[str, Any], key: asyncssh.SSHKey
) -> _Person:
    async with few:
        began = time.perf_counter()
        client = await stack.enter_async_context(_connected(line, key))
        shell = await _shell(client)
        return _Person(shell, time.perf_counter() - began)


async def _shell(client: asyncssh.SSHClientConnection) -> asyncssh.SSHClientProcess[bytes]:
    """At its prompt."""
    shell: asyncssh.SSHClientProcess[bytes] = await client.create_process(
        "PS1='rea''dy>' exec bash --norc -i", term_type="xterm", term_size=(80, 24), encoding=None
    )
    seen = b""
    while PROMPT not in seen:
        seen += await asyncio.wait_for(shell.stdout.read(4096), TIMEOUT)
    return shell


async def _alone(line: dict[str, Any], key: asyncssh.SSHKey) -> list[float]:
    """Milliseconds until one person is inside whom nobody disturbs."""
    took = []
    for _ in range(10):
        began = time.perf_counter()
        async with _connected(line, key) as client:
            await _shell(client)
            took.append((time.perf_counter() - began) * 1000)
    return took


def _copy(line: dict[str, Any], key: asyncssh.SSHKey, place: Path, megabytes: int) -> list[Row]:
    """Into the task and out of it, with OpenSSH's own scp."""
    if shutil.which("scp") is None:
        return [Row("ssh: files by scp", None, "MB/s", None, "skipped: OpenSSH is not installed")]
    source, back, there = place / "source", place / "back", f"{line['user']}@127.0.0.1:big"
    source.write_bytes(os.urandom(megabytes * MB))
    into = _scp(line, key, place, str(source), there)
    out = _scp(line, key, place, there, str(back))
    if not filecmp.cmp(source, back, shallow=False):
        raise RuntimeError("what came back is not what was sent")
    note = f"{megabytes} MB, compared"
    return [
        Row("ssh: scp into a task", megabytes / into, "MB/s", at_least(20), note),
        Row("ssh: scp out of a task", megabytes / out, "MB/s", at_least(20), note),
    ]


def _scp(line: dict[str, Any], key: asyncssh.SSHKey, place: Path, source: str, target: str) -> float:
    """The seconds it took."""
    private = place / "key"
    key.write_private_key(str(private))
    private.chmod(0o600)
    given = (f"IdentityFile={private}", "IdentityAgent=none", "BatchMode=yes", "StrictHostKeyChecking=no")
    known = (f"UserKnownHostsFile={place / 'known_hosts'}", "LogLevel=ERROR")
    options = [word for each in (*given, *known) for word in ("-o", each)]
    began = time.perf_counter()
    subprocess.run(["scp", "-F", "none", *options, "-P", str(line["port"]), source, target], check=True)
    return time.perf_counter() - began

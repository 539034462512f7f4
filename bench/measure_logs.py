"""Reading logs: the end of a huge one, the delay of following, and whether a reader slows the job that writes."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from statistics import median

from .client import Connection, with_query
from .harness import MB, BenchServer, Options, say, server
from .rows import Row, at_least, below, percentile

LINE = "the quick brown fox jumps over the lazy dog, and the log keeps every single step of its long way"
LAST_LINES = 2000
TICKS_SKIPPED = 10  # printed while the follower still connects
PACE = 200  # MB/s
PIECE = 10  # MB
SETTLE = 1  # seconds a writer waits, for its reader to connect

BIG = """\
name: big-log
resources: {{cpu: 1, memory: {memory}}}
command: |
  yes '{line}' | head -c {size} || true
  echo
  seq 1 {last}
"""
TICKS = """\
name: ticks
resources: {{cpu: 0.5, memory: 256Mi}}
command: |
  for i in $(seq {count}); do echo "$EPOCHREALTIME"; sleep 0.02; done
"""
# The writer is one process that copies from memory, so that it needs one core and no disk to read from.
FULL_SPEED = """\
name: full-speed
resources: {{cpu: 1, memory: {memory}}}
command: |
  yes '{line}' | head -c {piece}000000 >/dev/shm/piece || true
  sleep {settle}
  begin=$EPOCHREALTIME
  cat {pieces}
  echo "$begin $EPOCHREALTIME" >&2
"""
PACED = """\
name: paced
resources: {{cpu: 1, memory: {memory}}}
command: |
  yes '{line}' | head -c {piece}000000 >/dev/shm/piece || true
  sleep {settle}
  begin=${{EPOCHREALTIME/./}}
  for ((i = 1; i <= {count}; i++)); do
    cat /dev/shm/piece
    ahead=$((begin + i * {step} - ${{EPOCHREALTIME/./}}))
    if ((ahead > 0 && i < {count})); then sleep "0.$(printf %06d "$ahead")"; fi
  done
  end=${{EPOCHREALTIME/./}}
  echo "${{begin::-6}}.${{begin: -6}} ${{end::-6}}.${{end: -6}}" >&2
"""


def measure(options: Options) -> list[Row]:
    with server("logs", options) as running:
        return [*_follow_delay(running, options), *_reader_slows(running, options), *_end_of_huge_log(running, options)]


# -- the end of a huge log


def _end_of_huge_log(running: BenchServer, options: Options) -> list[Row]:
    size = options.pick(5_000_000_000, 500_000_000)
    what = f"{size / 1e9:g} GB log"
    say(f"logs: a job writes a {what}")
    text = BIG.format(line=LINE, size=size, last=LAST_LINES, memory=_memory(running))
    job = running.run(text)["id"]
    before = running.rss()
    peak = _reset_peak(running.pid)
    rows = []
    for name, query in {"last 2000 lines": {"lines": LAST_LINES}, "last 4096 bytes": {"bytes": 4096}}.items():
        _check(running.log(job, **query), query)
        took = [_time(running, job, stream=stream, **query) for stream in ("merged", "stdout") for _ in range(25)]
        note = f"merged and stdout, p50 {percentile(took, 50):.1f} ms, worst {max(took):.1f} ms"
        rows.append(Row(f"logs: {name} of a {what}, p95", percentile(took, 95), "ms", below(50), note))
    extra = (_peak(running.pid) if peak else running.rss()) - before
    note = "peak while answering" if peak else "after answering"
    return [*rows, Row(f"logs: extra memory for the {what}", extra, "MB", below(50), note)]


def _check(answer: bytes, query: dict[str, int]) -> None:
    """A fast wrong answer is worth nothing."""
    full = "".join(f"{number}\n" for number in range(1, LAST_LINES + 1)).encode()
    expected = full if "lines" in query else full[-query["bytes"] :]
    if answer != expected:
        raise RuntimeError(f"the end of the log is wrong: {answer[:100]!r} … {answer[-100:]!r}")


def _time(running: BenchServer, job: str, **query: object) -> float:
    with running.connect() as connection:
        began = time.perf_counter()
        status, _ = connection.request("GET", with_query(f"/jobs/{job}/log", query))
        took = (time.perf_counter() - began) * 1000
    if status != 200:
        raise RuntimeError(f"the log answered {status}")
    return took


def _reset_peak(pid: int) -> bool:
    try:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _peak(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / MB
    raise RuntimeError("no peak memory in /proc")


# -- following


def _follow_delay(running: BenchServer, options: Options) -> list[Row]:
    count = options.pick(300, 100)
    say("logs: following a job that prints the time")
    job = running.submit(TICKS.format(count=count))
    delays = []
    with running.connect() as connection:
        for text, came in _events(connection, job):
            delays += [(came - float(line)) * 1000 for line in text.splitlines() if line]
    if len(delays) != count:
        raise RuntimeError(f"{len(delays)} of {count} lines were followed")
    counted = delays[TICKS_SKIPPED:]
    note = f"p50 {percentile(counted, 50):.0f} ms, {len(counted)} lines, one each 20 ms"
    return [Row("logs: follow delay, p95", percentile(counted, 95), "ms", below(200), note)]


def _events(connection: Connection, job: str) -> list[tuple[str, float]]:
    """The text of each event with the moment it came."""
    found, rest = [], b""
    for piece in connection.stream(f"/jobs/{job}/log/follow"):
        came = time.time()
        *whole, rest = (rest + piece).replace(b"\r\n", b"\n").split(b"\n\n")
        for event in whole:
            lines = dict(line.split(b": ", 1) for line in event.split(b"\n") if b": " in line)
            if lines.get(b"event") == b"log":
                found.append((json.loads(lines[b"data"])["text"], came))
            elif lines.get(b"event") == b"end":
                return found
    return found


# -- a reader beside a writer


def _reader_slows(running: BenchServer, options: Options) -> list[Row]:
    pairs, size = options.pick(3, 1), options.pick(1000, 300)
    memory = _memory(running)
    full = FULL_SPEED.format(
        line=LINE, piece=PIECE, settle=SETTLE, pieces=" ".join(["/dev/shm/piece"] * (size // PIECE)), memory=memory
    )
    paced = PACED.format(
        line=LINE, piece=PIECE, settle=SETTLE, count=size // PIECE, step=PIECE * 1_000_000 // PACE, memory=memory
    )
    say(f"logs: {size} MB at {PACE} MB/s, alone and followed")
    pace_alone, _ = _rate(running, paced, size, reader=False)
    pace, read = _rate(running, paced, size, reader=True)
    note = f"alone {pace_alone:.0f}; the reader had {read / size * 100:.0f} % at its end"
    row = Row(f"logs: job that prints {PACE} MB/s, with a reader", pace, "MB/s", at_least(PACE), note)
    alone, followed = [], []
    for number in range(pairs):
        say(f"logs: {size} MB at full speed, alone and followed, pair {number + 1} of {pairs}")
        alone.append(_rate(running, full, size, reader=False)[0])
        followed.append(_rate(running, full, size, reader=True)[0])
    ratio = median(other / mine for mine, other in zip(alone, followed, strict=True))
    cores = f"{os.cpu_count()} cores for writer, server and reader"
    return [
        row,
        Row("logs: full-speed job with a reader", median(followed), "MB/s", at_least(PACE), f"median of {pairs}"),
        Row("logs: full-speed job with a reader, against alone", ratio, "×", None, cores),
    ]


def _rate(running: BenchServer, text: str, size: int, *, reader: bool) -> tuple[float, float]:
    """MB/s as the job itself measured it, and the MB a reader had got by then."""
    os.sync()  # what an earlier job wrote must not be paid for by this one
    job = running.submit(text)
    follower = _Follower(running, job) if reader else None
    try:
        ended = running.wait(job)
        read = follower.count() if follower else 0.0
    finally:
        if follower:
            follower.stop()
    if ended["state"] != "Succeeded":
        raise RuntimeError(f"{ended['name']} ended as {ended['state']}: {ended['message']}")
    begin, end = map(float, running.log(job, stream="stderr").split())
    return size / (end - begin), read


class _Follower:
    """Reads a log as fast as it is given, in a process of its own."""

    def __init__(self, running: BenchServer, job: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._count = context.Value("q", 0)
        self._process = context.Process(
            target=_follow, args=(running.port, running.token, job, self._count), daemon=True
        )
        self._process.start()

    def count(self) -> float:
        """MB so far."""
        return float(self._count.value) / MB

    def stop(self) -> None:
        self._process.kill()
        self._process.join()


def _follow(port: int, token: str, job: str, count: Synchronized[int]) -> None:
    with Connection(port, token) as connection:
        for piece in connection.stream(f"/jobs/{job}/log", follow="true"):
            count.value += len(piece)


def _memory(running: BenchServer) -> str:
    """What a job writes is charged to it until it is on disk: give it room."""
    with running.connect() as connection:
        total = connection.get("/capacity")["nodes"][0]["memory"]
    return f"{min(8 * 1024, int(total / 1024**2 * 0.6))}Mi"

"""Reading logs: the end of a huge log, the delay of following, and whether a reader slows down the job."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from statistics import median

from .client import Connection, build_path
from .harness import MB, BenchServer, Options, print_progress, start_server
from .rows import Row, at_least, below, percentile

LOG_LINE = "the quick brown fox jumps over the lazy dog, and the log keeps every single step of its long way"
LAST_LINES = 2000
SKIPPED_LINES = 10  # printed while the follower connects
PACED_RATE = 200  # MB/s
BLOCK_SIZE = 10  # MB that the writer copies at a time
SETTLE_SECONDS = 1  # that a writer waits for its reader

BIG_LOG_JOB = """\
name: big-log
resources: {{cpu: 1, memory: {memory}}}
command: |
  yes '{line}' | head -c {size} || true
  echo
  seq 1 {last}
"""
CLOCK_JOB = """\
name: ticks
resources: {{cpu: 0.5, memory: 256Mi}}
command: |
  for i in $(seq {count}); do echo "$EPOCHREALTIME"; sleep 0.02; done
"""
# The writer copies from memory in one process, so that it needs one core and reads no disk.
FULL_SPEED_JOB = """\
name: full-speed
resources: {{cpu: 1, memory: {memory}}}
command: |
  yes '{line}' | head -c {piece}000000 >/dev/shm/piece || true
  sleep {settle}
  begin=$EPOCHREALTIME
  cat {pieces}
  echo "$begin $EPOCHREALTIME" >&2
"""
PACED_JOB = """\
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
    with start_server("logs", options) as server:
        return [
            *_measure_follow_delay(server, options),
            *_measure_reader_effect(server, options),
            *_measure_end_of_log(server, options),
        ]


# -- the end of a huge log


def _measure_end_of_log(server: BenchServer, options: Options) -> list[Row]:
    size = options.pick_size(5_000_000_000, 500_000_000)
    log_name = f"{size / 1e9:g} GB log"
    print_progress(f"logs: a job writes a {log_name}")
    text = BIG_LOG_JOB.format(line=LOG_LINE, size=size, last=LAST_LINES, memory=_choose_memory(server))
    job = server.run_job(text)["id"]
    memory_before = server.read_memory()
    has_peak = _reset_peak_memory(server.pid)
    rows = []
    for name, query in {"last 2000 lines": {"lines": LAST_LINES}, "last 4096 bytes": {"bytes": 4096}}.items():
        _check_log_end(server.read_log(job, **query), query)
        latencies = [
            _measure_request(server, job, stream=stream, **query) for stream in ("merged", "stdout") for _ in range(25)
        ]
        note = f"merged and stdout, p50 {percentile(latencies, 50):.1f} ms, worst {max(latencies):.1f} ms"
        rows.append(Row(f"logs: {name} of a {log_name}, p95", percentile(latencies, 95), "ms", below(50), note))
    extra = (_read_peak_memory(server.pid) if has_peak else server.read_memory()) - memory_before
    note = "peak while answering" if has_peak else "after answering"
    return [*rows, Row(f"logs: extra memory for the {log_name}", extra, "MB", below(50), note)]


def _check_log_end(response: bytes, query: dict[str, int]) -> None:
    """Check that the response is the end of the log."""
    all_lines = "".join(f"{number}\n" for number in range(1, LAST_LINES + 1)).encode()
    expected = all_lines if "lines" in query else all_lines[-query["bytes"] :]
    if response != expected:
        raise RuntimeError(f"the end of the log is wrong: {response[:100]!r} … {response[-100:]!r}")


def _measure_request(server: BenchServer, job: str, **query: object) -> float:
    with server.connect() as connection:
        started = time.perf_counter()
        status, _ = connection.request("GET", build_path(f"/jobs/{job}/log", query))
        milliseconds = (time.perf_counter() - started) * 1000
    if status != 200:
        raise RuntimeError(f"the log answered {status}")
    return milliseconds


def _reset_peak_memory(pid: int) -> bool:
    try:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _read_peak_memory(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / MB
    raise RuntimeError("no peak memory in /proc")


# -- following


def _measure_follow_delay(server: BenchServer, options: Options) -> list[Row]:
    count = options.pick_size(300, 100)
    print_progress("logs: following a job that prints the time")
    job = server.submit_job(CLOCK_JOB.format(count=count))
    delays = []
    with server.connect() as connection:
        for text, received_at in read_events(connection, job):
            delays += [(received_at - float(line)) * 1000 for line in text.splitlines() if line]
    if len(delays) != count:
        raise RuntimeError(f"{len(delays)} of {count} lines were followed")
    counted_delays = delays[SKIPPED_LINES:]
    note = f"p50 {percentile(counted_delays, 50):.0f} ms, {len(counted_delays)} lines, one each 20 ms"
    return [Row("logs: follow delay, p95", percentile(counted_delays, 95), "ms", below(200), note)]


def read_events(connection: Connection, job: str) -> list[tuple[str, float]]:
    """Follow a log to its end. Return the text of each event, with the time of its arrival."""
    events, incomplete = [], b""
    for chunk in connection.iter_stream(f"/jobs/{job}/log/follow"):
        received_at = time.time()
        *complete, incomplete = (incomplete + chunk).replace(b"\r\n", b"\n").split(b"\n\n")
        for event in complete:
            fields = dict(line.split(b": ", 1) for line in event.split(b"\n") if b": " in line)
            if fields.get(b"event") == b"log":
                events.append((json.loads(fields[b"data"])["text"], received_at))
            elif fields.get(b"event") == b"end":
                return events
    return events


# -- a reader while a job writes


def _measure_reader_effect(server: BenchServer, options: Options) -> list[Row]:
    pairs, size = options.pick_size(3, 1), options.pick_size(1000, 300)
    memory = _choose_memory(server)
    full_speed_job = FULL_SPEED_JOB.format(
        line=LOG_LINE,
        piece=BLOCK_SIZE,
        settle=SETTLE_SECONDS,
        pieces=" ".join(["/dev/shm/piece"] * (size // BLOCK_SIZE)),
        memory=memory,
    )
    paced_job = PACED_JOB.format(
        line=LOG_LINE,
        piece=BLOCK_SIZE,
        settle=SETTLE_SECONDS,
        count=size // BLOCK_SIZE,
        step=BLOCK_SIZE * 1_000_000 // PACED_RATE,
        memory=memory,
    )
    print_progress(f"logs: {size} MB at {PACED_RATE} MB/s, alone and followed")
    rate_alone, _ = _measure_rate(server, paced_job, size, with_reader=False)
    rate, megabytes_read = _measure_rate(server, paced_job, size, with_reader=True)
    note = f"alone {rate_alone:.0f}; the reader had {megabytes_read / size * 100:.0f} % at its end"
    row = Row(f"logs: job that prints {PACED_RATE} MB/s, with a reader", rate, "MB/s", at_least(PACED_RATE), note)
    rates_alone, rates_followed = [], []
    for number in range(pairs):
        print_progress(f"logs: {size} MB at full speed, alone and followed, pair {number + 1} of {pairs}")
        rates_alone.append(_measure_rate(server, full_speed_job, size, with_reader=False)[0])
        rates_followed.append(_measure_rate(server, full_speed_job, size, with_reader=True)[0])
    ratio = median(followed / alone for alone, followed in zip(rates_alone, rates_followed, strict=True))
    cores = f"{os.cpu_count()} cores for writer, server and reader"
    return [
        row,
        Row(
            "logs: full-speed job with a reader",
            median(rates_followed),
            "MB/s",
            at_least(PACED_RATE),
            f"median of {pairs}",
        ),
        Row("logs: full-speed job with a reader, against alone", ratio, "×", None, cores),
    ]


def _measure_rate(server: BenchServer, text: str, size: int, *, with_reader: bool) -> tuple[float, float]:
    """Return the MB/s that the job measured, and the MB that the reader had at its end."""
    os.sync()  # writes of an earlier job must not slow this one down
    job = server.submit_job(text)
    follower = _LogFollower(server, job) if with_reader else None
    try:
        record = server.wait_for_end(job)
        megabytes_read = follower.get_megabytes() if follower else 0.0
    finally:
        if follower:
            follower.stop()
    if record["state"] != "Succeeded":
        raise RuntimeError(f"{record['name']} ended as {record['state']}: {record['message']}")
    begin, end = map(float, server.read_log(job, stream="stderr").split())
    return size / (end - begin), megabytes_read


class _LogFollower:
    """A process that reads a log as fast as the server sends it."""

    def __init__(self, server: BenchServer, job: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._byte_count = context.Value("q", 0)
        self._process = context.Process(
            target=_follow_log, args=(server.port, server.token, job, self._byte_count), daemon=True
        )
        self._process.start()

    def get_megabytes(self) -> float:
        """Return the MB read so far."""
        return float(self._byte_count.value) / MB

    def stop(self) -> None:
        self._process.kill()
        self._process.join()


def _follow_log(port: int, token: str, job: str, byte_count: Synchronized[int]) -> None:
    with Connection(port, token) as connection:
        for chunk in connection.iter_stream(f"/jobs/{job}/log", follow="true"):
            byte_count.value += len(chunk)


def _choose_memory(server: BenchServer) -> str:
    """Return a memory request that includes the page cache of a job's output, which counts until it is on disk."""
    with server.connect() as connection:
        total = connection.get_json("/capacity")["nodes"][0]["memory"]
    return f"{min(8 * 1024, int(total / 1024**2 * 0.6))}Mi"

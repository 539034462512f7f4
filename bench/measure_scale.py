"""A server with a million finished jobs in its store: start-up time, response times of job lists, and memory."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from .client import Connection
from .fill_store import GROUPS, USERS
from .harness import ROOT, BenchServer, Options, create_bench_folder, print_progress
from .rows import Row, below, percentile

START_COUNT = 3
QueryMaker = Callable[[int], dict[str, Any]]  # number of the request -> its parameters


def measure(options: Options) -> list[Row]:
    jobs, requests = options.pick_size(1_000_000, 50_000), options.pick_size(40, 20)
    with create_bench_folder("scale", options) as folder:
        fill_home(folder / "home", jobs)
        server = BenchServer(folder / "home")
        try:
            start_times = [_restart(server) for _ in range(START_COUNT)]
            note = f"worst of {START_COUNT}; {jobs:,} finished jobs"
            start_up = Row("scale: start-up", max(start_times), "s", below(3), note)
            with server.connect() as connection:
                lists = [
                    _measure_query(connection, name, make_query, requests)
                    for name, make_query in _make_queries().items()
                ]
                lists.append(_measure_paging(connection, requests))
                lists.append(_measure_member_list(server, connection, requests))
            return [
                start_up,
                *lists,
                Row("scale: server memory", server.read_memory(), "MB", below(300), "after all of these"),
            ]
        finally:
            server.stop()


def fill_home(home: Path, jobs: int) -> None:
    """Create a state folder with that many finished jobs."""
    started = time.monotonic()
    home.mkdir(parents=True)
    subprocess.run(
        [sys.executable, "-m", "bench.fill_store", str(home), str(jobs)], cwd=ROOT, check=True, stdout=sys.stderr
    )
    print_progress(f"scale: {jobs:,} jobs written in {time.monotonic() - started:.0f} s")


def _restart(server: BenchServer) -> float:
    server.stop()
    return server.start()


def _make_queries() -> dict[str, QueryMaker]:
    """Return the measured queries. Their parameters change with each request; some find nothing, which is slowest."""
    now = datetime.now(UTC)
    return {
        "list page": lambda n: {},
        "by state": lambda n: {"state": ("Failed", "Succeeded", "Cancelled", "Failed,Cancelled")[n % 4]},
        "by state, none": lambda n: {"state": "Running"},
        "by user": lambda n: {"user": _pick_name(USERS, n)},
        "by group": lambda n: {"group": _pick_name(GROUPS, n)},
        "by user, none": lambda n: {"user": f"nobody{n}"},
        "by user, group and state": lambda n: {
            "user": _pick_name(USERS, n),
            "group": _pick_name(GROUPS, n),
            "state": "Failed",
        },
        "mine": lambda n: {"mine": "true"},
        "by text": lambda n: {"text": ("train", "bert", "whisper", f"tune-llama-{n}")[n % 4]},
        "by text, none": lambda n: {"text": f"nothing-like-{n}"},
        "by text and state": lambda n: {"text": ("resnet", "tables", "zz")[n % 3], "state": "Failed"},
        "by time": lambda n: {
            "after": _format_time(now - timedelta(days=300 - n)),
            "before": _format_time(now - timedelta(days=299 - n)),
        },
        "by time and user": lambda n: {
            "before": _format_time(now - timedelta(days=9 * n)),
            "user": _pick_name(USERS, n),
        },
        "500 at a time": lambda n: {"limit": 500},
    }


def _format_time(value: datetime) -> str:
    return value.strftime("%Y-%m-%dT%H:%M:%SZ")


def _pick_name(names: tuple[str, ...], number: int) -> str:
    return names[number % len(names)]


def _measure_query(connection: Connection, name: str, make_query: QueryMaker, requests: int) -> Row:
    latencies, found = [], 0
    for number in range(requests):
        parameters = make_query(number)
        started = time.perf_counter()
        page = connection.get_json("/jobs", **parameters)
        latencies.append((time.perf_counter() - started) * 1000)
        found += len(page["items"])
    if (found == 0) != (name == "mine" or name.endswith("none")):
        raise RuntimeError(f"{name}: {found} jobs found")
    return _make_row(name, latencies)


def _measure_paging(connection: Connection, requests: int) -> Row:
    """Request page after page: with keyset paging, later pages must not be slower."""
    latencies, cursor = [], None
    for _ in range(requests):
        started = time.perf_counter()
        cursor = connection.get_json("/jobs", limit=200, cursor=cursor)["next"]
        latencies.append((time.perf_counter() - started) * 1000)
    return _make_row("next pages of 200", latencies)


def _measure_member_list(server: BenchServer, admin: Connection, requests: int) -> Row:
    """Request the list as a user who is not an admin, with the jobs of some groups only."""
    name = "list page of a member of 3 groups"
    groups = GROUPS[:3]
    try:
        for group in groups:
            _post_json(admin, "/groups", {"name": group})
        _post_json(admin, "/users", {"name": "member", "groups": groups})
        token = _post_json(admin, "/tokens", {"name": "bench", "user": "member"})["token"]
    except RuntimeError as error:
        return Row(f"scale: {name}, p95", None, "ms", below(100), f"skipped: {error}")
    with Connection(server.port, token) as connection:
        return _measure_query(connection, name, lambda n: {"state": (None, "Failed")[n % 2]}, requests)


def _post_json(admin: Connection, path: str, body: dict[str, Any]) -> dict[str, Any]:
    headers = "Content-Type: application/json\r\n"
    status, response = admin.request("POST", f"/api/v1{path}", json.dumps(body).encode(), headers)
    if status not in (200, 201, 409):
        raise RuntimeError(f"POST {path}: {status} {response[:300]!r}")
    return dict(json.loads(response))


def _make_row(name: str, latencies: list[float]) -> Row:
    note = f"p50 {percentile(latencies, 50):.1f} ms, worst {max(latencies):.1f} ms, {len(latencies)} requests"
    return Row(f"scale: {name}, p95", percentile(latencies, 95), "ms", below(100), note)

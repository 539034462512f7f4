"""A server with a million finished jobs behind it."""

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
from .fill import GROUPS, USERS
from .harness import ROOT, BenchServer, Options, folder, say
from .rows import Row, below, percentile

STARTS = 3
Query = Callable[[int], dict[str, Any]]  # number of the request -> what it asks


def measure(options: Options) -> list[Row]:
    jobs, requests = options.pick(1_000_000, 50_000), options.pick(40, 20)
    with folder("scale", options) as place:
        fill_home(place / "home", jobs)
        running = BenchServer(place / "home")
        try:
            took = [_start_anew(running) for _ in range(STARTS)]
            note = f"worst of {STARTS}; {jobs:,} finished jobs"
            start_up = Row("scale: start-up", max(took), "s", below(3), note)
            with running.connect() as connection:
                lists = [_timed(connection, name, query, requests) for name, query in _queries().items()]
                lists.append(_deep_page(connection, requests))
                lists.append(_member_page(running, connection, requests))
            return [
                start_up,
                *lists,
                Row("scale: server memory", running.rss(), "MB", below(300), "after all of these"),
            ]
        finally:
            running.stop()


def fill_home(home: Path, jobs: int) -> None:
    began = time.monotonic()
    home.mkdir(parents=True)
    subprocess.run([sys.executable, "-m", "bench.fill", str(home), str(jobs)], cwd=ROOT, check=True, stdout=sys.stderr)
    say(f"scale: {jobs:,} jobs written in {time.monotonic() - began:.0f} s")


def _start_anew(running: BenchServer) -> float:
    running.stop()
    return running.start()


def _queries() -> dict[str, Query]:
    """Arguments change from request to request, and some find nothing: the dearest answer there is."""
    now = datetime.now(UTC)
    return {
        "list page": lambda n: {},
        "by state": lambda n: {"state": ("Failed", "Succeeded", "Cancelled", "Failed,Cancelled")[n % 4]},
        "by state, none": lambda n: {"state": "Running"},
        "by user": lambda n: {"user": _one(USERS, n)},
        "by group": lambda n: {"group": _one(GROUPS, n)},
        "by user, none": lambda n: {"user": f"nobody{n}"},
        "by user, group and state": lambda n: {"user": _one(USERS, n), "group": _one(GROUPS, n), "state": "Failed"},
        "mine": lambda n: {"mine": "true"},
        "by text": lambda n: {"text": ("train", "bert", "whisper", f"tune-llama-{n}")[n % 4]},
        "by text, none": lambda n: {"text": f"nothing-like-{n}"},
        "by text and state": lambda n: {"text": ("resnet", "tables", "zz")[n % 3], "state": "Failed"},
        "by time": lambda n: {
            "after": _iso(now - timedelta(days=300 - n)),
            "before": _iso(now - timedelta(days=299 - n)),
        },
        "by time and user": lambda n: {"before": _iso(now - timedelta(days=9 * n)), "user": _one(USERS, n)},
        "500 at a time": lambda n: {"limit": 500},
    }


def _iso(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def _one(names: tuple[str, ...], number: int) -> str:
    return names[number % len(names)]


def _timed(connection: Connection, name: str, query: Query, requests: int) -> Row:
    took, found = [], 0
    for number in range(requests):
        asked = query(number)
        began = time.perf_counter()
        page = connection.get("/jobs", **asked)
        took.append((time.perf_counter() - began) * 1000)
        found += len(page["items"])
    if (found == 0) != (name == "mine" or name.endswith("none")):
        raise RuntimeError(f"{name}: {found} jobs found")
    return _row(name, took)


def _deep_page(connection: Connection, requests: int) -> Row:
    """Page after page; keyset paging must not grow dearer."""
    took, cursor = [], None
    for _ in range(requests):
        began = time.perf_counter()
        cursor = connection.get("/jobs", limit=200, cursor=cursor)["next"]
        took.append((time.perf_counter() - began) * 1000)
    return _row("next pages of 200", took)


def _member_page(running: BenchServer, admin: Connection, requests: int) -> Row:
    """The list of someone who is no admin: the jobs of some groups only."""
    name = "list page of a member of 3 groups"
    groups = GROUPS[:3]
    try:
        for group in groups:
            _post(admin, "/groups", {"name": group})
        _post(admin, "/users", {"name": "member", "groups": groups})
        token = _post(admin, "/tokens", {"name": "bench", "user": "member"})["token"]
    except RuntimeError as error:
        return Row(f"scale: {name}, p95", None, "ms", below(100), f"skipped: {error}")
    with Connection(running.port, token) as connection:
        return _timed(connection, name, lambda n: {"state": (None, "Failed")[n % 2]}, requests)


def _post(admin: Connection, path: str, body: dict[str, Any]) -> dict[str, Any]:
    headers = "Content-Type: application/json\r\n"
    status, answer = admin.request("POST", f"/api/v1{path}", json.dumps(body).encode(), headers)
    if status not in (200, 201, 409):
        raise RuntimeError(f"POST {path}: {status} {answer[:300]!r}")
    return dict(json.loads(answer))


def _row(name: str, took: list[float]) -> Row:
    note = f"p50 {percentile(took, 50):.1f} ms, worst {max(took):.1f} ms, {len(took)} requests"
    return Row(f"scale: {name}, p95", percentile(took, 95), "ms", below(100), note)

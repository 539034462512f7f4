"""A real server killed again and again while jobs end and their notifications go out to a receiver that fails, hangs
up and goes away: every notification arrives once, or is known to have been cut off, and no job waits for any of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.services.webhook_receiver import Hook

from .server import TIMEOUT, Server

KILLS = 3
PER_LIFE = 6  # jobs submitted between two kills


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    running = Server(tmp_path / "home", HOLDFAST_NOTIFICATIONS_FIRST_WAIT="0.05", HOLDFAST_NOTIFICATIONS_TIMEOUT="5")
    running.start()
    yield running
    running.stop()


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook(*[500, Hook.HANG_UP, 503, 200, 429] * 4)
    yield made
    made.close()


def post(server: Server, path: str, **body: Any) -> dict[str, Any]:
    with server.client() as client:
        reply = client.post(path, json=body)
    assert reply.status_code in (200, 201), reply.text
    return dict(reply.json())


def settled(server: Server, count: int) -> list[dict[str, Any]]:
    """Every notification, once so many are over."""
    began = time.monotonic()
    while time.monotonic() - began < TIMEOUT:
        items: list[dict[str, Any]] = server.get("/me/notifications", limit=500).json()["items"]
        if sum(item["state"] in ("sent", "unconfirmed", "failed") for item in items) >= count:
            return items
        time.sleep(0.1)
    raise AssertionError(f"still under way: {Counter(item['state'] for item in items)}\n{server.log()[-2000:]}")


@pytest.mark.release
def test_each_notification_arrives_once_however_often_the_server_dies(server: Server, hook: Hook) -> None:
    post(server, "/me/notifications/recipients", way="webhook", address=hook.url, events=["failed", "succeeded"])
    jobs = []
    for life in range(KILLS):
        for number in range(PER_LIFE):
            jobs.append(server.submit(f"name: n{number}\ncommand: exit {number % 2}\n")["id"])
        if life <= KILLS // 2:
            hook.seen.wait(lambda posts, at_least=2 * (life + 1): len(posts) >= at_least)
        else:
            server.wait(jobs[-1])
        if life == KILLS // 2:
            hook.close()  # gone, while the next jobs end
        server.kill()
        server.start()
    hook.open()
    for job in jobs:
        server.wait(job)
    notifications = settled(server, len(jobs))
    assert sorted(item["job"] for item in notifications) == sorted(jobs)
    assert Counter(item["event"] for item in notifications) == {"failed": len(jobs) // 2, "succeeded": len(jobs) // 2}
    states = {item["id"]: item["state"] for item in notifications}
    assert set(states.values()) <= {"sent", "unconfirmed"}
    arrived = Counter(one.id for one in hook.taken)
    assert max(arrived.values()) == 1
    assert {id for id, state in states.items() if state == "sent"} <= set(arrived)
    # What is not known to have arrived was in delivery when the server was killed: a few for each at most.
    assert sum(state == "unconfirmed" for state in states.values()) <= 4 * KILLS


def test_no_job_waits_for_a_receiver_that_hangs(server: Server, hook: Hook) -> None:
    hook.answers = [Hook.SILENT] * 1000
    made = post(server, "/me/notifications/recipients", way="webhook", address=hook.url, events=["started", "failed"])
    assert made["address"].endswith("mnop")
    assert "abcdefgh" not in made["address"]
    jobs = [server.submit("name: quick\ncommand: exit 3\n", notify="succeeded")["id"] for _ in range(4)]
    assert {server.wait(job)["state"] for job in jobs} == {"Failed"}
    assert hook.taken == []
    hook.seen.wait(lambda posts: len(posts) >= 1)
    hook.speak.set()

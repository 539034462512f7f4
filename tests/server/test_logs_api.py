from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from holdfast.core.states import JobState
from holdfast.engines.base import LogStream
from holdfast.server.rest.logs import LogEventEncoder
from holdfast.store.jobs import records as job_rows

from .rig import Rig, begin, error_of

pytestmark = pytest.mark.anyio

TALKER = "name: talker\ncommand: |\n  echo one\n  echo two >&2\n  echo three\n"
SLEEPER = "name: sleeper\ncommand: sleep 100\n"


@pytest.fixture
async def talker(rig: Rig) -> str:
    return (await rig.house.run(TALKER)).id


@pytest.fixture
async def sleeper(rig: Rig) -> str:
    """A running job's id."""
    job = await rig.house.submit(SLEEPER)
    return (await rig.house.until(job.id, JobState.RUNNING)).id


def attempt(job_id: str) -> str:
    return f"{job_id}.0.main-0.0"


async def test_downloads_have_a_safe_name(rig: Rig, talker: str) -> None:
    response = await rig.get(f"/jobs/{talker}/log?download=true&stream=stdout")
    assert response.headers["content-disposition"] == f'attachment; filename="{attempt(talker)}.stdout.log"'


async def test_head_has_the_headers_and_no_body(rig: Rig, talker: str, sleeper: str) -> None:
    response = await rig.ask("HEAD", f"/jobs/{talker}/log")
    assert (response.content, response.headers["x-log-size"]) == (b"", "14")
    response = await asyncio.wait_for(rig.ask("HEAD", f"/jobs/{sleeper}/log?follow=true"), 20)
    assert response.headers["x-log-complete"] == "false"
    await asyncio.wait_for(rig.ask("HEAD", f"/jobs/{sleeper}/log/follow"), 20)


async def test_a_removed_log_answers_with_its_date(rig: Rig, talker: str) -> None:
    await rig.house.store.write(job_rows.mark_logs_removed, [attempt(talker)], rig.house.clock.now())
    for path in ("log", "log?follow=true", "log/follow", "log/search?q=x", "log/times"):
        error = error_of(await rig.get(f"/jobs/{talker}/{path}"), 410)
        assert error["code"] == "expired"
        assert "2026-03-01" in error["message"]
    task = (await rig.get(f"/jobs/{talker}/tasks")).json()["items"][0]
    assert (task["logs"], task["logs_expired_at"]) == ("expired", "2026-03-01T12:00:00Z")


async def test_no_log_yet(rig: Rig) -> None:
    await rig.house.submit("name: big\ncommand: sleep 9\nresources: {cpu: 4}\n")
    job = await rig.house.submit(SLEEPER)
    error = error_of(await rig.get(f"/jobs/{job.id}/log"), 404)
    assert error["code"] == "no_log"
    assert error["hint"]


# -- following


def events_in(received: bytes) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for block in received.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and not line.startswith(":"))
        if "event" in fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found


async def test_following_as_plain_bytes(rig: Rig, sleeper: str) -> None:
    rig.house.engine.write_log(attempt(sleeper), b"before\n")
    exchange = begin(rig, f"/jobs/{sleeper}/log", query="follow=true")
    await exchange.until(b"before\n")
    rig.house.engine.write_log(attempt(sleeper), b"\xff after")
    await exchange.until(b"\xff after")
    assert not exchange.ended
    rig.house.engine.finish_task(attempt(sleeper))
    await exchange.finish()
    assert exchange.received == b"before\n\xff after"
    assert exchange.headers["x-log-start"] == "0"


async def test_following_can_begin_with_the_last_lines(rig: Rig, sleeper: str) -> None:
    rig.house.engine.write_log(attempt(sleeper), b"1\n2\n3\n")
    exchange = begin(rig, f"/jobs/{sleeper}/log", query="follow=true&lines=1")
    await exchange.until(b"3\n")
    rig.house.engine.finish_task(attempt(sleeper))
    await exchange.finish()
    assert (exchange.received, exchange.headers["x-log-start"]) == (b"3\n", "4")


async def test_following_by_events(rig: Rig, sleeper: str) -> None:
    exchange = begin(rig, f"/jobs/{sleeper}/log/follow")
    rig.house.engine.write_log(attempt(sleeper), "é".encode()[:1])
    rig.house.engine.write_log(attempt(sleeper), "é".encode()[1:] + b" one\n", LogStream.STDOUT)
    await exchange.until(b" one")
    rig.house.engine.write_log(attempt(sleeper), b"two\n")
    await exchange.until(b"two")
    rig.house.engine.finish_task(attempt(sleeper), 3)
    await exchange.finish()
    assert exchange.headers["content-type"].startswith("text/event-stream")
    events = events_in(exchange.received)
    assert events[-1] == ("end", {"state": "Failed", "exit_code": 3, "task_state": "Failed"})
    logged = [data for name, data in events if name == "log"]
    assert "".join(data["text"] for data in logged) == "é one\ntwo\n"
    assert [data["start"] for data in logged[1:]] == [data["end"] for data in logged[:-1]]
    assert logged[-1]["end"] == 11


async def test_following_goes_on_after_the_last_event(rig: Rig, talker: str) -> None:
    response = await rig.get(f"/jobs/{talker}/log/follow", headers={"Last-Event-ID": "8"})
    assert [data["text"] for name, data in events_in(response.content) if name == "log"] == ["three\n"]
    response = await rig.get(f"/jobs/{talker}/log/follow?start=4", headers={"Last-Event-ID": "junk"})
    assert [data["start"] for name, data in events_in(response.content) if name == "log"] == [4]


@pytest.mark.parametrize("path", ["log/follow", "log?follow=true"])
async def test_a_client_that_leaves_leaves_nothing_behind(rig: Rig, sleeper: str, path: str) -> None:
    before = asyncio.all_tasks()
    path, _, query = path.partition("?")
    exchange = begin(rig, f"/jobs/{sleeper}/{path}", query=query)
    rig.house.engine.write_log(attempt(sleeper), b"hello")
    await exchange.until(b"hello")
    exchange.left.set()
    await exchange.finish()
    assert asyncio.all_tasks() == before


async def test_a_stuck_client_holds_one_chunk(rig: Rig, sleeper: str) -> None:
    """Nothing more is read of the log while the client does not take what it was sent."""
    exchange = begin(rig, f"/jobs/{sleeper}/log", query="follow=true")
    stuck = asyncio.Event()
    taken: list[int] = []
    send = exchange.send

    async def slow(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body" and message.get("body"):
            taken.append(len(message["body"]))
            await stuck.wait()
        await send(message)

    assert exchange.task is not None
    exchange.task.cancel()
    await asyncio.gather(exchange.task, return_exceptions=True)
    rig.house.engine.write_log(attempt(sleeper), b"x" * 4_000_000)
    exchange.task = asyncio.create_task(rig.app(exchange.scope, exchange.receive, slow))  # type: ignore[arg-type]
    while not taken:
        await asyncio.sleep(0)
    for _ in range(50):
        await asyncio.sleep(0)
    assert taken == [256 * 1024]
    stuck.set()
    rig.house.engine.finish_task(attempt(sleeper))
    await exchange.finish()
    assert sum(taken) == 4_000_000


def test_characters_survive_any_cut() -> None:
    text = "a é 語 🐙 \udcff".encode("utf-8", "surrogateescape")
    whole = text.decode("utf-8", "replace")
    for size in range(1, len(text) + 1):
        characters = LogEventEncoder(0)
        sent = b"".join(characters.encode_chunk(at, text[at : at + size]) for at in range(0, len(text), size))
        events = events_in(sent + characters.flush_remaining_bytes())
        assert "".join(data["text"] for _, data in events) == whole
        assert events[-1][1]["end"] == len(text)


def test_a_gap_is_shown_by_the_offsets() -> None:
    characters = LogEventEncoder(0)
    sent = characters.encode_chunk(0, b"abc\xc3") + characters.encode_chunk(100, b"def")
    shown = [(data["start"], data["end"], data["text"]) for _, data in events_in(sent)]
    assert shown == [(0, 3, "abc"), (3, 4, "\ufffd"), (100, 103, "def")]


# -- searching


async def test_search(rig: Rig, talker: str) -> None:
    response = await rig.get(f"/jobs/{talker}/log/search", params={"q": "t", "limit": 1})
    assert response.json() == {"hits": [{"offset": 4, "line_offset": 4, "text": "two"}], "next": 8}
    response = await rig.get(f"/jobs/{talker}/log/search", params={"q": "^T.*e$", "regex": True, "ignore_case": True})
    assert [hit["text"] for hit in response.json()["hits"]] == ["three"]
    for bad in ({}, {"q": ""}, {"q": "(", "regex": True}, {"q": "x", "limit": 0}, {"q": "x" * 2000}):
        error_of(await rig.get(f"/jobs/{talker}/log/search", params=bad), 400)


async def test_a_pattern_that_backtracks_elsewhere_is_answered(rig: Rig, sleeper: str) -> None:
    rig.house.engine.write_log(attempt(sleeper), b"a" * 5000 + b"!\n")
    response = await rig.get(f"/jobs/{sleeper}/log/search", params={"q": "(a+)+$", "regex": True})
    assert response.json() == {"hits": [], "next": None}


async def test_a_pattern_with_look_around_is_refused(rig: Rig, talker: str) -> None:
    response = await rig.get(f"/jobs/{talker}/log/search", params={"q": "t(?=wo)", "regex": True})
    error = error_of(response, 400)
    assert error["message"] == "Patterns do not support (?="
    assert "look-around" in error["hint"]


async def test_without_a_task_it_is_the_one_that_decided(rig: Rig) -> None:
    job = await rig.house.run("name: two\nroles:\n  a: {command: echo a}\n  b: {command: echo b; exit 3}\n")
    assert (await rig.get(f"/jobs/{job.id}")).json()["decided_by"] == "b-0"
    response = await rig.get(f"/jobs/{job.id}/log")
    assert (response.content, response.headers["x-log-task"]) == (b"b\n", "b-0")
    response = await rig.get(f"/jobs/{job.id}/log?task=a-0&follow=true")
    assert (response.content, response.headers["x-log-task"]) == (b"a\n", "a-0")
    found = (await rig.get(f"/jobs/{job.id}/log/search?q=b")).json()
    assert [hit["text"] for hit in found["hits"]] == ["b"]


async def test_it_is_told_when_bytes_were_written(rig: Rig, talker: str) -> None:
    found = (await rig.get(f"/jobs/{talker}/log/times")).json()
    assert [(piece["start"], piece["end"]) for piece in found["pieces"]] == [(0, 4), (4, 8), (8, 14)]
    assert found["next"] is None
    found = (await rig.get(f"/jobs/{talker}/log/times?start=5&count=4&limit=1")).json()
    assert [(piece["start"], piece["end"]) for piece in found["pieces"]] == [(5, 8)]
    assert found["next"] == 8
    assert (await rig.get(f"/jobs/{talker}/log/times?start=100")).json() == {"pieces": [], "next": None}
    error_of(await rig.get(f"/jobs/{talker}/log/times?limit=0"), 400)

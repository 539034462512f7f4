"""Logs of jobs as PrimeHub's clients read them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from holdfast.core.access import Actor
from holdfast.core.states import JobState
from holdfast.engines.base import LogStream
from holdfast.server.primehub.jobs.logs import CLIENT_CHUNK_SIZE, split_first_chunk, split_into_client_chunks

from .hub import Hub, watch

pytestmark = pytest.mark.anyio


def path_of(id: str) -> str:
    return f"/api/logs/namespaces/hub/phjobs/{id}"


def attempt(id: str) -> str:
    return f"{id}.0.main-0.0"


@pytest.fixture
async def sleeper(hub: Hub) -> str:
    id = await hub.ann.submit(command="sleep 1000")
    await hub.house.until(id, JobState.RUNNING)
    return id


async def test_the_whole_log_and_its_last_lines(hub: Hub) -> None:
    id = await hub.ann.run(hub, command="echo one\necho two >&2\necho three")
    whole = await hub.ann.http.get(path_of(id))
    assert (whole.status_code, whole.text) == (200, "one\ntwo\nthree\n")
    assert whole.headers["content-type"] == "text/plain; charset=utf-8"
    for asked, text in (
        ("follow=false", "one\ntwo\nthree\n"),
        ("follow=false&tailLines=2", "two\nthree\n"),
        ("tailLines=100", "one\ntwo\nthree\n"),
        ("tailLines=&persist=true", "one\ntwo\nthree\n"),
        ("follow=true&tailLines=1", "three\n"),
        ("follow=true", "one\ntwo\nthree\n"),
    ):
        assert (await hub.ann.http.get(f"{path_of(id)}?{asked}")).text == text, asked


async def test_following_until_the_job_ends(hub: Hub, sleeper: str) -> None:
    engine = hub.house.engine
    engine.write_log(attempt(sleeper), b"1\n2\n3\n")
    watched = watch(hub, hub.ann, path_of(sleeper), "follow=true&tailLines=2")
    await watched.until(b"3\n")
    engine.write_log(attempt(sleeper), b"4\nhalf a li", LogStream.STDERR)
    await watched.until(b"half a li")  # though nothing ends it
    engine.write_log(attempt(sleeper), b"ne\n")
    await watched.until(b"ne\n")
    assert not watched.ended
    engine.finish_task(attempt(sleeper))
    await watched.finish()
    assert watched.received == b"2\n3\n4\nhalf a line\n"


async def test_following_begins_before_the_job_does(hub: Hub) -> None:
    blocker = await hub.ann.submit(command="sleep 1000", instanceType="cpu-2")
    hub.house.clock.forward(1)  # or chance would choose who comes first
    other = await hub.ann.submit(command="sleep 1000", instanceType="cpu-2")
    hub.house.clock.forward(1)
    id = await hub.ann.submit(command="echo at last")
    assert (await hub.ann.http.get(path_of(id))).status_code >= 400
    watched = watch(hub, hub.ann, path_of(id), "follow=true")
    for each in (blocker, other):
        await hub.house.until(each, JobState.RUNNING)
        hub.house.engine.finish_task(attempt(each))
    await watched.finish()
    assert watched.received == b"at last\n"


async def test_pieces_end_with_lines_or_characters(hub: Hub, sleeper: str) -> None:
    text = "".join(f"{'ä€😀' * (n % 300)}{n}\n" for n in range(500)) + "€" * 20_000
    data = text.encode()
    watched = watch(hub, hub.ann, path_of(sleeper), "follow=true")
    for start in range(0, len(data), 7001):
        hub.house.engine.write_log(attempt(sleeper), data[start : start + 7001])
    hub.house.engine.finish_task(attempt(sleeper))
    await watched.finish()
    assert watched.received.decode() == text
    assert max(map(len, watched.pieces)) <= CLIENT_CHUNK_SIZE
    for piece in watched.pieces:
        piece.decode()  # each by itself
    lines = text.rindex("\n") + 1
    sent = 0
    for piece in watched.pieces:
        sent += len(piece.decode())
        assert sent > lines or piece.endswith(b"\n")


async def test_bytes_that_are_no_text_do_not_break_clients(hub: Hub, sleeper: str) -> None:
    hub.house.engine.write_log(attempt(sleeper), b"a\xff\xfe\nb\xc3\n\xe2\x82")
    hub.house.engine.finish_task(attempt(sleeper))
    await hub.house.until(sleeper)
    for query in ("", "?follow=true"):
        assert (await hub.ann.http.get(path_of(sleeper) + query)).text == "a��\nb�\n�"


async def test_without_a_log_there_is_a_reason(hub: Hub) -> None:
    id = await hub.ann.run(hub)
    stranger = await hub.caller(Actor(name=""), token="")
    cases = [
        (hub.ann, path_of("nope"), 404, 'phjobs.primehub.io "nope" not found'),
        (hub.ann, path_of("demo"), 404, 'phjobs.primehub.io "demo" not found'),
        (hub.bob, path_of(id), 404, f'phjobs.primehub.io "{id}" not found'),
        (stranger, path_of(id), 401, "Invalid API Token"),
        (stranger, "/api/logs/jupyterhub", 401, "Invalid API Token"),
        (hub.ann, "/api/logs/jupyterhub", 404, "Notebooks are not supported."),
        (hub.ann, f"{path_of(id)}?tailLines=many", 400, "tailLines must be an integer"),
    ]
    for caller, path, status, message in cases:
        response = await caller.http.get(path)
        assert (response.status_code, response.json()["message"]) == (status, message), path
        assert set(response.json()) == {"code", "message"}
    for path in ("images/tf/job", "phapplications/x", "namespaces/hub/phdeployments/x", "nonsense"):
        assert (await hub.ann.http.get(f"/api/logs/{path}")).status_code == 404


async def test_a_client_that_leaves_leaves_nothing_behind(hub: Hub, sleeper: str) -> None:
    before = asyncio.all_tasks()
    watched = watch(hub, hub.ann, path_of(sleeper), "follow=true")
    hub.house.engine.write_log(attempt(sleeper), b"hello\n")
    await watched.until(b"hello")
    watched.left.set()
    await watched.finish()
    assert asyncio.all_tasks() == before


# -- pieces


@pytest.mark.parametrize("seed", range(30))
async def test_pieces_are_the_text(seed: int) -> None:
    dice = random.Random(seed)
    text = "".join(dice.choice(["a", "ä", "€", "😀", "\n", "x" * 3000, "€" * 5000, "�"]) for _ in range(200))
    data = text.encode()

    async def chunks() -> AsyncIterator[bytes]:
        at = 0
        while at < len(data):
            size = dice.choice([0, 1, 2, 3, 100, 8192, 100_000])
            yield data[at : at + size]
            at += size

    pieces = [piece async for piece in split_into_client_chunks(chunks())]
    assert "".join(piece.decode() for piece in pieces) == text
    assert all(0 < len(piece) <= CLIENT_CHUNK_SIZE for piece in pieces)


def test_a_piece_is_as_long_as_it_may_be() -> None:
    assert split_first_chunk(b"a" * CLIENT_CHUNK_SIZE) == (b"a" * CLIENT_CHUNK_SIZE, b"")
    assert split_first_chunk(b"a" * (CLIENT_CHUNK_SIZE + 1)) == (b"a" * CLIENT_CHUNK_SIZE, b"a")
    assert split_first_chunk(b"a\nb" + b"c" * CLIENT_CHUNK_SIZE) == (b"a\n", b"b" + b"c" * CLIENT_CHUNK_SIZE)
    piece, left = split_first_chunk("€".encode() * CLIENT_CHUNK_SIZE)
    assert len(piece) == CLIENT_CHUNK_SIZE - CLIENT_CHUNK_SIZE % 3
    assert left.decode()

"""Limits on expensive answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.server.openpai import large_responses
from holdfast.server.openpai.response_limits import (
    MAX_CONCURRENT_BUILDS,
    MAX_UNSENT_LARGE,
    MAX_WAITING_REQUESTS,
    ResponseLimits,
    ResponseSlots,
)
from holdfast.services.errors import TooManyRequests

from .job_files import job
from .pai import API, Pai, refused

pytestmark = pytest.mark.anyio


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_user_has_one_answer_at_a_time() -> None:
    limits = ResponseLimits()
    first, second, other = ResponseSlots(limits), ResponseSlots(limits), ResponseSlots(limits)
    await first.acquire_slots("alice", large=True)
    await first.acquire_slots("alice", large=True)  # again: nothing
    waiting = asyncio.create_task(second.acquire_slots("alice", large=False))
    first.release_build_slot()
    await other.acquire_slots("bob", large=True)
    await settle()
    assert not waiting.done()
    first.release_slots()
    await waiting
    second.release_slots()
    other.release_slots()
    assert not limits.unfinished._used_slots


async def test_few_are_made_at_once_and_few_are_kept() -> None:
    limits = ResponseLimits()
    made = [ResponseSlots(limits) for _ in range(MAX_UNSENT_LARGE)]
    for number, slots in enumerate(made):
        await slots.acquire_slots(f"user{number}", large=True)
        slots.release_build_slot()
    large = asyncio.create_task(ResponseSlots(limits).acquire_slots("large", large=True))
    small = [ResponseSlots(limits) for _ in range(MAX_CONCURRENT_BUILDS)]
    for number, slots in enumerate(small):
        await slots.acquire_slots(f"small{number}", large=False)
    one_more = asyncio.create_task(ResponseSlots(limits).acquire_slots("one more", large=False))
    await settle()
    assert not large.done()
    assert not one_more.done()
    small[0].release_build_slot()
    await one_more
    small[1].release_build_slot()
    made[0].release_slots()
    await large


async def test_who_gives_up_waiting_leaves_nothing_behind() -> None:
    limits = ResponseLimits()
    first, second, third = ResponseSlots(limits), ResponseSlots(limits), ResponseSlots(limits)
    await first.acquire_slots("alice", large=True)
    waiting = asyncio.create_task(second.acquire_slots("alice", large=True))
    await settle()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    second.release_slots()
    first.release_slots()
    await third.acquire_slots("alice", large=True)
    third.release_slots()
    assert not limits.unfinished._used_slots


async def test_too_many_waiting_are_refused() -> None:
    limits = ResponseLimits()
    waiting = [
        asyncio.create_task(ResponseSlots(limits).acquire_slots("alice", large=False))
        for _ in range(MAX_WAITING_REQUESTS + 1)
    ]
    await settle()
    refused_one = ResponseSlots(limits)
    with pytest.raises(TooManyRequests):
        await refused_one.acquire_slots("alice", large=False)
    refused_one.release_slots()
    for task in waiting:
        task.cancel()


class Slow:
    """A client who takes nothing after the first piece until told to."""

    def __init__(self, pai: Pai, path: str) -> None:
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()
        self.taken, self.ended = 0, False
        token = pai.user.headers["authorization"]
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
            "path": f"{API}{path}", "raw_path": f"{API}{path}".encode(), "query_string": b"", "root_path": "",
            "headers": [(b"authorization", token.encode())], "client": ("127.0.0.1", 1), "server": ("test", 80),
        }  # fmt: skip
        self.task = asyncio.create_task(pai.app(scope, self.receive, self.send))  # type: ignore[arg-type]

    async def receive(self) -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    async def send(self, message: Any) -> None:
        self.taken += len(message.get("body", b""))
        self.ended = message["type"] == "http.response.body" and not message.get("more_body")
        if self.taken:
            self.begun.set()
            await self.go_on.wait()


async def test_a_large_answer_keeps_its_slot_until_it_is_taken(pai: Pai) -> None:
    await pai.house.run(job(), pai.alice)
    slow = Slow(pai, "/v2/jobs")
    await asyncio.wait_for(slow.begun.wait(), 20)
    waiting = asyncio.create_task(pai.user.get("/v1/jobs"))
    assert (await pai.admin.get("/v2/jobs")).status_code == 200
    assert not waiting.done()
    slow.go_on.set()
    await asyncio.wait_for(slow.task, 20)
    assert slow.ended
    assert (await waiting).status_code == 200
    assert slow.taken == len((await pai.user.get("/v2/jobs", headers={"Accept-Encoding": "identity"})).content)


async def test_who_takes_nothing_is_cut_off(pai: Pai, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_responses, "SEND_TIMEOUT", 0.01)
    slow = Slow(pai, "/v2/jobs")
    done, _ = await asyncio.wait({slow.task}, timeout=20)
    assert done == {slow.task}
    assert not slow.ended
    assert (await pai.user.get("/v2/jobs")).status_code == 200


async def test_too_many_lists_at_once_are_told_so(pai: Pai) -> None:
    slow = Slow(pai, "/v2/jobs")
    await asyncio.wait_for(slow.begun.wait(), 20)
    waiting = [asyncio.create_task(pai.user.get("/v2/jobs")) for _ in range(MAX_WAITING_REQUESTS + 1)]
    done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    (first,) = done
    refused(first.result(), 429, "TooManyRequestsError")
    assert int(first.result().headers["retry-after"]) > 0
    slow.go_on.set()
    answers = await asyncio.gather(slow.task, *waiting)
    assert [each.status_code for each in answers[1:]].count(200) == MAX_WAITING_REQUESTS

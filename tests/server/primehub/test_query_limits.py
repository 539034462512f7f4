"""Queries that ask for the same again and again: what they cost, and what everybody else still gets meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.core.access import Actor
from holdfast.server.primehub.errors import PrimeHubError
from holdfast.server.primehub.graphql import call, response_writer
from holdfast.server.primehub.graphql.call import Call
from holdfast.server.primehub.graphql_endpoint import MAX_NARROW_FIELDS
from holdfast.services.fair_limiter import FairLimiter
from holdfast.services.jobs.artifacts import Artifacts

from .hub import Hub

pytestmark = pytest.mark.anyio


def often(field: str, times: int = 50) -> str:
    return " ".join(f"a{number}: {field}" for number in range(times))


def made(fields: int = 1) -> Call:
    unused: Any = None
    return Call(unused, unused, Actor(name="ann"), fields)


async def test_a_jobs_artifacts_are_looked_for_once(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[str] = []
    real = Artifacts.list_job_artifacts

    async def counted(self: Artifacts, job: Any) -> Any:
        listed.append(job.id)
        return await real(self, job)

    monkeypatch.setattr(Artifacts, "list_job_artifacts", counted)
    ids = [await hub.ann.submit(), await hub.ann.submit()]
    await hub.ann.data(f"{{ phJobs {{ {often('artifact { prefix }')} }} }}")
    assert sorted(listed) == sorted(ids)


async def test_an_answer_with_too_much_text_is_refused_before_it_is_written(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_writer, "MAX_RESPONSE_LENGTH", 3000)
    id = await hub.ann.submit(command="#" * 100)
    assert await hub.ann.job(id, "command") == "#" * 100
    code, message = await hub.ann.refused(f"{{ phJobs {{ {often('command')} }} }}")
    assert (code, "too long" in message) == ("REQUEST_BODY_INVALID", True)


async def test_of_many_errors_the_first_ones_are_told(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(self: Artifacts, job: Any) -> Any:
        raise PrimeHubError("no disk")

    monkeypatch.setattr(Artifacts, "list_job_artifacts", fail)
    await hub.ann.submit()
    answered = await hub.ann.ask(f"{{ phJobs {{ {often('artifact { prefix }', 145)} }} }}")
    assert len(answered["errors"]) == response_writer.MAX_ERRORS


async def test_long_answers_are_made_one_step_at_a_time() -> None:
    """While one of them has its turn, others wait; short ones do not."""

    async def found() -> int:
        return 7

    long, short = made(), made()
    long.spend_rows(call.MAX_SHORT_RESPONSE_VALUES + 1)
    async with long.turn_lock:
        waiting = asyncio.create_task(long.load_once("x", found))
        assert await short.load_once("x", found) == 7
        assert not waiting.done()
    assert await waiting == 7


async def test_once_too_much_was_asked_for_nothing_more_is_looked_up() -> None:
    looked: list[str] = []

    async def look() -> None:
        looked.append("at something")

    greedy = made()
    greedy.spend_rows(call.MAX_LIST_VALUES)
    await greedy.load_once("a", look)
    with pytest.raises(PrimeHubError, match="requests too much data"):
        greedy.spend_rows(call.MAX_LIST_VALUES + 1)
    with pytest.raises(PrimeHubError, match="requests too much data"):
        await greedy.load_once("b", look)
    assert looked == ["at something"]


@pytest.mark.parametrize("kind", ["[String]", "JSON"])
async def test_thousands_of_values_in_variables_are_refused(hub: Hub, kind: str) -> None:
    query = {
        "[String]": "query ($many: [String]) { phJobs(where: {groupId_in: $many}) { id } }",
        "JSON": "query ($many: JSON) { phDeployments(orderBy: $many) { id } }",
    }[kind]
    assert await hub.ann.data(query, many=["x"] * 100) == []
    code, message = await hub.ann.refused(query, many=["x"] * 10_001)
    assert (code, message) == ("REQUEST_BODY_INVALID", "`variables` has more than 10000 values.")


async def test_a_number_of_thousands_of_digits_is_a_wrong_number(hub: Hub) -> None:
    code, _ = await hub.ann.refused("{ phJobsConnection(page: " + "9" * 5000 + ") { pageInfo { currentPage } } }")
    assert code == "GRAPHQL_VALIDATION_FAILED"


async def test_nothing_is_called_by_thousands_of_letters(hub: Hub) -> None:
    query = "query ($where: ImageWhereInput) { images(where: $where) { id } }"
    assert [each["id"] for each in await hub.ann.data(query, where={"search": "HOST"})] == ["host"]
    for name in ("search", "name_contains"):
        assert await hub.ann.data(query, where={name: "h" * 1_000_000}) == []


async def test_a_query_with_many_fields_waits_for_its_turn(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    real = FairLimiter.use_slot

    def noted(self: FairLimiter, user: str) -> Any:
        asked.append(user)
        return real(self, user)

    monkeypatch.setattr(FairLimiter, "use_slot", noted)
    await hub.ann.data(f"{{ me {{ {often('username', MAX_NARROW_FIELDS - 1)} }} }}")
    assert asked == []
    await hub.ann.data(f"{{ me {{ {often('username', MAX_NARROW_FIELDS)} }} }}")
    assert asked == ["ann"]


async def test_long_lists_are_shown_one_after_the_other() -> None:
    one = made()
    async with one.turn_lock:
        few = asyncio.create_task(one.spend_rows_and_yield(10))
        many = asyncio.create_task(one.spend_rows_and_yield(call.STEP_SIZE + 1))
        await few
        assert not many.done()
    await many
    with pytest.raises(PrimeHubError, match="requests too much data"):
        await one.spend_rows_and_yield(call.MAX_LIST_VALUES + 1)

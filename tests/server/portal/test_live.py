"""What open pages are told about jobs, and who is told nothing."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.core.access import Actor
from holdfast.server.portal import sockets
from holdfast.server.portal.pages.live import MAX_NAMED_JOBS, build_change_message
from holdfast.services.job_changes import ChangeSet, JobChange
from tests.server.rig import Rig

from .page_client import PASSWORD, open_desk
from .socket_client import Wire, open_wire

JOB = "name: told\ncommand: sleep 100\n"
pytestmark = pytest.mark.anyio


async def test_a_page_hears_of_a_job_that_changes(rig: Rig) -> None:
    async with open_desk(rig) as desk, open_wire(desk, "/live/jobs") as wire:
        job = await rig.house.submit(JOB)
        assert job.id in (await wire.next())["jobs"]


async def test_a_page_hears_of_what_happens_while_its_socket_opens(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_desk(rig) as desk:
        find_actor, may_go_on = rig.house.services.tokens.resolve_actor, asyncio.Event()

        async def find_slowly(session: str) -> Actor:
            await may_go_on.wait()
            return await find_actor(session)

        monkeypatch.setattr(rig.house.services.tokens, "resolve_actor", find_slowly)
        async with open_wire(desk, "/live/jobs") as wire:
            job = await rig.house.submit(JOB)
            may_go_on.set()
            assert job.id in (await wire.next())["jobs"]


async def test_a_page_goes_on_where_it_stopped(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        mark = rig.house.services.changes.mark
        job = await rig.house.submit(JOB)
        async with open_wire(desk, "/live/jobs", query=f"since={mark}") as wire:
            assert job.id in (await wire.next())["jobs"]
        async with open_wire(desk, "/live/jobs", query="since=of-an-older-server.7") as wire:
            assert (await wire.next())["all"] is True


async def test_one_job_is_told_of_alone(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        first = await rig.house.submit(JOB)
        mark = rig.house.services.changes.mark
        await rig.house.submit(JOB)
        await rig.house.services.jobs.tag(rig.house.admin, first.id, "seen")
        async with open_wire(desk, "/live/jobs", query=f"since={mark}&job={first.id}") as wire:
            assert (await wire.next())["jobs"] == [first.id]


async def test_jobs_of_other_groups_are_not_told(rig: Rig) -> None:
    await rig.house.user("eve", "strangers", password=PASSWORD)
    async with open_desk(rig, "eve") as desk, open_wire(desk, "/live/jobs") as wire:
        secret = await rig.house.submit(JOB)
        await rig.house.services.jobs.stop(rig.house.admin, secret.id)
        own = await rig.house.submit("name: own\ngroup: strangers\ncommand: sleep 100\n")
        heard: set[str] = set()
        while own.id not in heard:
            heard |= set((await wire.next())["jobs"])
        assert heard == {own.id}


async def test_a_page_of_another_site_gets_no_socket(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        for origin in ("http://evil.example", "null", "http://test.evil.example", None):
            async with open_wire(desk, "/live/jobs", origin=origin) as wire:
                assert (wire.accepted, wire.code) == (False, sockets.REFUSED_CODE)


async def test_without_a_login_the_page_is_told_so(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        desk.client.cookies.clear()
        async with open_wire(desk, "/live/jobs") as wire:
            await wire.until(lambda: wire.code is not None)
            assert (wire.code, wire.received) == (sockets.LOGGED_OUT_CODE, [])


async def test_logging_out_ends_the_line_before_another_word(rig: Rig) -> None:
    async with open_desk(rig) as desk, open_wire(desk, "/live/jobs") as wire:
        await desk.post("/logout")
        await rig.house.submit(JOB)
        await wire.until(lambda: wire.code is not None)
        assert (wire.code, wire.received) == (sockets.LOGGED_OUT_CODE, [])


async def test_a_silent_line_ends_with_its_login_too(rig: Rig) -> None:
    async with open_desk(rig) as desk, open_wire(desk, "/live/jobs") as wire:
        await desk.post("/logout")
        await wire.until(lambda: wire.code is not None)
        assert wire.code == sockets.LOGGED_OUT_CODE


def test_many_jobs_at_once_are_everything() -> None:
    news = ChangeSet("x.1", tuple(JobChange(f"job-{n}", "default", "ann") for n in range(MAX_NAMED_JOBS + 1)))
    assert build_change_message(news, Actor(name="ann", groups={"default": False}), None) == {
        "mark": "x.1",
        "all": True,
    }


def test_nothing_is_said_where_nothing_may_be_known() -> None:
    news = ChangeSet("x.1", (JobChange("job-1", "secret", "ann"),))
    assert build_change_message(news, Actor(name="eve", groups={"default": False}), None) is None
    assert build_change_message(news, Actor(name="eve", can_read_all_jobs=True), "job-2") is None


async def test_one_user_opens_only_so_many_sockets(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets._socket_limiter, "_per_key", 1)
    await rig.house.user("eve", "strangers", password=PASSWORD)

    async def hears(wire: Wire) -> bool:
        job = await rig.house.submit("name: own\ngroup: strangers\ncommand: sleep 100\n")
        while job.id not in (await wire.next())["jobs"]:
            pass  # of what was before
        return True

    async with open_desk(rig, "eve") as desk:
        async with open_wire(desk, "/live/jobs") as first:
            assert await hears(first)
            async with open_wire(desk, "/live/jobs") as second:
                await second.until(lambda: second.code is not None)
                assert second.code == sockets.TOO_MANY_CODE
            async with open_desk(rig) as others, open_wire(others, "/live/jobs") as wire:
                assert await hears(wire)
        async with open_wire(desk, "/live/jobs") as again:
            assert await hears(again)

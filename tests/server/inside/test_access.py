"""Who gets a line into a task, and how long it stays."""

from __future__ import annotations

import pytest

from holdfast.core.states import JobState
from holdfast.server.rest.sockets import exec as exec_socket
from holdfast.server.rest.sockets import task_connections as task_lines
from holdfast.services.inside.service import build_connection_limiter
from tests.server.rig import Rig, error_of

from .lines import open_line, running

pytestmark = pytest.mark.anyio

LINES = ("exec", "ports/8000", "debugger")


@pytest.mark.parametrize("line", LINES)
async def test_without_login_there_is_none(rig: Rig, line: str) -> None:
    job = await running(rig)
    for headers in ({}, {"authorization": "Bearer hf_nonsense"}, {"authorization": "Basic eA=="}):
        async with open_line(rig, f"{job.id}/tasks/-/{line}", headers=headers) as wire:
            assert wire.denial()[1] == 401


@pytest.mark.parametrize("line", LINES)
async def test_members_strangers_and_finished_jobs_are_refused(rig: Rig, line: str) -> None:
    job = await running(rig)
    member, stranger = await rig.token_of("ann", "default"), await rig.token_of("eve", "strangers")
    async with open_line(rig, f"{job.id}/tasks/-/{line}", headers=member) as wire:
        said, status = wire.denial()
        assert (status, "can connect to its tasks" in said) == (403, True)
    async with open_line(rig, f"{job.id}/tasks/-/{line}", headers=stranger) as wire:
        assert wire.denial()[1] == 404
    await rig.house.controller.stop_job(job.id, "admin")
    await rig.house.until(job.id)
    async with open_line(rig, f"{job.id}/tasks/-/{line}") as wire:
        wire.say({})
        said, code = await wire.refusal()
        assert (code, "its containers no longer exist" in said) == (4409, True)


async def test_a_task_that_is_not_there(rig: Rig) -> None:
    job = await running(rig)
    async with open_line(rig, f"{job.id}/tasks/main-7/exec") as wire:
        wire.say({})
        assert (await wire.refusal())[1] == 4404


async def test_a_ticket_opens_one_line_of_one_job(rig: Rig) -> None:
    job, other = await running(rig), await running(rig)
    ticket = (await rig.post(f"/jobs/{job.id}/tickets")).json()["ticket"]
    page = {"origin": "http://test"}
    async with open_line(rig, f"{job.id}/tasks/-/exec", query=f"ticket={ticket}", headers=page) as wire:
        wire.say({"script": "exit 3"})
        assert await wire.words("exit") == 3
    async with open_line(rig, f"{job.id}/tasks/-/exec", query=f"ticket={ticket}", headers=page) as wire:
        assert wire.denial()[1] == 401  # it was used
    wrong = (await rig.post(f"/jobs/{job.id}/tickets")).json()["ticket"]
    async with open_line(rig, f"{other.id}/tasks/-/exec", query=f"ticket={wrong}", headers=page) as wire:
        assert wire.denial()[1] == 404


async def test_a_ticket_is_over_after_half_a_minute(rig: Rig) -> None:
    job = await running(rig)
    ticket = (await rig.post(f"/jobs/{job.id}/tickets")).json()["ticket"]
    rig.house.clock.forward(31)
    async with open_line(rig, f"{job.id}/tasks/-/exec", query=f"ticket={ticket}", headers={}) as wire:
        assert wire.denial()[1] == 401


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://test.evil.example"])
async def test_another_sites_page_gets_no_line(rig: Rig, origin: str) -> None:
    job = await running(rig)
    headers = {**dict(rig.client.headers), "origin": origin}
    for line in LINES:
        async with open_line(rig, f"{job.id}/tasks/-/{line}", headers=headers) as wire:
            assert wire.denial()[1] == 403


async def test_a_cookie_alone_opens_nothing(rig: Rig) -> None:
    job = await running(rig)
    token = rig.client.headers["authorization"].removeprefix("Bearer ")
    headers = {"cookie": f"holdfast={token}", "origin": "http://test"}
    async with open_line(rig, f"{job.id}/tasks/-/exec", headers=headers) as wire:
        assert wire.denial()[1] == 401


async def test_a_token_that_is_revoked_ends_the_line(rig: Rig) -> None:
    ann = await rig.house.user("ann", "default")
    made = await rig.house.services.tokens.create(ann, name="laptop")
    job = await running(rig, actor=ann)
    headers = {"authorization": f"Bearer {made.text}"}
    async with open_line(rig, f"{job.id}/tasks/-/exec", headers=headers) as wire:
        wire.say({"argv": ["sleep", "1000"]})
        await wire.words("entered")
        await rig.house.services.tokens.delete(ann, made.token.id)
        assert (await wire.refusal())[1] == 4401


async def test_a_name_leads_into_ones_own_job_and_whose_it_is_is_told(rig: Rig) -> None:
    ann, bob = await rig.house.user("ann", "default"), await rig.house.user("bob", "default")
    text = "name: train\ncommand: sleep 1000\n"
    hers, _ = await running(rig, text, ann), await running(rig, text, bob)
    headers = {"authorization": f"Bearer {(await rig.house.services.tokens.create(ann, name='laptop')).text}"}
    assert (await rig.post("/jobs/train/tickets", headers=headers)).json()["job"] == hers.id
    async with open_line(rig, "train/tasks/-/exec", headers=headers) as wire:
        wire.say({"argv": ["sleep", "1000"]})
        assert await wire.words("entered") == {"job": hers.id, "task": "main-0", "held": False}
    async with open_line(rig, f"{hers.id}/tasks/-/exec") as wire:
        wire.say({"argv": ["sleep", "1000"]})
        assert (await wire.words("entered"))["whose"] == f"train ({hers.id}) of ann, main-0"


async def test_a_ticket_ends_with_its_login(rig: Rig) -> None:
    ann = await rig.house.user("ann", "default")
    made = await rig.house.services.tokens.create(ann, name="laptop")
    job = await running(rig, actor=ann)
    headers = {"authorization": f"Bearer {made.text}"}
    ticket = (await rig.post(f"/jobs/{job.id}/tickets", headers=headers)).json()["ticket"]
    async with open_line(rig, f"{job.id}/tasks/-/exec", query=f"ticket={ticket}", headers={}) as wire:
        wire.say({"argv": ["sleep", "1000"]})
        await wire.words("entered")
        await rig.house.services.tokens.delete(ann, made.token.id)
        assert (await wire.refusal())[1] == 4401


async def test_who_leaves_the_group_leaves_its_jobs(rig: Rig) -> None:
    headers = await rig.token_of("ann", "default", "red")
    ann = await rig.house.services.tokens.resolve_actor(headers["Authorization"].removeprefix("Bearer "))
    job = await running(rig, "name: red\ngroup: red\ncommand: sleep 1000\n", ann)
    async with open_line(rig, f"{job.id}/tasks/-/exec", headers=headers) as wire:
        wire.say({"argv": ["sleep", "1000"]})
        await wire.words("entered")
        await rig.house.services.groups.remove_member(rig.house.admin, "red", "ann")
        assert (await wire.refusal())[1] == 4403


async def test_a_line_ends_with_its_job(rig: Rig) -> None:
    job = await running(rig)
    async with open_line(rig, f"{job.id}/tasks/-/exec") as wire:
        wire.say({"argv": ["sleep", "1000"]})
        await wire.words("entered")
        await rig.house.controller.stop_job(job.id, "admin")
        assert await wire.words("exit") in (129, 137, 143)


async def test_stacks_are_for_those_who_may_enter(rig: Rig) -> None:
    job = await running(rig)
    member, stranger = await rig.token_of("ann", "default"), await rig.token_of("eve", "strangers")
    path = f"/jobs/{job.id}/tasks/-/stacks"
    error_of(await rig.get(path, headers=member), 403)
    error_of(await rig.get(path, headers=stranger), 404)
    assert (await rig.get(path)).status_code == 200
    await rig.house.controller.stop_job(job.id, "admin")
    await rig.house.until(job.id, JobState.CANCELLED)
    error_of(await rig.get(path), 409)


async def test_who_says_nothing_is_not_waited_for(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exec_socket, "FIRST_MESSAGE_TIMEOUT", 0.05)
    job = await running(rig)
    async with open_line(rig, f"{job.id}/tasks/-/exec") as wire:
        said, code = await wire.refusal()
        assert (code, "without a first message" in said) == (4400, True)


async def test_one_user_opens_only_so_many_lines(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_lines, "_session_limiter", build_connection_limiter("WebSocket sessions", 1, 10))
    job = await running(rig)
    path = f"{job.id}/tasks/-/exec"
    async with open_line(rig, path) as first:
        first.say({"argv": ["sleep", "1000"]})
        await first.words("entered")
        async with open_line(rig, path) as second:
            assert (await second.refusal())[1] == 4409
    async with open_line(rig, path) as again:
        again.say({"script": "exit 2"})
        assert await again.words("exit") == 2

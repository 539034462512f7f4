"""The ways into tasks, and what is held of them: as the server makes those pages, and for whom."""

from __future__ import annotations

import html
import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.access import Actor
from holdfast.core.attempt import Debugger
from holdfast.core.states import JobState
from holdfast.engines.base import TaskProcess
from holdfast.server.portal.rendering import create_environment
from tests.server.rig import Rig, open_rig
from tests.services.house import open_house

from .exec_engine import Doors
from .page_client import PASSWORD, Desk, open_desk, text_of
from .socket_client import open_wire

pytestmark = pytest.mark.anyio

SLEEPER = "name: sleeper\ngroup: lab\ncommand: sleep 100\n"
CRASH = "name: crash\ngroup: lab\nhold: true\ncommand: exit 3\n"
ODD = "/tmp/<b>odd\"'.py"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPXQ8yTfQwVvHgW0eZvEDCqWSq0jT1vJTHdM6dnBNgpq me@here"


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_house(tmp_path / "home", engine=Doors()) as house, open_rig(house) as opened:
        house.controller.clock = house.clock.now
        house.services.ssh_gateway.port = 2222
        for name in ("ada", "bob"):
            await house.user(name, "lab", password=PASSWORD)
        yield opened


async def submit(rig: Rig, text: str, state: JobState) -> str:
    """Ada's, who is in the lab."""
    job = await rig.house.submit(text, Actor(name="ada", groups={"lab": False}))
    await rig.house.until(job.id, state)
    return job.id


def waiting(rig: Rig, **more: Any) -> Debugger:
    known = {"id": "d1", "pid": 7, "file": "/home/jovyan/train.py", "line": 42, "port": 5000, "token": "s3cret"}
    return Debugger(**{**known, "since": rig.house.clock.now(), **more})


def debug(rig: Rig, job: str, *debuggers: Debugger) -> None:
    rig.house.engine.set_debuggers(f"{job}.0.main-0.0", *debuggers)


# -- the ways in


async def test_rows_of_tasks_show_the_ways_in_to_those_who_may_enter(rig: Rig) -> None:
    job = await submit(rig, SLEEPER, JobState.RUNNING)
    async with open_desk(rig, "ada") as desk:
        for section in ("", "tasks"):
            page = (await desk.get(f"/jobs/{job}?section={section}")).text
            assert f'href="/jobs/{job}/terminal?task=main-0"' in page
            assert f'data-copy="ssh -p 2222 {job}.main-0@test"' in page
            assert f'data-copy="holdfast ssh {job} main-0"' in page
            assert 'href="/me/keys">add your public key' in page
        await desk.post("/me/keys", {"value": KEY})
        assert "add your public key" not in (await desk.get(f"/jobs/{job}")).text
    async with open_desk(rig, "bob") as desk:  # of the same group, but the job's secrets are not his
        page = (await desk.get(f"/jobs/{job}")).text
        assert "/terminal" not in page
        assert "ssh -p" not in page
        for place in ("terminal", "debugger", "stacks"):
            refused = await desk.get(f"/jobs/{job}/{place}?task=main-0")
            assert refused.status_code == 403, place
            assert "only ada and admins of lab can connect to its tasks" in text_of(refused.text)


async def test_without_a_gateway_no_ssh_line_is_shown(rig: Rig) -> None:
    rig.house.services.ssh_gateway.port = None
    job = await submit(rig, SLEEPER, JobState.RUNNING)
    async with open_desk(rig, "ada") as desk:
        page = (await desk.get(f"/jobs/{job}")).text
    assert "ssh -p" not in page
    assert f"holdfast ssh {job} main-0" in page
    assert "add your public key" not in page


async def test_the_terminal_is_a_page_of_one_task(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    job = await submit(rig, SLEEPER.replace("sleep 100", "sleep 100\ninstances: 2"), JobState.RUNNING)
    async with open_desk(rig, "ada") as desk:
        first = await desk.get("/jobs/sleeper/terminal")
        assert first.headers["location"] == f"/jobs/{job}/terminal?task=main-0"
        found = await desk.get(f"/jobs/{job}/terminal?task=main-1")
        assert f'data-socket="/api/v1/jobs/{job}/tasks/main-1/exec"' in found.text
        assert "<option selected>main-1</option>" in found.text
        assert "script-src 'self';" in found.headers["content-security-policy"]
        assert "unsafe" not in found.headers["content-security-policy"]
        assert f"ssh -p 2222 {job}.main-1@test" in found.text  # for those without scripts
        monkeypatch.setitem(create_environment("en").globals, "has_vendor", False)
        bare = (await desk.get(f"/jobs/{job}/terminal?task=main-1")).text
        assert "not installed on this server" in bare
        assert "data-terminal" not in bare
        missing = await desk.get(f"/jobs/{job}/terminal?task=main-7")
        assert (missing.status_code, "has no task main-7" in missing.text) == (404, True)
        await desk.post(f"/jobs/{job}/stop")
        await rig.house.until(job)
        over = await desk.get(f"/jobs/{job}/terminal?task=main-1")
        assert over.status_code == 409
        assert "its containers no longer exist" in text_of(over.text)
        part = await desk.part(f"/jobs/{job}/terminal?task=main-1")  # a page that is open is told of the job
        assert (part.status_code, "Cancelled" in part.text) == (200, True)


# -- holds


async def held(desk: Desk, job: str) -> str:
    page = (await desk.get(f"/jobs/{job}")).text
    return text_of(page.split('id="hold"', 1)[1].split("</div>\n</div>", 1)[0]) if 'id="hold"' in page else ""


async def test_a_held_job_says_for_how_long_and_can_be_extended(rig: Rig) -> None:
    job = await submit(rig, CRASH, JobState.HELD)
    async with open_desk(rig, "ada") as desk:
        page = (await desk.get(f"/jobs/{job}")).text
        assert 'class="notification why hold"' in page
        assert "On hold with all resources: main-0. The hold expires 2026-03-08 12:00 UTC" in await held(desk, job)
        assert f"/jobs/{job}/log?task=main-0" in page  # whose log tells more
        assert "<code>3</code>" in page  # how its command ended
        assert f'href="/jobs/{job}/terminal?task=main-0"' in page.split('id="hold"', 1)[1].split("</div>", 1)[0]
        assert "job has finished" in text_of((await desk.get(f"/jobs/{job}/log")).text)
        assert "From its log" not in page  # what we wrote there ourselves says nothing new
        answer = await desk.post(f"/jobs/{job}/hold/extend", {"by": "3d"})
        assert answer.headers["location"] == f"/jobs/{job}"
        assert "2026-03-11 12:00 UTC" in await held(desk, job)
        await desk.post(f"/jobs/{job}/hold/extend", {"by": "most"})
        assert "2026-03-29 12:00 UTC" in await held(desk, job)
        assert "cannot be extended further" in await held(desk, job)
        for wrong in ("", "9d", "<b>"):
            assert (await desk.post(f"/jobs/{job}/hold/extend", {"by": wrong})).status_code == 400


async def test_several_tasks_are_extended_each_as_far_as_it_may_be(rig: Rig) -> None:
    text = "name: pair\ngroup: lab\nhold: true\nroles: {a: {command: exit 2}, b: {command: exit 4}}\n"
    job = await submit(rig, text, JobState.HELD)
    async with open_desk(rig, "ada") as desk:
        await desk.post(f"/jobs/{job}/hold/extend", {"by": "most"})
    start = rig.house.clock.now()
    assert {each.held.until for each in rig.house.services.holds.list_held_tasks(job)} == {start + timedelta(weeks=4)}


async def test_files_alone_are_kept_and_the_rest_released(rig: Rig) -> None:
    job = await submit(rig, CRASH, JobState.HELD)
    async with open_desk(rig, "ada") as desk:
        assert (await desk.post(f"/jobs/{job}/hold/files")).status_code == 303
        assert "Files on hold: main-0." in await held(desk, job)
        assert "Keep files only" not in await held(desk, job)
        terminal = await desk.get(f"/jobs/{job}/terminal?task=main-0")
        assert "The shell runs on these files" in text_of(terminal.text)
        assert (await desk.post(f"/jobs/{job}/hold/release")).status_code == 303
        assert (await rig.house.until(job)).state is JobState.FAILED
        assert await held(desk, job) == ""
        again = await desk.post(f"/jobs/{job}/hold/release")
        assert (again.status_code, "has no tasks on hold" in text_of(again.text)) == (409, True)


async def test_a_hold_is_acted_on_by_those_who_may_act_alone(rig: Rig) -> None:
    await rig.house.user("eve", "strangers", password=PASSWORD)
    job = await submit(rig, CRASH, JobState.HELD)
    async with open_desk(rig, "eve") as desk:
        for what in ("extend", "files", "release"):
            assert (await desk.post(f"/jobs/{job}/hold/{what}", {"by": "1d"})).status_code == 404
        assert (await desk.get(f"/jobs/{job}/attention")).status_code == 404
    async with open_desk(rig, "ada") as desk:
        bare = await desk.client.post(f"/jobs/{job}/hold/release", data={"csrf": "0" * 64})
        assert bare.status_code == 403  # no page of ours sent it
    assert (await rig.house.until(job, JobState.HELD)).state is JobState.HELD


async def test_a_job_is_run_again_with_a_hold(rig: Rig) -> None:
    job = await submit(rig, "name: once\ngroup: lab\ncommand: exit 3\n", JobState.FAILED)
    async with open_desk(rig, "ada") as desk:
        assert "Run unchanged with hold" in (await desk.get(f"/jobs/new?rerun={job}")).text
        answer = await desk.post(f"/jobs/{job}/rerun", {"hold": "yes"})
        new = answer.headers["location"].removeprefix("/jobs/")
        assert (await rig.house.until(new, JobState.HELD)).state is JobState.HELD


# -- debuggers


async def test_a_debugger_that_waits_is_shown_in_the_list_and_on_the_jobs_page(rig: Rig) -> None:
    job = await submit(rig, SLEEPER, JobState.RUNNING)
    debug(rig, job, waiting(rig))
    async with open_desk(rig, "ada") as desk:
        page, rows = (await desk.get(f"/jobs/{job}")).text, (await desk.get("/jobs")).text
        for shown in (page, rows):
            assert "debugger waiting at train.py:42 in main-0" in text_of(shown)
            assert f'href="/jobs/{job}/debugger?task=main-0"' in shown
        assert re.search(r'data-copy="nc [\d.]+ 5000"', page)
        assert 'data-copy="s3cret"' in page
        assert f'data-copy="holdfast debug {job} main-0"' in page
        assert (await desk.get(f"/jobs/{job}/debugger")).headers["location"].endswith("?task=main-0")
        console = (await desk.get(f"/jobs/{job}/debugger?task=main-0")).text
        assert f'data-socket="/api/v1/jobs/{job}/tasks/main-0/debugger"' in console
        assert f"holdfast debug {job} main-0" in console
        debug(rig, job, waiting(rig, until=datetime(2031, 5, 6, 7, 8, tzinfo=UTC)))
        for path in (f"/jobs/{job}", "/jobs", f"/jobs/{job}/attention"):
            assert "expires 2031-05-06 07:08 UTC" in text_of((await desk.get(path)).text)
        debug(rig, job, waiting(rig, attached=True))
        assert "main-0 is being debugged at train.py:42" in text_of((await desk.get("/jobs")).text)
        debug(rig, job)
        assert "debugger" not in text_of((await desk.get("/jobs")).text)
    async with open_desk(rig, "bob") as desk:
        debug(rig, job, waiting(rig))
        for path in (f"/jobs/{job}", "/jobs"):
            page = (await desk.get(path)).text
            assert "debugger waiting at train.py:42 in main-0" in text_of(page)
            assert "/debugger" not in page
            assert "s3cret" not in page


async def test_debuggers_of_one_task_are_told_apart(rig: Rig) -> None:
    job = await submit(rig, SLEEPER, JobState.RUNNING)
    debug(rig, job, waiting(rig), waiting(rig, id="d2", port=5001, local=True, function='<"step">'))
    async with open_desk(rig, "ada") as desk:
        page = (await desk.get(f"/jobs/{job}")).text
        second = (await desk.get(f"/jobs/{job}/debugger?task=main-0&id=d2")).text
        odd = (await desk.get(f"/jobs/{job}/debugger", params={"task": "main-0", "id": ODD + "&wait=9"})).text
        moved = await desk.get("/jobs/sleeper/debugger?task=main-0&id=d2")
    assert f'href="/jobs/{job}/debugger?task=main-0&amp;id=d1">' in page
    assert f'href="/jobs/{job}/debugger?task=main-0&amp;id=d2" title="&lt;&#34;step&#34;&gt;">' in page
    assert f'data-socket="/api/v1/jobs/{job}/tasks/main-0/debugger?id=d2"' in second
    assert f"holdfast debug {job} main-0 --id d2" in second
    assert ("<b>odd" in odd, "%26wait%3D9" in odd) == (False, True)
    assert moved.headers["location"] == f"/jobs/{job}/debugger?task=main-0&id=d2"
    assert [f'data-copy="holdfast debug {job} main-0 --id {id}"' in page for id in ("d1", "d2")] == [True, True]
    assert 'data-copy="nc 127.0.0.1 5001"' in page  # which no other machine reaches


async def test_what_a_task_says_of_its_debugger_is_not_trusted(rig: Rig) -> None:
    job = await submit(rig, SLEEPER, JobState.RUNNING)
    debug(rig, job, *(waiting(rig, id=f"d{n}", file=ODD + "x" * 3000, token="<i>" * 500) for n in range(16)))
    async with open_desk(rig, "ada") as desk:
        for path in (f"/jobs/{job}", "/jobs", f"/jobs/{job}/debugger?task=main-0", f"/jobs/{job}/attention"):
            answer = await desk.get(path)
            assert answer.status_code == 200, path
            assert "<b>odd" not in answer.text
            assert "<i><i>" not in answer.text
            assert "x" * 100 not in answer.text


# -- calls


async def test_the_owner_is_called_when_a_job_is_held_or_a_debugger_waits(rig: Rig) -> None:
    job = await submit(rig, SLEEPER, JobState.RUNNING)
    since = f"since={rig.house.services.changes.mark}"
    debug(rig, job, waiting(rig))
    async with open_desk(rig, "ada") as desk, open_desk(rig, "bob") as other:
        async with open_wire(desk, "/live/jobs", query=f"{since}&job=none") as hers:
            told = await hers.next()
            assert (told["jobs"], told["attention"]) == ([], [job])
        async with open_wire(other, "/live/jobs", query=since) as his:
            assert "attention" not in await his.next()
        part = (await desk.part(f"/jobs/{job}/attention")).text
        assert "A debugger is waiting at train.py:42 in main-0 of sleeper." in text_of(part)
        assert part.count("data-attention=") == 1
        debug(rig, job, waiting(rig, attached=True))
        assert "data-attention" not in (await desk.part(f"/jobs/{job}/attention")).text
        crash = await submit(rig, CRASH, JobState.HELD)
        part = (await desk.part(f"/jobs/{crash}/attention")).text
        assert "crash failed. main-0 is on hold." in text_of(part)


# -- stacks


async def test_stacks_are_shown_to_be_read_and_copied(rig: Rig) -> None:
    job = await submit(rig, SLEEPER, JobState.RUNNING)
    odd = "<script>alert(1)</script>"
    rig.house.engine.inside = [  # type: ignore[attr-defined]
        TaskProcess(pid=2**22 + 1, inner_pid=5, parent=0, command=("sleep", odd), python=False),
        TaskProcess(pid=2**22 + 2, inner_pid=6, parent=0, command=("python", "x.py"), python=True),
    ]
    async with open_desk(rig, "ada") as desk:
        page = await desk.get(f"/jobs/{job}/stacks?task=main-0")
        assert page.status_code == 200
        assert odd not in page.text
        assert f"5 sleep {odd}" in html.unescape(page.text.split('id="stacks-text"', 1)[1])
        assert page.text.count('class="card stack-process"') == 2
        rig.house.engine.inside = []  # type: ignore[attr-defined]
        assert "No process is running in this task." in (await desk.get(f"/jobs/{job}/stacks")).text


async def test_what_the_api_said_is_told_in_the_language_of_the_page(rig: Rig) -> None:
    message = {"id": "No debugger is waiting in {id}", "args": {"id": "job-1"}}
    said = {"message": json.dumps(message), "hint": "Try again in a few minutes."}
    async with open_desk(rig, "ada") as desk:
        assert (await desk.get("/translation", params=said)).json() == {
            "text": "No debugger is waiting in job-1. Try again in a few minutes."
        }
        desk.client.cookies.set("holdfast_language", "zh-Hans")
        assert (await desk.get("/translation", params=said)).json() == {
            "text": "job-1 中没有等待连接的调试器。请几分钟后重试。"
        }
        long = (await desk.get("/translation", params={"message": "<b>" * 5000})).json()["text"]
        assert len(long) <= 2100

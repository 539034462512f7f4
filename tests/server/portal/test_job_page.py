"""One job's page as the server makes it: its reason first, who may act, and that nothing in it runs."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.controller.holds import HoldLimits
from holdfast.core.exits.table import find_spec_by_code
from holdfast.core.states import JobState
from holdfast.server.portal.pages.job.sections import SECTIONS
from tests.server.rig import Rig, open_rig
from tests.services.house import open_house

from .page_client import PASSWORD, Desk, open_desk, text_of

pytestmark = pytest.mark.anyio

SLEEPER = "name: sleeper\ncommand: sleep 100\n"
EVIL = "<img src=x onerror=alert(1)>"
SECTION_KEYS = ["", *(section.key for section in SECTIONS if not section.separate_path)]


async def told(desk: Desk, path: str) -> str:
    answer = await desk.get(path)
    assert answer.status_code == 200, answer.text
    return text_of(answer.text)


# -- the state's reason


async def test_a_job_that_waits_says_every_reason(rig: Rig) -> None:
    big = await rig.house.submit("name: big\ncommand: sleep 9\nresources: {cpu: 4}\n")
    await rig.house.until(big.id, JobState.RUNNING)
    await rig.house.submit("name: first\ncommand: sleep 9\nresources: {cpu: 2}\n")
    rig.house.clock.forward(1)  # of two that came at the same moment, chance would say which is first
    job = await rig.house.submit(SLEEPER)
    async with asyncio.timeout(20):  # until the controller has looked at it
        while len(rig.house.controller.list_wait_reasons(job.id)) < 2:
            await asyncio.sleep(0.01)
    async with open_desk(rig) as desk:
        page = await told(desk, f"/jobs/{job.id}")
        assert "free: 0 cores" in page
        assert "1 job is ahead of it in the queue of group default." in page
        assert "data-waits" in (await desk.get(f"/jobs/{job.id}")).text


async def test_a_running_job_says_when_its_time_is_up(rig: Rig) -> None:
    job = await rig.house.submit(SLEEPER)
    await rig.house.until(job.id, JobState.RUNNING)
    async with open_desk(rig) as desk:
        page = await told(desk, f"/jobs/{job.id}")
    assert "Time limit expires:" in page
    assert "Time limit 1d" in page


async def test_a_failed_job_says_what_its_code_means_and_what_to_try(rig: Rig) -> None:
    job = await rig.house.submit("name: oops\nresources: {memory: 1Gi}\ncommand: sleep 9\n")
    await rig.house.until(job.id, JobState.RUNNING)
    rig.house.engine.finish_task(f"{job.id}.0.main-0.0", 137, oom=True)
    await rig.house.until(job.id)
    async with open_desk(rig) as desk:
        raw = (await desk.get(f"/jobs/{job.id}")).text
    page = text_of(raw)
    assert "Killed for exceeding its memory limit" in page
    assert find_spec_by_code(-1200).reason in page
    assert find_spec_by_code(-1200).solution[0] in page
    assert f'href="/jobs/{job.id}/log?task=main-0">View the log of main-0' in raw


async def test_the_task_that_decided_is_named(rig: Rig) -> None:
    text = "name: pair\nroles:\n  a: {command: sleep 100}\n  b: {command: exit 2}\n"
    job = await rig.house.run(text)
    async with open_desk(rig) as desk:
        assert "View the log of b-0" in await told(desk, f"/jobs/{job.id}")


@pytest.mark.parametrize(
    ("text", "words"), [("exit 0", "Succeeded"), ("kill -9 $$", "killed by SIGKILL"), ("exit 3", "Exit code 3")]
)
async def test_every_end_is_told(rig: Rig, text: str, words: str) -> None:
    job = await rig.house.run(f"name: job\ncommand: {text}\n")
    async with open_desk(rig) as desk:
        assert words in await told(desk, f"/jobs/{job.id}")


async def test_a_job_that_is_being_stopped_says_who_asked(rig: Rig) -> None:
    job = await rig.house.submit("name: stubborn\ncommand: |\n  trap '' TERM\n  sleep 100\n")
    await rig.house.until(job.id, JobState.RUNNING)
    async with open_desk(rig) as desk:
        assert (await desk.post(f"/jobs/{job.id}/stop")).headers["location"] == f"/jobs/{job.id}"
        page = (await desk.get(f"/jobs/{job.id}")).text
    assert "admin requested a stop. The job is stopping." in text_of(page)
    assert f'action="/jobs/{job.id}/stop"' not in page


async def test_a_job_between_two_attempts_says_when_the_next_begins(rig: Rig) -> None:
    rig.house.engine.refuse = lambda launch: None
    job = await rig.house.submit(SLEEPER)
    await rig.house.until(job.id, JobState.RUNNING)
    async with open_desk(rig) as desk:
        await desk.get(f"/jobs/{job.id}")  # whatever takes long the first time is done before it counts
        rig.house.engine.lose_task(f"{job.id}.0.main-0.0")
        await rig.house.until(job.id, JobState.PENDING)
        page = await told(desk, f"/jobs/{job.id}")
    assert "retrying" in page
    assert "Next attempt:" in page


# -- finding it


async def test_a_name_or_a_part_of_an_id_leads_to_the_id(rig: Rig) -> None:
    job = await rig.house.run("name: hello\ncommand: echo hi\n")
    async with open_desk(rig) as desk:
        for ref in ("hello", job.id[:-2], job.id[-6:]):
            answer = await desk.get(f"/jobs/{ref}?section=events")
            assert answer.status_code == 302
            assert answer.headers["location"] == f"/jobs/{job.id}?section=events"


async def test_another_groups_job_is_not_there(rig: Rig) -> None:
    await rig.house.user("eve", "others", password=PASSWORD)
    job = await rig.house.run("name: secret-plans\ncommand: echo hi\n")
    async with open_desk(rig, "eve") as desk:
        for path in (f"/jobs/{job.id}", f"/jobs/{job.id}?section=events", f"/jobs/{job.id}/tasks.csv"):
            answer = await desk.get(path)
            assert answer.status_code == 404
            assert "secret-plans" not in answer.text
        assert (await desk.get("/jobs/secret-plans")).status_code == 404
        for act in ("stop", "rerun", "tag", "untag"):
            assert (await desk.post(f"/jobs/{job.id}/{act}", {"tag": "x"})).status_code == 404
    async with open_desk(rig) as desk:
        assert "tagged" not in (await desk.get(f"/jobs/{job.id}?section=events")).text.lower()


async def test_a_section_that_is_not_there_is_the_first(rig: Rig) -> None:
    job = await rig.house.run("name: hello\ncommand: echo hi\n")
    async with open_desk(rig) as desk:
        for wrong in ("nothing", "log", EVIL):
            answer = await desk.get(f"/jobs/{job.id}", params={"section": wrong})
            assert 'data-section="overview"' in answer.text


async def test_a_script_gets_the_page_without_its_frame_and_log(rig: Rig) -> None:
    job = await rig.house.run("name: hello\ncommand: echo hi\n")
    async with open_desk(rig) as desk:
        whole, part = (await desk.get(f"/jobs/{job.id}")).text, (await desk.part(f"/jobs/{job.id}")).text
    assert "<html" in whole
    assert "data-log" in whole
    assert "<html" not in part
    assert "data-log" not in part
    assert 'id="job-state"' in part


# -- what somebody else wrote


async def test_nothing_that_a_user_wrote_is_markup(rig: Rig) -> None:
    text = f"""
name: 'x'
description: '{EVIL}'
tags: ['{EVIL}']
env: {{A: '{EVIL}'}}
command: |
  echo '{EVIL}'
  echo '{EVIL}' > ~/artifacts/<b>.txt
  exit 1
"""
    job = await rig.house.run(text)
    async with open_desk(rig) as desk:
        for key in SECTION_KEYS:
            page = (await desk.get(f"/jobs/{job.id}", params={"section": key, "file": "<b>.txt", "task": EVIL})).text
            assert "<img src=x" not in page, key
        assert "&lt;img src=x" in (await desk.get(f"/jobs/{job.id}")).text


async def test_secrets_are_masked(rig: Rig) -> None:
    job = await rig.house.run("name: hush\ncommand: echo hi\nsecrets:\n  KEY: abracadabra\n")
    async with open_desk(rig) as desk:
        for query in ("", "?section=configuration", "?section=configuration&as=source", "?section=events"):
            assert "abracadabra" not in (await desk.get(f"/jobs/{job.id}{query}")).text
        assert "Secrets are not shown." in await told(desk, f"/jobs/{job.id}?section=configuration")


async def test_the_configuration_is_shown_both_ways(rig: Rig) -> None:
    job = await rig.house.run("# my job\nname: hello\ncommand: echo hi\n")
    async with open_desk(rig) as desk:
        again = (await desk.get(f"/jobs/{job.id}?section=configuration")).text
        source = (await desk.get(f"/jobs/{job.id}?section=configuration&as=source")).text
    assert "# my job" in source
    assert "# my job" not in again
    assert f'download="{job.id}.yaml" href="/api/v1/jobs/{job.id}/yaml"' in again
    assert f'href="/api/v1/jobs/{job.id}/source"' in source


# -- acting


async def test_acts_need_proof(rig: Rig) -> None:
    job = await rig.house.submit(SLEEPER)
    async with open_desk(rig) as desk:
        for act in ("stop", "rerun", "tag", "untag"):
            assert (await desk.client.post(f"/jobs/{job.id}/{act}", data={"tag": "x"})).status_code == 403
            assert (await desk.get(f"/jobs/{job.id}/{act}")).status_code in (404, 405)
    assert not (await rig.house.services.jobs.wait(rig.house.admin, job.id, 0)).stopping


async def test_a_job_is_stopped_and_run_again(rig: Rig) -> None:
    job = await rig.house.submit(SLEEPER)
    async with open_desk(rig) as desk:
        answer = await desk.post(f"/jobs/{job.id}/stop", {"back": "/jobs?mine=1"})
        assert answer.headers["location"] == "/jobs?mine=1"
        await rig.house.until(job.id)
        assert "Cancelled by admin" in await told(desk, f"/jobs/{job.id}")
        assert "has already ended" in text_of((await desk.post(f"/jobs/{job.id}/stop", follow_redirects=True)).text)
        answer = await desk.post(f"/jobs/{job.id}/rerun")
        assert answer.status_code == 303
        new = answer.headers["location"]
        assert new.startswith("/jobs/job-")
        assert new != f"/jobs/{job.id}"
        assert f"Original job {job.id}" in await told(desk, new)
        answer = await desk.post(f"/jobs/{job.id}/stop", {"back": "https://evil.example/"})
        assert answer.headers["location"] == "/"


async def test_tags_come_and_go(rig: Rig) -> None:
    job = await rig.house.run("name: hello\ncommand: echo hi\n")
    async with open_desk(rig) as desk:
        await desk.post(f"/jobs/{job.id}/tag", {"tag": " good one "})
        assert "Remove the tag good one" in (await desk.get(f"/jobs/{job.id}")).text
        wrong = await desk.post(f"/jobs/{job.id}/tag", {"tag": "a,b"})
        assert wrong.status_code == 400
        assert 'value="a,b"' in wrong.text
        assert "no comma" in wrong.text
        await desk.post(f"/jobs/{job.id}/untag", {"tag": "good one"})
        assert "Remove the tag" not in (await desk.get(f"/jobs/{job.id}")).text


async def test_whoever_may_only_look_sees_no_buttons(rig: Rig) -> None:
    await rig.house.user("bob", "team", password=PASSWORD)
    ann = await rig.house.user("ann", "team", password=PASSWORD)
    job = await rig.house.submit(SLEEPER, ann, group="team")
    async with open_desk(rig, "bob") as desk:
        assert f'action="/jobs/{job.id}/stop"' in (await desk.get(f"/jobs/{job.id}")).text
    rig.house.services.tokens._access._own_only = True
    async with open_desk(rig, "bob") as desk:
        page = (await desk.get(f"/jobs/{job.id}")).text
        assert f'action="/jobs/{job.id}/' not in page
        assert f'href="/jobs/new?clone={job.id}"' in page
        assert (await desk.post(f"/jobs/{job.id}/stop")).status_code == 403


# -- old addresses


async def test_links_from_before_lead_here(rig: Rig) -> None:
    job = await rig.house.run("name: hello\ncommand: echo hi\n")
    here = f"/jobs/{job.id}"
    old = {
        "/job-detail.html?username=admin&jobName=hello": here,
        "/job-detail.html?username=admin&jobName=hello&jobAttemptIndex=0": f"{here}?section=tasks&attempt=0",
        "/job-event.html?username=admin&jobName=hello": f"{here}?section=events",
        "/task-attempt.html?username=admin&jobName=hello&jobAttemptIndex=0&taskRoleName=main&taskIndex=0": (
            f"{here}?section=tasks&attempt=0&task=main-0"
        ),
        f"/console/g/default/job/{job.id}": here,
    }
    async with open_desk(rig) as desk:
        for path, target in old.items():
            answer = await desk.get(path)
            assert (answer.status_code, answer.headers.get("location")) == (303, target), path
        assert (await desk.get("/job-detail.html")).status_code == 404
        assert (await desk.get("/job-detail.html?username=eve&jobName=hello")).status_code == 404
        assert (await desk.get("/console/g/default/job/nothing-here")).status_code == 404


async def test_events_are_told_newest_first_page_by_page(rig: Rig) -> None:
    job = await rig.house.run("name: hello\ncommand: echo hi\n")
    for n in range(60):
        await rig.house.services.jobs.tag(rig.house.admin, job.id, f"tag{n}")
        await rig.house.services.jobs.untag(rig.house.admin, job.id, f"tag{n}")
    async with open_desk(rig) as desk:
        page = (await desk.get(f"/jobs/{job.id}?section=events")).text
        assert page.count('<li id="event-') == 100
        assert "Submitted by admin" not in page
        older = page.split('rel="next" href="')[1].split('"')[0].replace("&amp;", "&")
        page = (await desk.get(older)).text
        assert "Submitted by admin" in page
        assert "Newest events" in page
        for wrong in ("x", "-1", "9" * 40, "²"):
            assert (await desk.get(f"/jobs/{job.id}", params={"section": "events", "before": wrong})).status_code == 200


async def test_warnings_are_shown_first(rig: Rig) -> None:
    job = await rig.house.submit("name: kept\ncommand: echo hi\nhold: 365d\n")
    async with open_desk(rig) as desk:
        assert "this server holds a failed task for at most 4 weeks" in await told(desk, f"/jobs/{job.id}")


async def test_a_job_that_may_not_be_held_says_why(tmp_path: Path) -> None:
    text = "name: first\nhold: true\ncommand: exit 3\n"
    async with open_house(tmp_path / "home") as house, open_rig(house) as rig:
        house.controller.planner.limits = replace(house.controller.planner.limits, hold=HoldLimits(per_user=1))
        first = await house.submit(text)
        await house.until(first.id, JobState.HELD)
        second = await house.run("name: one\nhold: true\ncommand: exit 3\n")
        other = await house.run("name: other\ncommand: exit 3\n")
        async with open_desk(rig) as desk:
            why = "was not put on hold: Tasks of admin on hold: 1; the limit is 1."
            assert why not in await told(desk, f"/jobs/{first.id}?section=configuration")
            assert (await told(desk, f"/jobs/{second.id}?section=configuration")).count(f"main-0 {why}") == 1
            assert "was not put on hold" not in await told(desk, f"/jobs/{other.id}?section=configuration")
            desk.client.headers["Accept-Language"] = "zh-TW"
            assert "main-0 未被保留：admin 有 1 個已保留的任務" in await told(desk, f"/jobs/{second.id}")


async def test_a_job_that_can_never_run_says_so_once_and_that_its_task_never_started(rig: Rig) -> None:
    text = "name: huge\ncommand: echo hi\nresources: {cpu: 400}\n"
    async with open_desk(rig) as desk:
        answer = await desk.post("/jobs/new", {"text": text})
        job = answer.headers["location"].rpartition("/")[2]
        await rig.house.until(job)
        page = await told(desk, f"/jobs/{job}")
        assert page.count("a task requests 400 cores") == 1
        assert "huge is submitted." in page
        assert "Never started" in page
        assert "Ended by other tasks" not in page

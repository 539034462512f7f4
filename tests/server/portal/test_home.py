from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast.core.conditions import Condition, ConditionKind
from holdfast.core.job import GIB
from holdfast.core.schedule import Recurrence, RecurrenceKind
from holdfast.core.scheduling.placement import Node, Quota
from holdfast.core.states import JobState
from holdfast.services.people.groups import GroupChange

from ..rig import Rig
from .page_client import PASSWORD, open_desk, text_of

pytestmark = pytest.mark.anyio

SLEEP = "name: sleeper\ncommand: sleep 100\nresources: {cpu: 1, memory: 256Mi}\n"
FAIL = "name: breaks\ncommand: exit 3\n"


async def test_a_first_visit_explains_itself(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        page = (await desk.get("/")).text
        told = text_of(page)
        assert "Run your first job" in told
        assert 'action="/jobs/first"' in page
        assert "holdfast login http://test" in told
        assert "primehub config generate-token http://test" in told
        assert "http://test/rest-server" in told
        assert "Your current jobs" not in told


async def test_a_problem_of_the_installation_is_shown_to_everyone(rig: Rig) -> None:
    await rig.house.user("ann", "lab", password=PASSWORD)
    problem = Condition(
        kind=ConditionKind.SANDBOX,
        message="Jobs do not start.",
        hint="Mend the kernel.",
        detail="EPERM",
        blocks_starts=True,
    )
    rig.house.engine.set_conditions(problem)
    async with open_desk(rig, "ann") as desk:
        told = text_of((await desk.get("/")).text)
        assert "Jobs do not start." in told
        assert "Mend the kernel." not in told
    async with open_desk(rig) as desk:
        assert "Jobs do not start. Mend the kernel." in text_of((await desk.get("/")).text)
        assert "Jobs do not start. Mend the kernel." in text_of((await desk.get("/admin/installation")).text)
    answered = (await rig.get("/health")).json()
    assert [each["detail"] for each in answered["conditions"]] == [""]
    assert [each["detail"] for each in (await rig.get("/status")).json()["conditions"]] == ["EPERM"]


async def test_the_queue_of_an_engine_is_shown_instead_of_ports(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        assert "task ports" in text_of((await desk.get("/admin/installation")).text)
        rig.house.engine.queues = "Waits for a machine"
        rig.house.engine.set_nodes([Node(name="cluster", cpu=64, memory=GIB, queue_limit=50)])
        job = await rig.house.submit("name: far\ncommand: sleep 9\nresources: {cpu: 32}\ninstances: 3\n")
        await rig.house.until(job.id, JobState.PREPARING)
        page = text_of((await desk.get("/admin/installation")).text)
        assert "Tasks in the queue: 3, at most 50" in page
        assert "task ports" not in page
        assert (await desk.get("/")).status_code == 200
    (node,) = (await rig.get("/capacity")).json()["nodes"]
    assert (node["queue_limit"], node["waiting"], node["free"]["cpu"]) == (50, 3, 64)


async def test_somebody_without_a_group_is_told_so(rig: Rig) -> None:
    await rig.house.user("lost", password=PASSWORD)
    async with open_desk(rig, "lost") as desk:
        page = (await desk.get("/")).text
        assert "You are not in a group yet" in page
        assert "/jobs/first" not in page


async def test_my_jobs_by_state_lead_to_the_list(rig: Rig) -> None:
    ann = await rig.house.user("ann", "lab", password=PASSWORD)
    running = await rig.house.submit(SLEEP, ann)
    await rig.house.until(running.id, JobState.RUNNING)
    await rig.house.run(FAIL, ann)
    await rig.house.run("name: fine\ncommand: echo\n", ann)
    other = await rig.house.submit("name: hers\ncommand: sleep 100\n", rig.house.admin)
    async with open_desk(rig, "ann") as desk:
        page = (await desk.get("/")).text
        told = text_of(page)
        assert "1 Running 0 Pending" in told
        assert "1 Succeeded 1 Failed 0 Cancelled" in told
        assert 'href="/jobs?state=Failed&amp;mine=on&amp;since=7d"' in page
        assert 'href="/jobs?state=Running&amp;mine=on"' in page
        assert f"/jobs/{running.id}" in page
        assert other.id not in page
        assert "Exit code 3" in told
        assert "Recently finished jobs Succeeded fine" in told
        assert "Jobs of all users" not in told
        assert "breaks" in (await desk.get("/jobs?state=Failed&mine=on")).text


async def test_a_failure_says_what_it_means_and_what_to_try(rig: Rig) -> None:
    await rig.house.run("name: big\ncommand: kill -9 $$\n")
    async with open_desk(rig) as desk:
        told = text_of((await desk.get("/")).text)
        assert "Exit code 137 (killed by SIGKILL)" in told
        assert "Explanation and suggested fixes" in told


async def test_old_failures_are_not_news(rig: Rig) -> None:
    await rig.house.run(FAIL)
    rig.house.clock.at += timedelta(days=8)
    async with open_desk(rig) as desk:
        told = text_of((await desk.get("/")).text)
        assert "None of your jobs failed in the last 7 days." in told
        assert "0 Failed" in told
        assert "Recently finished jobs Failed breaks" in told


async def test_jobs_of_a_group_one_has_left_are_not_counted(rig: Rig) -> None:
    ann = await rig.house.user("ann", "lab", "other", password=PASSWORD)
    await rig.house.run("name: gone\ngroup: lab\ncommand: exit 1\n", ann)
    await rig.house.run("name: kept\ngroup: other\ncommand: exit 1\n", ann)
    await rig.house.services.groups.remove_member(rig.house.admin, "lab", "ann")
    async with open_desk(rig, "ann") as desk:
        told = text_of((await desk.get("/")).text)
        assert "1 Failed" in told
        assert "gone" not in told


async def test_quotas_and_machines(rig: Rig) -> None:
    ann = await rig.house.user("ann", "lab", "empty", password=PASSWORD)
    limits = GroupChange(quota=Quota(cpu=4, gpu=0), user_quota=Quota(cpu=2))
    await rig.house.services.groups.change(rig.house.admin, "lab", limits)
    job = await rig.house.submit("name: busy\ngroup: lab\ncommand: sleep 100\nresources: {cpu: 1, memory: 1Gi}\n", ann)
    await rig.house.until(job.id, JobState.RUNNING)
    async with open_desk(rig, "ann") as desk:
        page = (await desk.get("/")).text
        told = text_of(page)
        assert "lab CPU 1 of 4 Memory 1 GiB of ∞ GPU 0 of 0 Your usage CPU 1 of 2" in told
        assert "empty CPU 0 of ∞" in told
        assert told.index("lab CPU") < told.index("empty CPU")  # what is in use comes first
        assert "fake CPU 1 of 4 Memory 1 GiB of 16 GiB" in told.split("Nodes")[1]
        assert '<meter min="0" max="4.0"' in page


async def test_a_place_without_isolation_says_so(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        isolated = rig.house.engine.get_health().isolation != "none"
        told = (await desk.get("/")).text
        assert ("not isolated" in told) is not isolated


async def test_next_recurring_runs(rig: Rig) -> None:
    daily = Recurrence(kind=RecurrenceKind.DAILY, timezone="UTC")
    made = await rig.house.services.schedules.create(rig.house.admin, SLEEP, daily)
    await rig.house.services.schedules.create(rig.house.admin, FAIL, daily, paused=True)
    async with open_desk(rig) as desk:
        page = (await desk.get("/")).text
        assert f'href="/schedules/{made.schedule.id}"' in page
        assert 'datetime="2026-03-02T04:00:00Z"' in page
        assert "breaks" not in page


async def test_admins_see_everybodys_jobs(rig: Rig) -> None:
    ann = await rig.house.user("ann", "lab", password=PASSWORD)
    job = await rig.house.submit(SLEEP, ann)
    await rig.house.until(job.id, JobState.RUNNING)
    async with open_desk(rig) as desk:
        told = text_of((await desk.get("/")).text)
        assert "Jobs of all users 1 Running 0 Pending" in told
        assert "The server is healthy." in told


async def test_hostile_names_are_only_text(rig: Rig) -> None:
    await rig.house.run('name: "<script>alert(1)</script>"\ncommand: exit 1\n')
    async with open_desk(rig) as desk:
        page = (await desk.get("/")).text
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert(1)" in page


async def test_a_part_is_the_board_alone_and_strangers_go_to_the_login_page(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        assert (await desk.part("/")).text.lstrip().startswith('<div id="board"')
        for old in ("/home.html", "/index.html"):
            assert (await desk.get(old)).headers["location"] == "/"
        desk.client.cookies.clear()
        assert (await desk.get("/")).headers["location"] == "/login"

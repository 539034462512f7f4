"""The job list as the server makes it: filters in the address, paging, what rows offer, stopping several."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from holdfast.core.states import JobState
from holdfast.server.portal.jobs.filters import PAGE_SIZES
from tests.server.rig import Rig, open_rig
from tests.services.house import open_house

from .page_client import PASSWORD, Desk, open_desk, text_of

pytestmark = pytest.mark.anyio


def job(name: str, command: str = "sleep 100", **more: str) -> str:
    return "".join(f"{key}: {value}\n" for key, value in {"name": name, "command": command, **more}.items())


def rows_of(page: str) -> dict[str, str]:
    """id -> the row."""
    return dict(re.findall(r'<tr id="(job-[^"]+)"(.*?)</tr>', page, re.DOTALL))


def names_of(page: str) -> list[str]:
    return re.findall(r'class="open"[^>]*><bdi[^>]*>(.*?)</bdi>', page)


async def names_at(desk: Desk, path: str) -> list[str]:
    answer = await desk.get(path)
    assert answer.status_code == 200, answer.text
    return names_of(answer.text)


async def test_the_list_shows_what_one_wants_to_know_of_a_job(rig: Rig) -> None:
    made = await rig.house.submit(job("train", resources="{cpu: 2, memory: 3Gi}", group="default"))
    await rig.house.until(made.id, JobState.RUNNING)
    async with open_desk(rig) as desk:
        page = (await desk.get("/jobs")).text
        [(id, row)] = rows_of(page).items()
        assert id == made.id
        text = text_of(f"<tr {row}")
        for word in ("Running", "train", "admin", "default", "2 CPU", "3 GiB", "–"):
            assert word in text
        assert f'href="/jobs/{id}"' in row
        assert f'href="/jobs/new?clone={id}"' in row
        assert f'href="/jobs/new?rerun={id}"' in row
        assert 'form="stop-one"' in row
        assert "data-since=" in row  # its duration counts on


async def test_a_held_job_stands_out_with_the_time_it_has_left(rig: Rig) -> None:
    rig.house.controller.clock = rig.house.clock.now
    held = await rig.house.submit("name: mind-me\nhold: 2h\ncommand: exit 3\n")
    await rig.house.until(held.id, JobState.HELD)
    async with open_desk(rig) as desk:
        row = rows_of((await desk.get("/jobs")).text)[held.id]
        home = text_of((await desk.get("/")).text)
    assert 'class="held"' in row
    assert "expires 2026-03-01 14:00 UTC" in text_of(f"<tr {row}")
    assert "Jobs on hold" in home
    assert "expires 2026-03-01 14:00 UTC" in home


async def test_why_a_job_waits_or_failed_stands_below_its_name(rig: Rig) -> None:
    failed = await rig.house.run(job("broken", "exit 3"))
    waits = await rig.house.submit(job("big", resources="{cpu: 4}"))
    more = await rig.house.submit(job("bigger", resources="{cpu: 4}"))
    await rig.house.until(waits.id, JobState.RUNNING)
    async with open_desk(rig) as desk:
        rows = rows_of((await desk.get("/jobs")).text)
        assert "Exit code 3" in rows[failed.id]
        assert "; free: " in rows[more.id] or more.id not in rows
        assert "reason" not in rows[waits.id]  # Running says it all


async def test_filters_narrow_the_list_and_stand_in_the_form(rig: Rig) -> None:
    house = rig.house
    ann = await house.user("ann", "vision", "speech", password=PASSWORD)
    await house.submit(job("one", group="vision"), ann)
    await house.run(job("two", "exit 1", group="speech"), ann)
    await house.submit(job("three", group="vision"))
    async with open_desk(rig, "ann") as desk:
        assert await names_at(desk, "/jobs") == ["three", "two", "one"]
        assert await names_at(desk, "/jobs?group=vision") == ["three", "one"]
        assert await names_at(desk, "/jobs?group=vision&group=speech") == ["three", "two", "one"]
        assert await names_at(desk, "/jobs?mine=on") == ["two", "one"]
        assert await names_at(desk, "/jobs?user=admin") == ["three"]
        assert await names_at(desk, "/jobs?state=failed") == ["two"]
        assert await names_at(desk, "/jobs?state=Failed&state=Running&state=Preparing&state=Pending&mine=on") == [
            "two",
            "one",
        ]
        assert await names_at(desk, "/jobs?text=THRE") == ["three"]
        assert await names_at(desk, "/jobs?since=custom&from=2026-03-01&to=2026-03-01") == ["three", "two", "one"]
        assert await names_at(desk, "/jobs?from=2026-03-02") == []
        assert await names_at(desk, "/jobs?to=2026-02-28") == []
        page = (await desk.get("/jobs?group=vision&state=Failed&mine=on&text=zz&since=7d")).text
        for field in ('name="group" value="vision" checked', 'value="Failed" checked', 'name="mine" checked'):
            assert field in page
        assert '<option value="7d" selected>' in page
        assert "No job matches all filters." in text_of(page)


async def test_a_script_gets_the_list_alone_and_the_address_that_stands_for_it(rig: Rig) -> None:
    await rig.house.submit(job("one"))
    async with open_desk(rig) as desk:
        answer = await desk.part("/jobs?text=one&group=&since=&from=&to=&state=Running&state=Pending&state=Preparing")
        assert "<html" not in answer.text
        assert names_of(answer.text) == ["one"]
        pushed = urlsplit(answer.headers["hx-push-url"])
        assert (pushed.path, set(parse_qs(pushed.query))) == ("/jobs", {"text", "state"})
        typed = await desk.client.get("/jobs?text=on", headers={"HX-Request": "true", "X-Typed": "yes"})
        assert typed.headers["hx-replace-url"] == "/jobs?text=on"
        assert 'name="csrf"' not in answer.text  # proofs do not compress: one per page, none per row


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("state=Sleeping", "Unknown state Sleeping"),
        ("since=9y", "Time range 9y is not supported"),
        ("from=yesterday", "yesterday is not a date such as 2026-03-01"),
        ("from=0001-01-01", "0001-01-01 is not a date"),
        ("from=2026-03-02&to=2026-03-01", "The end date is before the start date"),
        ("limit=51", "limit must be one of"),
        ("limit=%D9%A5%D9%A0", "limit must be one of"),
        ("cursor=%2e%2e", "This page cursor is not valid"),
        ("cursor=" + "9" * 300, "cursor is longer than"),
        ("text=" + "x" * 201, "text is longer than"),
        ("group=nowhere", "Group nowhere not found, or you are not a member"),
        ("group=" + ",".join(f"g{n}" for n in range(101)), "At most 100 groups"),
        ("state=%3Cscript%3E", "Unknown state <script>"),
    ],
)
async def test_what_makes_no_sense_is_told_not_failed(rig: Rig, query: str, told: str) -> None:
    async with open_desk(rig) as desk:
        answer = await desk.get(f"/jobs?{query}")
        assert answer.status_code in (400, 404)
        assert told in text_of(answer.text)
        assert "<script>" not in answer.text
        part = await desk.part(f"/jobs?{query}")
        assert part.status_code in (400, 404)
        assert part.headers["hx-retarget"] == "#messages"


async def test_odd_texts_find_nothing_and_break_nothing(rig: Rig) -> None:
    await rig.house.submit(job("one"))
    async with open_desk(rig) as desk:
        for text in ("%00", "%0a", "%ff", "%22", "%25", "_", "'", "%F0%9F%98%80", "%E2%80%AE"):
            assert (await desk.get(f"/jobs?text={text}&user={text}")).status_code == 200


async def test_older_jobs_are_a_link_away(rig: Rig) -> None:
    for number in range(PAGE_SIZES[0] + 2):
        await rig.house.submit(job(f"j{number}"))
    async with open_desk(rig) as desk:
        page = (await desk.get("/jobs?user=admin")).text
        assert len(rows_of(page)) == PAGE_SIZES[0]
        older = re.search(r'rel="next" href="([^"]+)"', page)
        assert older
        second = (await desk.get(older.group(1).replace("&amp;", "&"))).text
        assert names_of(second) == ["j1", "j0"]
        assert "mine=on" in older.group(1)
        newest = re.search(r'<a class="button" href="([^"]+)">Newest', second)
        assert newest
        assert "cursor" not in newest.group(1)
        assert len(rows_of((await desk.get("/jobs?limit=100")).text)) == PAGE_SIZES[0] + 2


async def test_others_jobs_are_neither_seen_nor_acted_on(rig: Rig) -> None:
    ann = await rig.house.user("ann", "vision", password=PASSWORD)
    secret = await rig.house.submit(job("secret"))
    own = await rig.house.submit(job("own", group="vision"), ann)
    async with open_desk(rig, "ann") as desk:
        assert await names_at(desk, "/jobs") == ["own"]
        answer = await desk.post("/jobs/stop", {"job": [secret.id, own.id]})
        assert answer.status_code == 303
        told = text_of((await desk.get("/jobs")).text)
        assert "1 job is stopping." in told
        assert f"{secret.id} was not stopped: Job {secret.id} not found." in told
        assert (await rig.house.services.jobs.get(rig.house.admin, secret.id)).record.summary.stopping is False


async def test_a_job_that_may_only_be_read_has_no_buttons(tmp_path: Path) -> None:
    reading = {"access": {"reading": "users"}}
    async with open_house(tmp_path / "home", settings=reading) as house, open_rig(house) as rig:
        await house.user("ann", "vision", password=PASSWORD)
        await house.submit(job("others"))
        async with open_desk(rig, "ann") as desk:
            page = (await desk.get("/jobs?group=default")).text
            assert names_of(page) == ["others"]
            assert 'class="icon-button' not in page
            assert 'name="job"' not in page


async def test_several_jobs_are_stopped_at_once_and_the_list_says_so(rig: Rig) -> None:
    ids = [(await rig.house.submit(job(f"j{number}"))).id for number in range(3)]
    for id in ids:
        await rig.house.until(id, JobState.RUNNING)
    async with open_desk(rig) as desk:
        proof = await desk.proof()
        answer = await desk.client.post(
            "/jobs/stop", data={"csrf": proof, "job": ids[:2]}, headers={"HX-Request": "true"}
        )
        assert text_of(answer.text).endswith("2 jobs are stopping.")
        for id in ids[:2]:
            assert (await rig.house.until(id)).state is JobState.CANCELLED
        answer = await desk.post("/jobs/stop", {"job": ids[2], "back": "/jobs?mine=on"})
        assert answer.headers["location"] == "/jobs?mine=on"
        answer = await desk.post("/jobs/stop", {"job": ids[2], "back": "//evil.example/"})
        assert answer.headers["location"] == "/"


async def test_stopping_needs_a_selection_and_a_proof(rig: Rig) -> None:
    made = await rig.house.submit(job("one"))
    async with open_desk(rig) as desk:
        assert "No job is selected" in text_of((await desk.post("/jobs/stop")).text)
        assert (await desk.post("/jobs/stop", {"job": [f"j{n}" for n in range(201)]})).status_code == 400
        assert (await desk.client.post("/jobs/stop", data={"job": made.id})).status_code == 403
        assert (await desk.get("/jobs/stop")).status_code == 404
    assert (await rig.house.services.jobs.get(rig.house.admin, made.id)).record.summary.stopping is False


async def test_an_empty_list_offers_a_first_job_that_runs(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        page = (await desk.get("/jobs")).text
        assert "No jobs yet" in text_of(page)
        assert 'action="/jobs/first"' in page
        answer = await desk.post("/jobs/first")
        id = answer.headers["location"].removeprefix("/jobs/")
        assert (await rig.house.until(id, JobState.RUNNING)).name == "hello"
        assert "No jobs yet" not in (await desk.get("/jobs")).text
        assert "No job matches all filters" in (await desk.get("/jobs?text=zzz")).text


async def test_somebody_of_several_groups_chooses_one_for_the_first_job(rig: Rig) -> None:
    await rig.house.user("ann", "vision", "speech", password=PASSWORD)
    async with open_desk(rig, "ann") as desk:
        page = (await desk.get("/jobs")).text
        assert re.findall(r"<option>(\w+)</option>", page) == ["speech", "vision"]
        answer = await desk.post("/jobs/first", {"group": "vision"})
        assert answer.status_code == 303
        assert (await desk.post("/jobs/first", {"group": "default"})).status_code == 403


async def test_somebody_without_a_group_is_told_what_to_do(rig: Rig) -> None:
    await rig.house.user("lone", password=PASSWORD)
    async with open_desk(rig, "lone") as desk:
        page = (await desk.get("/jobs")).text
        assert "Ask an admin to add you to a group" in text_of(page)
        assert "/jobs/first" not in page


async def test_names_are_shown_as_they_are_and_do_nothing(rig: Rig) -> None:
    await rig.house.submit('name: "<img src=x onerror=alert(1)>{job}"\ncommand: sleep 1\n')
    async with open_desk(rig) as desk:
        page = (await desk.get("/jobs")).text
        assert "<img" not in page
        assert "&lt;img src=x onerror=alert(1)&gt;{job}" in page


async def test_a_row_is_another_version_only_when_it_looks_different(rig: Rig) -> None:
    made = await rig.house.submit(job("one"))
    await rig.house.until(made.id, JobState.RUNNING)

    async def version(desk: Desk) -> str:
        found = re.search(r'data-v="(\w+)"', (await desk.part("/jobs")).text)
        assert found
        return found.group(1)

    async with open_desk(rig) as desk:
        first = await version(desk)
        assert await version(desk) == first
        await rig.house.services.jobs.stop(rig.house.admin, made.id)
        assert await version(desk) != first


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/job-list.html", "/jobs"),
        ("/job-list.html?vcName=default&user=bob&keyword=a%26b", "/jobs?group=default&user=bob&text=a%26b"),
        ("/job-list.html?status=Waiting", "/jobs?state=Pending&state=Preparing"),
        ("/job-list.html?status=Stopped,Failed&user=@Me", "/jobs?state=Failed&state=Cancelled&mine=on"),
        ("/console/g/default/job", "/jobs?group=default"),
        ("/console/g/Research-A/job", "/jobs?group=research_a"),
        ("/console", "/"),
        ("/console/", "/"),
    ],
)
async def test_old_addresses_lead_to_their_lists(rig: Rig, old: str, new: str) -> None:
    await rig.house.add_group("research_a")
    async with open_desk(rig) as desk:
        assert (await desk.get(old)).headers["location"] == new


async def test_a_list_that_needs_a_login_is_come_back_to(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        desk.client.cookies.clear()
        answer = await desk.get("/jobs?state=Failed&mine=on")
        assert answer.headers["location"] == "/login?next=/jobs%3Fstate%3DFailed%26mine%3Don"

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.core.schedule import Recurrence, RecurrenceKind, Schedule, ScheduleQuery
from holdfast.server.app import build_body_limit
from holdfast.server.portal.rendering import create_environment
from holdfast.settings import Settings

from ..rig import Rig
from .page_client import PASSWORD, open_desk, text_of

pytestmark = pytest.mark.anyio

HELLO = "name: hello\ncommand: sleep 100\n"
SECRET = "name: hush\ncommand: sleep 100\nsecrets:\n  KEY: abracadabra\n"
HOURLY = Recurrence(kind=RecurrenceKind.CUSTOM, cron="0 * * * *", timezone="UTC")


async def add(rig: Rig, text: str = HELLO, actor: Any = None, **more: Any) -> Schedule:
    made = await rig.house.services.schedules.create(actor or rig.house.admin, text, HOURLY, **more)
    return made.schedule


async def only(rig: Rig) -> Schedule:
    (found,) = (await rig.house.services.schedules.list(rig.house.admin, ScheduleQuery())).items
    return found


def filled(**more: Any) -> dict[str, Any]:
    return {"do": "create", "kind": "custom", "cron": "0 * * * *", "timezone": "UTC", "text": HELLO, **more}


async def test_where_no_bundle_could_be_made_forms_are_sent_by_their_buttons(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(create_environment("en").globals, "has_vendor", False)
    async with open_desk(rig) as desk:
        form, listed = (await desk.get("/schedules/new")).text, (await desk.get("/schedules")).text
        assert '<button class="button" name="do" value="check">' in form
        assert '<button class="button">Filter</button>' in listed
        assert "data-bundled" not in form  # so scripts do not ask for what does not exist


# -- the list


async def test_an_empty_list_offers_the_first_one(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        page = (await desk.get("/schedules")).text
        assert "No schedules yet" in page
        assert 'href="/schedules/new"' in page
        assert "No matching schedules" in (await desk.get("/schedules?text=nothing")).text


async def test_the_list_tells_when_each_runs_and_how_it_went(rig: Rig) -> None:
    hello, paused = await add(rig), await add(rig, "name: asleep\ncommand: env\n", paused=True)
    bad = await add(rig, "name: lost\ncommand: env\nimage: nowhere/none\n")
    rig.house.clock.at = datetime(2026, 3, 1, 13, 0, tzinfo=UTC)
    await rig.house.services.schedules.due_runs.run_due_schedules()
    async with open_desk(rig) as desk:
        page = (await desk.get("/schedules")).text
        told = text_of(page)
        assert "0 * * * * UTC" in told
        assert 'datetime="2026-03-01T14:00:00Z"' in page
        assert "Paused" in told
        assert "Never ran" in told
        assert "Invalid Image nowhere/none not found" in told
        assert f'formaction="/schedules/{hello.id}/run"' in page
        assert f'formaction="/schedules/{bad.id}/run"' not in page
        assert f'formaction="/schedules/{paused.id}/resume"' in page
        assert f'formaction="/schedules/{hello.id}/pause"' in page
        part = (await desk.part("/schedules")).text
        assert part.lstrip().startswith('<div id="schedules"')


async def test_filters_and_order_stay_in_the_address(rig: Rig) -> None:
    ann = await rig.house.user("ann", "lab", password=PASSWORD)
    await add(rig, "name: zebra\ncommand: env\n")
    rig.house.clock.forward(1)
    await add(rig, "name: apple\ncommand: env\n", ann)
    async with open_desk(rig) as desk:

        async def names(query: str) -> list[str]:
            page = text_of((await desk.part(f"/schedules{query}")).text)
            return sorted((name for name in ("zebra", "apple") if f" {name} " in page), key=page.index)

        assert await names("") == ["apple", "zebra"]
        assert await names("?order=name&reverse=on") == ["zebra", "apple"]
        assert await names("?group=lab") == ["apple"]
        assert await names("?mine=on") == ["zebra"]
        assert await names("?text=ZEB") == ["zebra"]
        assert await names("?group=nowhere") == []
        assert await names("?order=nonsense&page=x") == ["apple", "zebra"]
        assert await names("?page=99999999999") == ["apple", "zebra"]
        page = (await desk.get("/schedules?order=name&mine=on")).text
        assert 'aria-sort="ascending"' in page
        assert "order=name&amp;reverse=on" in page
        assert '<input type="hidden" name="order" value="name">' in page


async def test_many_are_shown_page_by_page(rig: Rig) -> None:
    for number in range(26):
        await add(rig, f"name: job-{number:02}\ncommand: env\n")
    async with open_desk(rig) as desk:
        first = (await desk.get("/schedules?order=name")).text
        assert "Page 1 of 2" in first
        assert "order=name&amp;page=2" in first
        second = (await desk.get("/schedules?order=name&page=2")).text
        assert "job-25" in second
        assert "job-24" not in second


async def test_hostile_names_are_only_text(rig: Rig) -> None:
    made = await add(rig, 'name: "<img src=x onerror=alert(1)>"\ncommand: env\n')
    async with open_desk(rig) as desk:
        for path in ("/schedules", f"/schedules/{made.id}", f"/schedules/{made.id}/edit", "/schedules?text=<b>"):
            page = (await desk.get(path)).text
            assert "<img src=x" not in page
            assert "<b>" not in page
            assert "&lt;" in page


# -- one of them


async def test_one_with_its_times_and_history(rig: Rig) -> None:
    made = await add(rig)
    for hour in (13, 14):
        rig.house.clock.at = datetime(2026, 3, 1, hour, 0, tzinfo=UTC)
        await rig.house.services.schedules.due_runs.run_due_schedules()
    async with open_desk(rig) as desk:
        page = (await desk.get(f"/schedules/{made.id}")).text
        told = text_of(page)
        assert page.count("<li>") == 5
        assert "Sun, Mar 1, 2026 15:00 UTC" in told
        assert "Skipped" in told
        assert "has not finished" in told
        assert 'href="/jobs/job-2026' in page
        assert "command: sleep 100" in told
        assert (await desk.get(f"/schedules/{made.id}?before=nonsense")).status_code == 200
        assert "Newest" in (await desk.get(f"/schedules/{made.id}?before=1")).text


async def test_a_job_names_the_recurring_job_it_is_of(rig: Rig) -> None:
    made = await add(rig)
    by_hand = (await rig.house.services.schedules.run_schedule_now(rig.house.admin, made.id)).summary
    rig.house.clock.at = datetime(2026, 3, 1, 13, 0, tzinfo=UTC)
    await rig.house.services.schedules.due_runs.run_due_schedules()
    link = f'href="/schedules/{made.id}"'
    async with open_desk(rig) as desk:
        page = (await desk.get(f"/jobs/{by_hand.id}")).text
        assert link in page
        assert f"{made.name} run manually" in text_of(page)
        listed = (await desk.get("/jobs")).text
        assert f'{link}><bdi translate="no">{made.name}</bdi>' in listed
        await rig.house.services.schedules.delete(rig.house.admin, made.id)
        assert link not in (await desk.get(f"/jobs/{by_hand.id}")).text
        assert f'<bdi translate="no">{made.id}</bdi>' in (await desk.get("/jobs")).text  # its name is gone


async def test_a_run_by_hand_that_can_never_run_is_told_in_a_sentence(rig: Rig) -> None:
    made = await add(rig, HELLO + "resources: {cpu: 400}\n")
    async with open_desk(rig) as desk:
        await desk.post(f"/schedules/{made.id}/run")
        told = text_of((await desk.get(f"/schedules/{made.id}")).text)
        assert "Warning: this job can never run on this server: a task requests 400 cores" in told


async def test_the_name_of_a_recurring_job_is_told_to_its_group_alone(rig: Rig) -> None:
    made = await add(rig)
    eve = await rig.house.user("eve", "others")
    assert await rig.house.services.schedules.load_schedule_names(rig.house.admin, [made.id, "x\0"]) == {
        made.id: made.name
    }
    assert await rig.house.services.schedules.load_schedule_names(eve, [made.id]) == {}


async def test_history_has_pages(rig: Rig) -> None:
    made = await add(rig)
    for _ in range(21):
        await rig.house.services.schedules.run_schedule_now(rig.house.admin, made.id)
    async with open_desk(rig) as desk:
        page = (await desk.get(f"/schedules/{made.id}")).text
        assert page.count('class="open mono"') == 20
        assert "Older" in page
        assert "?before=2#history" in page
        assert (await desk.get(f"/schedules/{made.id}?before=2")).text.count('class="open mono"') == 1


async def test_secrets_are_masked(rig: Rig) -> None:
    made = await add(rig, SECRET)
    async with open_desk(rig) as desk:
        for path in (f"/schedules/{made.id}", f"/schedules/{made.id}/edit"):
            page = (await desk.get(path)).text
            assert "abracadabra" not in page
            assert "******" in page


async def test_another_groups_is_not_there(rig: Rig) -> None:
    await rig.house.user("bob", "other", password=PASSWORD)
    made = await add(rig)
    async with open_desk(rig, "bob") as desk:
        assert made.id not in (await desk.get("/schedules?group=default")).text
        for path in ("", "/edit"):
            assert (await desk.get(f"/schedules/{made.id}{path}")).status_code == 404
        for verb in ("run", "pause", "resume", "delete", "edit"):
            assert (await desk.post(f"/schedules/{made.id}/{verb}", filled())).status_code == 404
        assert (await desk.post("/schedules/check", {"id": made.id, "text": HELLO})).status_code == 404
    assert (await only(rig)).paused is False


async def test_members_see_others_secrets_schedules_without_running_them(rig: Rig) -> None:
    ann = await rig.house.user("ann", "lab", password=PASSWORD)
    await rig.house.user("bob", "lab", password=PASSWORD)
    made = await add(rig, SECRET, ann)
    async with open_desk(rig, "bob") as desk:
        page = (await desk.get(f"/schedules/{made.id}")).text
        assert "/pause" in page
        assert "/run" not in page
        assert (await desk.post(f"/schedules/{made.id}/run")).status_code == 403


async def test_who_may_only_read_is_offered_nothing(rig: Rig) -> None:
    made = await add(rig)
    await rig.house.user("bob", "default", password=PASSWORD)
    rig.house.services.tokens._access._own_only = True  # as the setting access.acting = "owners" does
    async with open_desk(rig, "bob") as desk:
        page = (await desk.get("/schedules")).text
        assert made.id in page
        assert f"/schedules/{made.id}/" not in page
        assert (await desk.get(f"/schedules/{made.id}/edit")).status_code == 403
        assert (await desk.post(f"/schedules/{made.id}/delete")).status_code == 403


# -- doing something


async def test_run_pause_resume_delete(rig: Rig) -> None:
    made = await add(rig)
    path = f"/schedules/{made.id}"
    async with open_desk(rig) as desk:
        answer = await desk.post(f"{path}/run", {"back": "/schedules?mine=on"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/schedules?mine=on")
        (job,) = (await rig.get("/jobs")).json()["items"]
        told = (await desk.get("/schedules")).text
        assert f"hello runs now as job {job['id']}." in text_of(told)
        assert f'<a href="/jobs/{job["id"]}">Open</a>' in told
        assert job["id"] not in text_of((await desk.get("/schedules")).text)  # told once
        assert (await desk.post(f"{path}/pause", {"back": "//evil.example/"})).headers["location"] == path
        assert (await only(rig)).paused
        await desk.post(f"{path}/resume")
        assert not (await only(rig)).paused
        assert (await desk.post(f"{path}/delete", {"back": path})).headers["location"] == "/schedules"
        assert (await desk.get(path)).status_code == 404
        assert (await desk.post(f"{path}/delete")).status_code == 404


async def test_nothing_is_done_without_proof(rig: Rig) -> None:
    made = await add(rig)
    async with open_desk(rig) as desk:
        for verb in ("run", "pause", "delete", "edit"):
            assert (await desk.client.post(f"/schedules/{made.id}/{verb}", data=filled())).status_code == 403
        assert (await desk.client.post("/schedules/new", data=filled())).status_code == 403
        assert (await desk.client.post("/schedules/check", data={"text": HELLO})).status_code == 403
    assert await only(rig) == await rig.house.services.schedules.get(rig.house.admin, made.id)


# -- the form


async def test_one_is_made(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        assert "nightly-report" in (await desk.get("/schedules/new")).text
        more = {"ends_at": "2026-06-01T12:00", "timezone": "America/New_York", "overlap": "queue", "missed": "once"}
        answer = await desk.post("/schedules/new", filled(**more))
        made = await only(rig)
        assert answer.headers["location"] == f"/schedules/{made.id}"
        assert (made.name, made.overlap, made.missed) == ("hello", "queue", "once")
        assert made.ends_at == datetime(2026, 6, 1, 16, 0, tzinfo=UTC)  # noon in New York, in summer
        assert made.next_run_at == datetime(2026, 3, 1, 13, 0, tzinfo=UTC)
        assert "The schedule hello was created." in (await desk.get(f"/schedules/{made.id}")).text
    assert (await rig.get("/jobs")).json()["items"] == []


async def test_one_that_also_runs_now(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        await desk.post("/schedules/new", filled(now="on", kind="inactive"))
        (job,) = (await rig.get("/jobs")).json()["items"]
        assert f'href="/jobs/{job["id"]}">Open' in (await desk.get("/schedules")).text


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"cron": "0 25 * * *"}, "cron", "hour: 25 is not between 0 and 23"),
        ({"cron": ""}, "cron", "The cron expression is empty"),
        ({"cron": "0 4 30 2 *"}, "cron", "February has no day 30"),
        ({"cron": "1" * 500}, "cron", "at most 200 characters"),
        ({"timezone": "Mars/Olympus"}, "timezone", "Time zone &#39;Mars/Olympus&#39; not found"),
        ({"ends_at": "soon"}, "ends_at", "is not a valid time"),
        ({"ends_at": "2020-01-01T00:00"}, "ends_at", "The end time is in the past"),
        ({"group": "nowhere"}, "group", "Group nowhere not found"),
        ({"text": "command: env\nbogus: 1\n"}, "text", "The job file has errors"),
    ],
)
async def test_problems_are_told_at_their_field(rig: Rig, fields: dict[str, str], field: str, words: str) -> None:
    async with open_desk(rig) as desk:
        answer = await desk.post("/schedules/new", filled(**fields))
        assert answer.status_code == 400
        assert words in answer.text.split(f'id="{field}-problem"')[1].split("</p>")[0]
        kept = next(iter(fields.values()))
        assert kept[:200].split("\n")[0] in answer.text  # what was typed is still there
    assert (await rig.get("/schedules")).json()["total"] == 0


async def test_words_the_form_does_not_offer_do_no_harm(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        odd = {"kind": "sometimes", "overlap": "explode", "missed": "\x00", "ends_at": "9999-12-31T23:59", "id": "x"}
        answer = await desk.post("/schedules/new", filled(**odd))
        assert answer.status_code in (303, 400)
        assert (await desk.post("/schedules/new", filled(text="x" * 300_000))).status_code == 400


async def test_it_opens_filled_from_a_job_or_from_a_text(rig: Rig) -> None:
    ann = await rig.house.user("ann", "lab", password=PASSWORD)
    job = await rig.house.submit(SECRET, ann)
    async with open_desk(rig, "ann") as desk:
        page = (await desk.get(f"/schedules/new?from={job.id}")).text
        assert "name: hush" in page
        assert "abracadabra" not in page
        assert "Enter the secrets again: they are never shown." in page
        answer = await desk.post("/schedules/new", filled(text="name: hush\ncommand: env\nsecrets: {KEY: '******'}\n"))
        assert answer.status_code == 400
        page = (await desk.post("/schedules/new", {"text": "name: sent\ncommand: env\n"})).text
        assert "name: sent" in page
        assert "it would start immediately" in page
    await rig.house.user("bob", "other", password=PASSWORD)
    async with open_desk(rig, "bob") as desk:
        assert (await desk.get(f"/schedules/new?from={job.id}")).status_code == 404


async def test_the_preview_goes_by_the_chosen_zone(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        query = {"kind": "daily", "timezone": "America/New_York"}
        part = (await desk.part("/schedules/preview", params=query)).text
        told = text_of(part)
        assert part.count("<li>") == 5
        assert "Mon, Mar 2, 2026 04:00 EST" in told  # clocks go forward on the 8th
        assert 'id="cron-problem" hx-swap-oob="true" hidden' in part
        wrong = (await desk.part("/schedules/preview", params={"kind": "custom", "cron": "* 99 * * *"})).text
        assert 'id="cron-problem" hx-swap-oob="true">hour: 99 is not between 0 and 23' in wrong
        assert "starts it manually" in (await desk.part("/schedules/preview?kind=inactive")).text
        ended = await desk.part("/schedules/preview?kind=daily&ends_at=2026-03-01T12:01&timezone=UTC")
        assert "No runs before it ends." in ended.text


async def test_the_check_tells_whether_it_would_run(rig: Rig) -> None:
    async with open_desk(rig) as desk:

        async def check(text: str, **more: str) -> str:
            return text_of((await desk.post("/schedules/check", {"text": text, **more})).text)

        assert "it would start immediately" in await check(HELLO)
        assert "It can never run on this server" in await check(HELLO + "resources: {cpu: 4000}\n")
        assert "line 2" in await check("name: hello\nbogus: 1\n")
        assert "Group nowhere not found" in await check(HELLO, group="nowhere")


async def test_changing_leaves_untouched_secrets_alone(rig: Rig) -> None:
    made = await add(rig, SECRET)
    async with open_desk(rig) as desk:
        fields = filled(do="save", text=made.source.replace("\n", "\r\n"), cron="5 * * * *", group="default")
        answer = await desk.post(f"/schedules/{made.id}/edit", fields)
        assert answer.headers["location"] == f"/schedules/{made.id}"
        assert (await only(rig)).recurrence.cron == "5 * * * *"
        job = (await rig.house.services.schedules.run_schedule_now(rig.house.admin, made.id)).summary
        answer = await desk.post(f"/schedules/{made.id}/edit", {**fields, "text": made.source + "tags: [x]\n"})
        assert answer.status_code == 400
        assert "Enter the secrets again: they are never shown." in answer.text
        assert (await desk.get(f"/schedules/{made.id}/edit")).text.count("They are kept") == 1
    live = rig.house.controller.get_active_job(job.id)
    assert live is not None
    assert live.job.secrets == {"KEY": "abracadabra"}


async def test_an_end_and_the_group_can_be_changed(rig: Rig) -> None:
    await rig.house.add_group("lab")
    made = await add(rig, ends_at=datetime(2026, 3, 5, tzinfo=UTC))
    async with open_desk(rig) as desk:
        assert 'value="2026-03-05T00:00"' in (await desk.get(f"/schedules/{made.id}/edit")).text
        await desk.post(f"/schedules/{made.id}/edit", filled(do="save", group="lab", ends_at=""))
    changed = await only(rig)
    assert (changed.ends_at, changed.group) == (None, "lab")


async def test_pages_in_chinese(rig: Rig) -> None:
    made = await add(rig)
    async with open_desk(rig) as desk:
        desk.client.cookies.set("holdfast_language", "zh-Hans")
        assert "2026年3月1日周日 13:00 UTC" in (await desk.get(f"/schedules/{made.id}")).text


async def test_addresses_of_primehub(rig: Rig) -> None:
    await rig.house.add_group("Lab_One")
    async with open_desk(rig) as desk:

        async def leads(path: str) -> str:
            return (await desk.get(path)).headers["location"]

        assert await leads("/console/g/lab-one/recurringJob") == "/schedules?group=Lab_One"
        assert await leads("/console/g/nowhere/recurringJob") == "/schedules"
        assert await leads("/console/g/lab-one/recurringJob/recurrence-abc123") == "/schedules/recurrence-abc123"
        assert await leads("/console/g/lab-one/recurringJob/create") == "/schedules/new"


def test_a_file_that_could_be_sent_can_be_changed() -> None:
    limit = build_body_limit(Settings())
    assert limit("POST", "/schedules/nightly-1/edit") == limit("POST", "/schedules/new") > limit("POST", "/me/password")

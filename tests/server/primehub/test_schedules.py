"""Schedules by GraphQL."""

from __future__ import annotations

from typing import Any

import pytest

from .hub import JOB, Caller, Hub

pytestmark = pytest.mark.anyio

FIELDS = "id displayName recurrence { type cron } invalid message command userName groupId nextRunTime image"
CREATE = f"mutation ($data: PhScheduleCreateInput!) {{ createPhSchedule(data: $data) {{ {FIELDS} }} }}"
UPDATE = (
    "mutation ($data: PhScheduleUpdateInput!, $where: PhScheduleWhereUniqueInput!)"
    f" {{ updatePhSchedule(data: $data, where: $where) {{ {FIELDS} activeDeadlineSeconds }} }}"
)
GET = f"query ($where: PhScheduleWhereUniqueInput!) {{ phSchedule(where: $where) {{ {FIELDS} }} }}"
RUN = "mutation ($where: PhScheduleWhereUniqueInput!) { runPhSchedule(where: $where) { job { id schedule userName } } }"
DELETE = "mutation ($where: PhScheduleWhereUniqueInput!) { deletePhSchedule(where: $where) { id } }"
LIST = """
query ($where: PhScheduleWhereInput, $orderBy: PhScheduleOrderByInput, $page: Int, $first: Int, $after: String) {
  phSchedulesConnection(where: $where, orderBy: $orderBy, page: $page, first: $first, after: $after) {
    pageInfo { totalPage currentPage } edges { cursor node { id displayName } }
  }
}
"""


async def create(caller: Caller, type: str = "daily", cron: str | None = None, **more: Any) -> Any:
    given = {"type": type} if cron is None else {"type": type, "cron": cron}
    return await caller.data(CREATE, data={**JOB, "recurrence": given, **more})


async def names(caller: Caller, **variables: Any) -> list[str]:
    return [edge["node"]["displayName"] for edge in (await caller.data(LIST, **variables))["edges"]]


@pytest.mark.parametrize(
    ("type", "cron", "next_run"),
    [
        ("daily", None, "2026-03-02T04:00:00Z"),
        ("weekly", "0 4 * * 1", "2026-03-08T04:00:00Z"),  # Sundays, whatever stands beside it
        ("monthly", "", "2026-04-01T04:00:00Z"),
        ("custom", "30 12 * * *", "2026-03-01T12:30:00Z"),
        ("inactive", "0 4 * * *", None),
    ],
)
async def test_when_it_runs_next(hub: Hub, type: str, cron: str | None, next_run: str | None) -> None:
    made = await create(hub.ann, type, cron)
    assert made["recurrence"] == {"type": type, "cron": cron}
    assert (made["invalid"], made["nextRunTime"]) == (False, next_run)
    assert made["message"] == ("This phSchedule is inactive" if type == "inactive" else None)
    assert await hub.ann.data(GET, where={"id": made["id"]}) == made


async def test_without_a_recurrence_it_is_inactive(hub: Hub) -> None:
    made = await hub.ann.data(CREATE, data=JOB)
    assert made["recurrence"] == {"type": "inactive", "cron": None}


async def test_what_is_wrong_with_it_is_said_not_refused(hub: Hub) -> None:
    bad_cron = await create(hub.ann, "custom", "0 25 * * *")
    assert bad_cron["invalid"]
    assert bad_cron["message"].startswith("phSchedule recurrence format invalid: hour")
    assert bad_cron["nextRunTime"] is None
    no_cron = await create(hub.ann, "custom")
    assert no_cron["invalid"]
    no_image = await create(hub.ann, image="tf-99")
    assert (no_image["invalid"], no_image["message"]) == (True, "Image not found: tf-99")


async def test_the_time_limit_shown_is_the_one_in_force(hub: Hub) -> None:
    made = await create(hub.ann)
    shown = "query ($where: PhScheduleWhereUniqueInput!) { phSchedule(where: $where) { activeDeadlineSeconds } }"
    assert await hub.ann.data(shown, where={"id": made["id"]}) == {"activeDeadlineSeconds": 86400}


async def test_a_change_leaves_the_rest_and_the_owner(hub: Hub) -> None:
    eve = await hub.caller(await hub.house.user("eve", "red"))
    made = await create(hub.ann, activeDeadlineSeconds=99)
    changed = await eve.data(UPDATE, where={"id": made["id"]}, data={"command": "echo bye", "groupId": "red"})
    assert changed == {**made, "command": "echo bye", "activeDeadlineSeconds": 99}
    weekly = {"recurrence": {"type": "weekly"}, "groupId": "red"}
    again = await hub.ann.data(UPDATE, where={"id": made["id"]}, data=weekly)
    assert again["recurrence"] == {"type": "weekly", "cron": None}
    assert (again["command"], again["userName"]) == ("echo bye", "ann")


async def test_a_run_now_is_the_callers_and_of_no_schedule(hub: Hub) -> None:
    eve = await hub.caller(await hub.house.user("eve", "red"))
    made = await create(hub.ann, "inactive")
    job = (await eve.data(RUN, where={"id": made["id"]}))["job"]
    assert (job["schedule"], job["userName"]) == (None, "eve")
    await hub.house.until(job["id"])


async def test_deleted_it_is_gone(hub: Hub) -> None:
    id = (await create(hub.ann))["id"]
    assert await hub.ann.data(DELETE, where={"id": id}) == {"id": id}
    gone = ("RESOURCE_NOT_FOUND", f'phschedules.primehub.io "{id}" not found')
    for query in (GET, DELETE, RUN):
        assert await hub.ann.refused(query, where={"id": id}) == gone
    assert await hub.ann.refused(UPDATE, where={"id": id}, data={}) == gone


async def test_others_see_and_change_nothing_of_it(hub: Hub) -> None:
    id = (await create(hub.ann))["id"]
    for query in (GET, DELETE, RUN):
        assert (await hub.bob.refused(query, where={"id": id}))[1] == f'phschedules.primehub.io "{id}" not found'
    code = await hub.ann.refused(CREATE, data={**JOB, "groupId": "blue"})
    assert code == ("NOT_AUTH", "user not auth")
    moved = await hub.ann.refused(UPDATE, where={"id": id}, data={"groupId": "blue"})
    assert moved == ("NOT_AUTH", "user not auth")
    assert await names(hub.bob) == []


async def test_lists(hub: Hub) -> None:
    eve = await hub.caller(await hub.house.user("eve", "red"))
    made = {name: (await create(hub.ann, displayName=name))["id"] for name in ("Backup", "nightly", "weekly back")}
    await create(eve, displayName="eves")
    newest = ["eves", "weekly back", "nightly", "Backup"]
    assert sorted(await names(hub.ann, page=1)) == sorted(newest)
    assert await names(hub.ann, page=2) == []
    assert sorted(await names(hub.ann, where={"groupId_in": ["red"]}, page=1)) == sorted(newest)
    assert await names(hub.ann, where={"groupId_in": ["blue"]}) == []
    assert sorted(await names(hub.ann, where={"search": "BACK"})) == ["Backup", "weekly back"]
    assert await names(hub.ann, where={"displayName_contains": "back"}) == ["weekly back"]
    assert await names(hub.ann, where={"id": made["nightly"]}) == ["nightly"]
    assert await names(eve, where={"mine": True}) == ["eves"]
    assert await names(hub.ann, orderBy={"displayName": "asc"}) == ["Backup", "eves", "nightly", "weekly back"]
    rest = await names(hub.ann, orderBy={"displayName": "asc"}, first=2, after=made["Backup"])
    assert rest == ["eves", "nightly"]
    assert (await hub.ann.refused(LIST, orderBy={"displayName": "up"}))[0] == "REQUEST_BODY_INVALID"
    assert len(await hub.ann.data("{ phSchedules { id } }")) == 4


async def test_a_job_that_was_due_names_its_schedule(hub: Hub) -> None:
    made = await create(hub.ann, "custom", "*/5 * * * *")
    hub.house.clock.forward(600)
    await hub.house.services.schedules.due_runs.run_due_schedules()
    (edge,) = (await hub.ann.data("{ phJobsConnection(page: 1) { edges { node { schedule userName } } } }"))["edges"]
    assert edge["node"] == {"schedule": made["id"], "userName": "ann"}

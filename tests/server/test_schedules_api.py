from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from .rig import Rig, error_of

pytestmark = pytest.mark.anyio

HELLO = "name: hello\ncommand: sleep 100\n"
HOURLY = {"cron": "0 * * * *", "timezone": "UTC"}


async def add(rig: Rig, **more: Any) -> dict[str, Any]:
    response = await rig.post("/schedules", json={"job": HELLO, "recurrence": HOURLY, **more})
    assert response.status_code == 201, response.text
    return dict(response.json())


async def test_a_schedule_from_beginning_to_end(rig: Rig) -> None:
    made = await add(rig, overlap="queue", missed="once", ends_at="2026-03-05T00:00:00Z")
    assert (made["name"], made["user"], made["group"]) == ("hello", "admin", "default")
    assert made["recurrence"] == {"kind": "custom", "cron": "0 * * * *", "timezone": "UTC"}
    assert (made["overlap"], made["missed"], made["ends_at"]) == ("queue", "once", "2026-03-05T00:00:00Z")
    assert (made["next_run_at"], made["invalid"], made["paused"]) == ("2026-03-01T13:00:00Z", None, False)
    assert made["next_runs"][:2] == ["2026-03-01T13:00:00Z", "2026-03-01T14:00:00Z"]
    assert (made["source"], made["job"]["name"]) == (HELLO, "hello")
    path = f"/schedules/{made['id']}"
    assert (await rig.get(path)).json() == made
    rig.house.clock.at = datetime(2026, 3, 1, 13, 0, tzinfo=UTC)
    await rig.house.services.schedules.due_runs.run_due_schedules()
    (job,) = (await rig.get("/jobs")).json()["items"]
    assert job["schedule"] == made["id"]
    asked = await rig.post(f"{path}/run")
    assert asked.status_code == 201
    assert asked.json()["schedule"] is None
    runs = (await rig.get(f"{path}/runs")).json()
    assert [(run["result"], run["actor"], run["job"]) for run in runs["items"]] == [
        ("started", "admin", asked.json()["id"]),
        ("started", "holdfast", job["id"]),
    ]
    older = (await rig.get(f"{path}/runs", params={"before": runs["items"][0]["seq"]})).json()
    assert older["items"] == runs["items"][1:]
    assert (await rig.ask("DELETE", path)).status_code == 204
    error_of(await rig.get(path), 404)
    error_of(await rig.ask("DELETE", path), 404)


async def test_changing(rig: Rig) -> None:
    made = await add(rig, ends_at="2026-03-05T00:00:00Z")
    path = f"/schedules/{made['id']}"

    async def change(**body: Any) -> dict[str, Any]:
        response = await rig.ask("PATCH", path, json=body)
        assert response.status_code == 200, response.text
        return dict(response.json())

    assert (await change(paused=True))["next_run_at"] is None
    resumed = await change(paused=False)
    assert (resumed["next_run_at"], resumed["ends_at"]) == (made["next_run_at"], made["ends_at"])
    assert (await change(ends_at=None))["ends_at"] is None
    daily = await change(recurrence={"kind": "daily", "timezone": "Asia/Taipei"}, overlap="cancel", missed="once")
    assert (daily["next_run_at"], daily["timezone"]) == ("2026-03-01T20:00:00Z", "Asia/Taipei")
    other = await change(job="name: other\ncommand: env\nimage: nowhere/none\n")
    assert (other["name"], other["invalid"]) == ("other", "image")
    assert other["warnings"]
    assert (await change())["name"] == "other"


async def test_lists(rig: Rig) -> None:
    ann = await rig.token_of("ann", "lab")
    mine = await rig.post("/schedules", json={"job": HELLO, "recurrence": HOURLY}, headers=ann)
    await add(rig, job="name: theirs\ncommand: env\n")
    page = (await rig.get("/schedules", params={"order": "name", "descending": "false"})).json()
    assert ([one["name"] for one in page["items"]], page["total"]) == (["hello", "theirs"], 2)
    for params in ({"mine": "true"}, {"text": "THEIR"}, {"user": "admin"}, {"group": "default"}, {"offset": "1"}):
        assert len((await rig.get("/schedules", params=params)).json()["items"]) == 1
    seen = (await rig.get("/schedules", headers=ann)).json()
    assert [one["id"] for one in seen["items"]] == [mine.json()["id"]]
    error_of(await rig.get("/schedules", params={"order": "colour"}), 400)


async def test_previews(rig: Rig) -> None:
    body = {"recurrence": {"cron": "30 2 * * *", "timezone": "Europe/Berlin"}, "count": 2}
    found = (await rig.post("/schedules/preview", json=body)).json()
    assert found == {"timezone": "Europe/Berlin", "times": ["2026-03-02T01:30:00Z", "2026-03-03T01:30:00Z"]}


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        ({"recurrence": {"cron": "0 25 * * *"}}, "cron", "hour: 25 is not between 0 and 23"),
        ({"recurrence": {"kind": "custom"}}, "cron", "The cron expression is empty"),
        ({"recurrence": {"kind": "daily", "timezone": "Mars/Base"}}, "timezone", "Time zone 'Mars/Base' not found"),
        ({"ends_at": "2020-01-01"}, "ends_at", "The end time is in the past"),
        ({"ends_at": "soon"}, "ends_at", "'soon' is not a valid time"),
    ],
)
async def test_what_is_wrong_is_told(rig: Rig, body: dict[str, Any], field: str, message: str) -> None:
    error = error_of(await rig.post("/schedules", json={"job": HELLO, "recurrence": HOURLY, **body}), 400)
    assert (error["field"], error["message"]) == (field, message)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"job": HELLO},
        {"job": HELLO, "recurrence": {"kind": "hourly"}},
        {"job": HELLO, "recurrence": HOURLY, "overlap": "sometimes"},
        {"job": HELLO, "recurrence": HOURLY, "colour": "red"},
        {"job": HELLO, "recurrence": {"cron": "0 " * 500}},
    ],
)
async def test_what_cannot_be_a_schedule(rig: Rig, body: dict[str, Any]) -> None:
    error_of(await rig.post("/schedules", json=body), 400)


async def test_without_a_token_there_is_nothing(rig: Rig) -> None:
    nobody = {"Authorization": ""}
    for method, path in (("GET", "/schedules"), ("POST", "/schedules/preview"), ("GET", "/schedules/recurrence-a")):
        body = {"recurrence": HOURLY} if method == "POST" else None
        error_of(await rig.ask(method, path, headers=nobody, json=body), 401)

from __future__ import annotations

import json
from datetime import UTC, datetime

from holdfast.core.states import JobState
from holdfast.sdk import Recurrence

from .conftest import Ask
from .scripted import Say, ScriptedServer, json_say

AT = "2026-03-01T13:00:00Z"
NIGHTLY = {
    "id": "recurrence-abc123",
    "name": "nightly",
    "recurrence": {"kind": "custom", "cron": "0 4 * * *", "timezone": "Asia/Taipei"},
    "created_at": AT,
    "updated_at": AT,
    "next_runs": [AT],
}
PATH = "/schedules/recurrence-abc123"


def test_reads_schedules(server: ScriptedServer, ask: Ask) -> None:
    server.on("GET", "/schedules", json_say({"items": [NIGHTLY], "total": 7}))
    server.on("GET", PATH, json_say(NIGHTLY))
    page = ask("list_schedules", mine=True, groups=("a", "b"))
    assert (page.total, page.items[0].name) == (7, "nightly")
    found = ask("get_schedule", "recurrence-abc123")
    assert found.recurrence == Recurrence(cron="0 4 * * *", timezone="Asia/Taipei")
    assert found.next_runs == (datetime(2026, 3, 1, 13, 0, tzinfo=UTC),)


def test_sends_what_is_given(server: ScriptedServer, ask: Ask) -> None:
    server.on("POST", "/schedules", json_say(NIGHTLY, 201))
    server.on("PATCH", PATH, json_say(NIGHTLY))
    ends_at = datetime(2027, 1, 1, tzinfo=UTC)
    ask("add_schedule", {"name": "x"}, "0 4 * * *", timezone="Asia/Taipei", ends_at=ends_at)
    ask("add_schedule", b"name: x\n", kind="daily", overlap="queue")
    ask("change_schedule", "recurrence-abc123", ends_at=None)
    ask("change_schedule", "recurrence-abc123", form={"command": "env"})
    ask("pause_schedule", "recurrence-abc123")
    ask("resume_schedule", "recurrence-abc123")
    assert [json.loads(asked.body) for asked in server.asked] == [
        {
            "job": '{"name": "x"}',
            "recurrence": {"kind": "custom", "cron": "0 4 * * *", "timezone": "Asia/Taipei"},
            "ends_at": "2027-01-01T00:00:00+00:00",
        },
        {"job": "name: x\n", "recurrence": {"kind": "daily", "cron": None, "timezone": ""}, "overlap": "queue"},
        {"ends_at": None},
        {"form": {"command": "env"}},
        {"paused": True},
        {"paused": False},
    ]


def test_runs_and_removes(server: ScriptedServer, ask: Ask) -> None:
    run = {"seq": 3, "due_at": AT, "at": AT, "result": "started", "job": "job-1", "state": "Running"}
    server.on("GET", f"{PATH}/runs", json_say({"items": [run]}))
    server.on(
        "POST", f"{PATH}/run", json_say({"id": "job-2", "name": "x", "state": "Pending", "submitted_at": AT}, 201)
    )
    server.on("DELETE", PATH, Say(status=204))
    server.on("POST", "/schedules/preview", json_say({"timezone": "UTC", "times": [AT]}))
    (found,) = ask("list_schedule_runs", "recurrence-abc123", limit=1)
    assert (found.job, found.state) == ("job-1", JobState.RUNNING)
    assert ask("run_schedule", "recurrence-abc123").id == "job-2"
    ask("remove_schedule", "recurrence-abc123")
    assert len(ask("preview_schedule", "0 4 * * *", count=1).times) == 1

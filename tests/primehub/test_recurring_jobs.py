"""`primehub recurring-jobs ...` and ph.recurring_jobs against a real server."""

from __future__ import annotations

import pytest
from primehub.utils import ResourceNotFoundException

from .place import FORM, Place, User

DAILY = {**FORM, "displayName": "nightly", "recurrence": {"type": "daily"}}


def test_from_create_to_delete(hub: Place, ann: User, bob: User) -> None:
    made = ann.json("recurring-jobs", "create", given=DAILY)
    assert (made["recurrence"]["type"], made["invalid"]) == ("daily", False)
    assert ann.json("recurring-jobs", "get", made["id"]) == made
    told = ann.rest(f"/schedules/{made['id']}")
    assert told["name"] == "nightly"
    changed = ann.json(
        "recurring-jobs", "update", made["id"], given={"recurrence": {"type": "custom", "cron": "13 5 * * *"}}
    )
    assert changed["recurrence"] == {"type": "custom", "cron": "13 5 * * *"}
    assert changed["nextRunTime"] != made["nextRunTime"]
    assert changed["command"] == "echo hi"
    row = next(line for line in ann.run("recurring-jobs", "list").splitlines() if made["id"] in line)
    assert "{'type': 'custom', 'cron': '13 5 * * *'}" in row
    assert "please use the flag" in ann.fails("recurring-jobs", "delete", made["id"])
    assert ann.json("recurring-jobs", "delete", made["id"], "--yes-i-really-mean-it") == {"id": made["id"]}
    said = ann.fails("recurring-jobs", "get", made["id"])
    assert f'Cannot find resource type "recurring-jobs" with [id: {made["id"]}]' in said
    assert made["id"] not in [each["id"] for each in ann.rest("/schedules")["items"]]


@pytest.mark.release
def test_on_demand_is_run_by_hand(hub: Place, ann: User) -> None:
    made = ann.json("recurring-jobs", "create", given={**DAILY, "recurrence": {"type": "on-demand", "cron": ""}})
    assert made["recurrence"] == {"type": "on-demand", "cron": ""}
    assert made["nextRunTime"] is None
    job = ann.json("jobs", "submit", "--from", made["id"])["job"]["id"]
    found = ann.json("jobs", "wait", job)
    assert (found["phase"], found["displayName"], found["recurrence"]) == ("Succeeded", "nightly", None)
    hub.boss.run("recurring-jobs", "delete", made["id"], "--yes-i-really-mean-it")


def test_a_cron_text_that_is_none_is_told(ann: User) -> None:
    made = ann.json("recurring-jobs", "create", given={**DAILY, "recurrence": {"type": "custom", "cron": "0 25 * * *"}})
    assert made["invalid"]
    assert "hour" in made["message"]
    ann.run("recurring-jobs", "delete", made["id"], "--yes-i-really-mean-it")


@pytest.mark.release
def test_other_groups_see_none_of_it(hub: Place, ann: User) -> None:
    made = ann.json("recurring-jobs", "create", given=DAILY)
    assert "Cannot find resource type" in hub.zoe.fails("recurring-jobs", "get", made["id"])
    assert hub.zoe.json("recurring-jobs", "list") == []
    ann.run("recurring-jobs", "delete", made["id"], "--yes-i-really-mean-it")


def test_the_library(ann: User) -> None:
    hub = ann.library()
    made = hub.recurring_jobs.create({**DAILY, "recurrence": {"type": "weekly"}})
    assert made["id"] in [each["id"] for each in hub.recurring_jobs.list()]
    changed = hub.recurring_jobs.update(made["id"], {"displayName": "renamed"})
    assert (changed["displayName"], changed["recurrence"]["type"]) == ("renamed", "weekly")
    job = hub.jobs.submit_from_recurring_job(made["id"])["job"]["id"]
    assert hub.jobs.wait(job)["displayName"] == "renamed"
    hub.recurring_jobs.delete(made["id"])
    with pytest.raises(ResourceNotFoundException):
        hub.recurring_jobs.get(made["id"])

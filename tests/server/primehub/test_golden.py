"""Requests exactly as the SDK sends them for jobs and recurring jobs, and the answer to each.

A file of `golden/` has both, ids and times replaced: <job> is a finished job, <schedule> a recurring one, <new-job> and
<new-schedule> are made by the request itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from .hub import JOB, Caller, Hub
from .sdk_documents import sdk_documents

pytestmark = pytest.mark.anyio

FOLDER = Path(__file__).with_name("golden")
FILES = sorted(FOLDER.glob("*.json"))
NIGHTLY = {**JOB, "displayName": "nightly", "recurrence": {"type": "custom", "cron": "*/5 * * * *"}}

_TIMES = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_NEW = {"<new-job>": re.compile(r"job-\d{12}-[a-z0-9]{6}"), "<new-schedule>": re.compile(r"recurrence-[a-z0-9]{6}")}
# Module and what of it asks a server, but for what jobs share with instance types.
_OPERATIONS = {"primehub.jobs": 9, "primehub.recurring_jobs": 5}


async def make_world(hub: Hub) -> dict[str, str]:
    """Name in golden files -> id. Something was kept of the job."""
    made = await hub.ann.data(
        "mutation ($data: PhScheduleCreateInput!) { createPhSchedule(data: $data) { id } }", data=NIGHTLY
    )
    job = await hub.ann.run(hub)
    kept = await hub.ann.http.post(f"/api/files/groups/red/jobArtifacts/{job}/sub/a.txt", content=b"1\n")
    assert kept.json() == {"success": True}
    return {"<job>": job, "<schedule>": made["id"]}


async def answer(caller: Caller, asked: Mapping[str, Any], world: Mapping[str, str]) -> Any:
    variables = json.dumps(asked["variables"])
    for name, id in world.items():
        variables = variables.replace(name, id)
    response = await caller.http.post("/api/graphql", data={"variables": variables, "query": asked["query"]})
    text = response.text
    for name, id in world.items():
        text = text.replace(id, name)
    for name, pattern in _NEW.items():
        text = pattern.sub(name, text)
    return json.loads(_TIMES.sub("<time>", text))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
async def test_request_gets_its_answer(hub: Hub, path: Path) -> None:
    golden = json.loads(path.read_text())
    assert await answer(hub.ann, golden["asked"], await make_world(hub)) == golden["answered"]


def test_every_operation_is_there_and_as_the_sdk_has_it() -> None:
    known = {place: text for place, text in sdk_documents().items() if place.partition(":")[0] in _OPERATIONS}
    assert len(known) == sum(_OPERATIONS.values())
    texts = {json.loads(path.read_text())["asked"]["query"] for path in FILES}
    assert set(known.values()) <= texts
    assert texts <= set(sdk_documents().values())

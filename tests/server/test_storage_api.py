"""What takes room on the server's disk, and removing it, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from .rig import Rig, error_of

pytestmark = pytest.mark.anyio


async def prune(rig: Rig, *kinds: str, **more: Any) -> dict[str, Any]:
    reply = await rig.post("/storage/prune", json={"kinds": kinds, **more})
    assert reply.status_code == 200, reply.text
    return dict(reply.json())


async def test_what_takes_room_is_told(rig: Rig) -> None:
    reply = await rig.get("/storage")
    assert reply.status_code == 200, reply.text
    found = {item["kind"]: item for item in reply.json()["items"]}
    assert set(found) == {"logs", "artifacts", "held", "images", "metrics", "tasks", "files", "database"}
    assert found["database"]["bytes"] > 0
    assert not found["database"]["prunable"]
    assert reply.json()["disk"]["free"] < reply.json()["disk"]["total"]


async def test_nothing_is_removed_unless_it_is_said(rig: Rig) -> None:
    rig.house.controller.clock = rig.house.clock.now
    sent = await rig.post("/jobs", content="name: quick\ncommand: exit 0\n")
    id = sent.json()["id"]
    await rig.get(f"/jobs/{id}/wait", params={"timeout": 20})
    rig.house.clock.forward(60)
    await prune(rig, "logs", "artifacts", "held", "images", "metrics")
    assert (await rig.get("/audit", params={"kind": "storage"})).json()["items"] == []
    assert (await prune(rig, "logs", older_than=10 * 86400, dry_run=False))["items"][0]["count"] == 0
    assert (await prune(rig, "logs", dry_run=False))["items"][0]["count"] == 1
    assert (await prune(rig, "logs", dry_run=False))["items"][0]["count"] == 0
    (event,) = (await rig.get("/audit", params={"kind": "storage"})).json()["items"]
    assert (event["act"], event["subject"], event["detail"]["count"]) == ("removed", "logs", "1")


async def test_only_admins_may(rig: Rig) -> None:
    headers = await rig.token_of("ann", "default")
    assert (await rig.get("/storage", headers=headers)).status_code == 403
    refused = await rig.post("/storage/prune", json={"kinds": ["logs"]}, headers=headers)
    assert refused.status_code == 403


@pytest.mark.parametrize(
    "body", [{}, {"kinds": []}, {"kinds": ["database"]}, {"kinds": ["x"]}, {"kinds": ["logs"], "older_than": -1}]
)
async def test_what_cannot_be_pruned_is_refused(rig: Rig, body: dict[str, Any]) -> None:
    reply = await rig.post("/storage/prune", json=body)
    assert error_of(reply, 400)["field"] in ("kinds", "older_than")

"""Why a job waits, failed or is slow, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import pytest

from holdfast.api.why import JobExplanation as WhyRecord
from holdfast.core.scheduling.blockers import BlockerKind, WaitExplanation
from holdfast.core.scheduling.placement import ResourceAmount
from holdfast.core.states import JobState
from holdfast.core.verdicts import (
    Confidence,
    Diagnosis,
    Efficiency,
    Evidence,
    EvidenceKind,
    Fault,
    Finding,
    FindingKind,
    Frame,
    ResourceUsage,
)
from holdfast.engines.queue_waits import QueueHolder, QueueWait
from holdfast.sdk.json_conversion import from_json, to_json
from holdfast.server.rest.why import explanation_to_json
from holdfast.services.why.service import JobExplanation

from .portal.page_client import open_desk, text_of
from .rig import Rig, error_of
from .shapes import check_shape

pytestmark = pytest.mark.anyio


async def submit(rig: Rig, name: str, cpu: int, headers: dict[str, str] | None = None, **params: str) -> str:
    text = f"name: {name}\ncommand: sleep 9\nresources: {{cpu: {cpu}, memory: 1Gi}}\ntime_limit: 2h\n"
    rig.house.clock.forward(1)  # of jobs of the same instant, chance decides which is the older one
    sent = await rig.post("/jobs", content=text, headers=headers, params=params)
    assert sent.status_code == 201, sent.text
    return str(sent.json()["id"])


async def why(rig: Rig, ref: str, headers: dict[str, str] | None = None) -> dict[str, Any]:
    answered = await rig.get(f"/jobs/{ref}/why", headers=headers)
    assert answered.status_code == 200, answered.text
    found: dict[str, Any] = answered.json()
    return found


async def test_why_it_waits(rig: Rig) -> None:
    first = await submit(rig, "first", 3)
    await rig.house.until(first, JobState.RUNNING)
    second = await submit(rig, "second", 4)
    job = await submit(rig, "third", 2)
    found = await why(rig, "third")
    assert (found["job"], found["state"], found["verdict"], found["failure"]) == (job, "Pending", "waiting", None)
    waiting = found["waiting"]
    assert [(each["kind"], each["text"]) for each in waiting["blockers"]] == [
        ("machines", "It requests 2 cores, 1 GiB of memory; free: 1 core, 15 GiB of memory."),
        ("queue", "Free resources are reserved for jobs ahead of it in the queue."),
        ("queue", "1 job is ahead of it in the queue of group default."),
    ]
    blocker = waiting["blockers"][0]
    assert blocker["lacks"] == {"cpu": 1.0, "memory": 0, "gpu": 0}
    (holder,) = blocker["holders"]
    assert (holder["job"], holder["has"]["cpu"], holder["held"]) == (first, 3.0, False)
    assert holder["since"].endswith("Z")
    assert holder["until"].endswith("Z")
    assert [(each["job"], each["asks"]["cpu"]) for each in waiting["ahead"]] == [(second, 4.0)]
    assert (waiting["ahead_count"], waiting["estimate"]["at"] is not None) == (1, True)


async def test_a_job_in_the_queue_of_its_engine_says_who_has_the_resources(rig: Rig, monkeypatch: Any) -> None:
    first = await submit(rig, "first", 1)
    await rig.house.until(first, JobState.RUNNING)

    async def explain(_: Collection[str]) -> QueueWait:
        own = QueueHolder(attempt_id=f"{first}.0.main-0.0", has=ResourceAmount(cpu=1))
        other = QueueHolder(user="eve", job_count=2, has=ResourceAmount(cpu=8))
        return QueueWait(kind=BlockerKind.ENGINE_WAIT, text="It is full.", holders=(own, other))

    monkeypatch.setattr(rig.house.engine, "explain_queue_wait", explain, raising=False)
    rig.house.engine.queues = "It is full."
    job = await submit(rig, "second", 1)
    await rig.house.until(job, JobState.PREPARING)
    found = await why(rig, job)
    assert (found["verdict"], found["state"]) == ("waiting", "Preparing")
    (blocker,) = found["waiting"]["blockers"]
    assert (blocker["kind"], blocker["text"]) == ("engine-wait", "It is full.")
    shown = [(each["name"], each["user"], each["outside"], each["job_count"]) for each in blocker["holders"]]
    assert shown == [("", "eve", "fake", 2), ("first", "admin", "", 1)]
    assert found["waiting"]["estimate"]["at"] is None
    async with open_desk(rig) as desk:
        page = text_of((await desk.get(f"/jobs/{job}")).text)
    assert "It is full." in page
    assert "2 jobs of eve in fake: 8 cores" in page


async def test_others_see_it_without_names_and_strangers_not_at_all(rig: Rig) -> None:
    ann, eve = await rig.token_of("ann", "red"), await rig.token_of("eve", "blue")
    hidden = await submit(rig, "hidden", 3, eve, group="blue")
    await rig.house.until(hidden, JobState.RUNNING)
    job = await submit(rig, "mine", 2, ann, group="red")
    (holder,) = (await why(rig, job, ann))["waiting"]["blockers"][0]["holders"]
    assert (holder["job"], holder["name"], holder["user"], holder["group"], holder["has"]["cpu"]) == (
        "",
        "",
        "",
        "",
        3.0,
    )
    error_of(await rig.get(f"/jobs/{job}/why", headers=eve), 404)


async def test_every_part_is_as_described_and_as_clients_read_it(rig: Rig) -> None:
    id = await submit(rig, "good", 1)
    record = (await rig.house.services.explanations.explain_job(rig.house.admin, id)).job
    used = ResourceUsage(
        tasks=2,
        seconds=7.5,
        cpu_asked=4,
        cpu_used=0.5,
        memory_asked=1 << 30,
        memory_peak=None,
        gpu_asked=1,
        gpu_used=0.25,
    )
    shown = explanation_to_json(
        JobExplanation(
            job=record,
            waiting=WaitExplanation(),
            failure=Diagnosis(
                fault=Fault.PYTHON_EXCEPTION,
                title="ValueError: no",
                explanation="It raised.",
                confidence=Confidence.LIKELY,
                evidence=(Evidence(kind=EvidenceKind.LOG, text="ValueError: no", task="main-0", offset=12),),
                remedies=("Mend it.",),
                task="main-0",
                attempt=1,
                followers=("main-1",),
                frame=Frame(file="train.py", line=3, function="main", code="raise ValueError"),
                rule="python",
            ),
            slow=(
                Finding(kind=FindingKind.ONE_CORE, text="1 of 4", remedy="Ask.", tasks=("main-0",), values={"cpu": 1}),
            ),
            efficiency=Efficiency(whole=used, roles={"main": used}, advice=("Ask for less.",)),
        )
    )
    check_shape(WhyRecord, json.dumps(shown).encode())
    assert shown["verdict"] == "failed"
    assert to_json(from_json(WhyRecord, shown)) == shown


async def test_of_a_schedule(rig: Rig) -> None:
    body = {"job": "name: nightly\ncommand: echo hi\n", "recurrence": {"kind": "daily", "timezone": "UTC"}}
    made = await rig.post("/schedules", json=body)
    assert made.status_code == 201, made.text
    found = (await rig.get(f"/schedules/{made.json()['id']}/why")).json()
    assert (found["blockers"], found["estimate"]) == (
        [],
        {
            "at": "2026-03-02T04:00:00Z",
            "basis": "Its next run is due then.",
            "basis_data": {"id": "Its next run is due then.", "args": {}},
            "likely": None,
        },
    )
    error_of(await rig.get("/schedules/recurrence-nosuch/why"), 404)

"""Jobs by GraphQL: made, shown, listed, cancelled, run again."""

from __future__ import annotations

import pytest

from .hub import JOB, Hub

pytestmark = pytest.mark.anyio

CREATE = "mutation ($data: PhJobCreateInput!) { createPhJob(data: $data) { id phase reason message cancel } }"
RERUN = "mutation ($where: PhJobWhereUniqueInput!) { rerunPhJob(where: $where) { id schedule activeDeadlineSeconds } }"
CANCEL = "mutation ($where: PhJobWhereUniqueInput!) { cancelPhJob(where: $where) { id } }"


async def test_a_job_runs_and_is_told_in_primehubs_words(hub: Hub) -> None:
    made = await hub.ann.data(CREATE, data=JOB)
    assert made["phase"] in ("Pending", "Preparing")
    await hub.house.until(made["id"])
    shown = await hub.ann.job(made["id"], "phase", "reason", "message", "userName", "groupId", "groupName", "cancel")
    assert shown == {
        "phase": "Succeeded",
        "reason": "PodSucceeded",
        "message": "Job completed",
        "userName": "ann",
        "groupId": "red",
        "groupName": "red",
        "cancel": False,
    }

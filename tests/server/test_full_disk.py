"""A full disk is told as such, to every kind of client, with what to do about it."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.store.database import Store
from holdfast.store.errors import DiskFull

from .rig import Rig, error_of

pytestmark = pytest.mark.anyio

JOB = "name: quick\ncommand: exit 0\n"


@pytest.fixture
def full(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Rig:
    async def refuse(self: Store, *args: Any, **kwargs: Any) -> Any:
        raise DiskFull("Cannot write to the database: the disk is full")

    monkeypatch.setattr(Store, "write", refuse)
    return rig


async def test_to_our_own_clients(full: Rig) -> None:
    error = error_of(await full.post("/jobs", content=JOB), 503)
    assert error["message"] == "The server's disk is full; the change was not saved"
    assert "holdfast prune" in error["hint"]


async def test_to_openpais_clients(full: Rig) -> None:
    reply = await full.client.post(
        "/rest-server/api/v2/jobs",
        content="protocolVersion: 2\nname: a\ntype: job\nprerequisites: [{name: i, type: dockerimage, uri: host}]\n"
        "taskRoles: {r: {dockerImage: i, resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 0}, commands: [exit 0]}}\n",
        headers={"Content-Type": "text/yaml"},
    )
    assert reply.status_code == 503, reply.text
    assert "The server's disk is full" in reply.json()["message"]


async def test_to_people_with_a_browser(full: Rig) -> None:
    page = await full.client.post("/me/tokens", data={"name": "x"}, headers={"Accept": "text/html"})
    assert page.status_code in (303, 403, 404, 503)
    if page.status_code == 503:
        assert "disk is full" in page.text

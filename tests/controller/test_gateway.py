"""What jobs are told of the SSH gateway, and which of them."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest

from holdfast.controller.gateway import GatewayAddressProvider
from holdfast.core.job import Job, Role
from holdfast.core.states import JobState
from holdfast.launching import GatewayAddress
from holdfast.launching.keys import make_job_key_pair
from holdfast.services.inside.ssh_gateway import SshGateway
from holdfast.settings_sections import SshSettings
from holdfast.store.vault import Vault

from .test_loop import run, running

KEY = make_job_key_pair(bytes(32)).public


def gate(host: str = "127.0.0.1", **settings: bool) -> SshGateway:
    return SshGateway(SshSettings(host=host, **settings))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("host", "reached"), [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("10.0.0.7", "10.0.0.7")]
)
def test_tasks_reach_it_where_it_listens(host: str, reached: str) -> None:
    async def story() -> None:
        known = gate(host)
        known.port, known.host_key = 2200, KEY
        known.settled.set()
        asked = GatewayAddressProvider(lambda: known)
        assert await asked() == GatewayAddress(host=reached, port=2200, host_key=KEY)
        known.port = None  # the server is about to end; the next one opens it again
        assert (await asked()).port == 2200

    run(story)


def test_its_opening_is_waited_for(tmp_path: Path) -> None:
    async def story() -> None:
        known = gate()
        asking = asyncio.create_task(GatewayAddressProvider(lambda: known)())
        await asyncio.sleep(0)
        assert not asking.done()
        known.port = 2200
        known.settled.set()
        assert (await asking).port == 2200

    run(story)


def test_why_there_is_none() -> None:
    async def story() -> None:
        off = await GatewayAddressProvider(lambda: gate(enabled=False))()
        assert off.unavailable_reason == "The SSH gateway is disabled on this server."
        taken = gate()
        taken.trouble = "The SSH gateway cannot listen on 127.0.0.1:2222: Address already in use."
        taken.settled.set()
        assert (await GatewayAddressProvider(lambda: taken)()).unavailable_reason == taken.trouble

    run(story)


def private_part(entry: str) -> bytes:
    block = entry.partition("-----BEGIN OPENSSH PRIVATE KEY-----")[2].partition("-----END")[0]
    return base64.b64decode(block)


def test_only_jobs_of_several_tasks_ask_for_it(tmp_path: Path) -> None:
    vault = Vault.open(tmp_path / "key")
    asked = []

    async def gateway() -> GatewayAddress:
        asked.append(1)
        return GatewayAddress(host="127.0.0.1", port=2200, host_key=KEY)

    async def story() -> None:
        async with running(tmp_path, derive=vault.derive_key, gateway=gateway) as place:
            entries = []
            for instances in (1, 2):
                id = await place.submit(
                    Job(name="x", roles=(Role(name="w", commands=("exit 0",), instances=instances),))
                )
                await place.until(id, JobState.SUCCEEDED)
                entries.append(place.engine.machine.tasks[f"{id}.0.w-0.0"].launch.entry)
                assert bool(asked) == (instances == 2)
            assert entries[0] == ""
            assert vault.derive_key(b"ssh of job " + id.encode()) in private_part(entries[1])

    run(story)

"""What a launch is told besides its job: addresses, and SSH keys where the job asks for them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from holdfast.controller.launch_context import extract_public_keys
from holdfast.core.job import Job
from holdfast.core.records import User
from holdfast.core.states import JobState
from holdfast.launching.keys import make_job_key_pair
from holdfast.store import people
from holdfast.store.vault import Vault
from tests.launching.scene import v2_job, with_plugins

from .test_loop import Place, run, running

KEY = make_job_key_pair(bytes(32)).public


def ssh(**parameters: Any) -> Job:
    return with_plugins(["echo hello"], {"plugin": "ssh", "parameters": parameters})


async def entry_of(place: Place, job: Job) -> str:
    id = await place.submit(job)
    await place.until(id, JobState.SUCCEEDED)
    return place.engine.machine.tasks[f"{id}.0.worker-0.0"].launch.entry


def test_jobs_have_key_pairs_of_their_own_that_a_restart_does_not_change(tmp_path: Path) -> None:
    vault = Vault.open(tmp_path / "key")

    async def story() -> None:
        async with running(tmp_path, derive=vault.derive_key) as place:
            job = ssh(jobssh=True)
            first, second = [await entry_of(place, job) for _ in range(2)]
            ids = [id.split(".")[0] for id in place.engine.machine.tasks]
        pairs = [make_job_key_pair(vault.derive_key(b"ssh of job " + id.encode())) for id in ids]
        assert pairs[0].public in first
        assert pairs[1].public in second
        assert pairs[1].public not in first
        assert "Host worker-0\n    HostName 127.0.0.1\n" in first

    run(story)


def test_the_owners_keys_reach_a_task_that_asks_for_them_and_no_other(tmp_path: Path) -> None:
    user = User(name="ann", admin=False, email="", created_at=datetime.now(UTC))
    keys = {"sshKeys": [{"title": "laptop", "value": KEY}, {"value": 'command="x" ' + KEY + "2"}]}

    async def story() -> None:
        async with running(tmp_path) as place:
            await place.store.write(people.create_user, user=user, password_hash=None)
            await place.store.write(people.set_user_extension, "ann", keys)
            entry = await entry_of(place, ssh(userssh={"type": "custom", "value": ""}))
            assert KEY in entry
            assert "command=" not in entry
            for other in (v2_job(["echo"]), ssh(jobssh=True)):
                assert KEY not in await entry_of(place, other)

    run(story)


@pytest.mark.parametrize(
    "extension",
    [{}, {"sshKeys": None}, {"sshKeys": "x"}, {"sshKeys": {"value": "x"}}, {"sshKeys": [1, {}, {"value": 2}]}],
)
def test_what_clients_keep_is_not_taken_for_granted(extension: dict[str, Any]) -> None:
    assert extract_public_keys(extension) == ()

"""The gateway with the real ssh: who gets in, and what is said to those who do not."""

from __future__ import annotations

import pytest

from .rig import SshRig

pytestmark = pytest.mark.anyio


async def test_a_command_with_its_exit_status(rig: SshRig) -> None:
    await rig.add_key(rig.house.admin)
    job = await rig.run_job()
    ran = await rig.ssh(f"{job.id}.main-0", "localhost", "cat; echo oops >&2; exit 7", given=b"hello")
    assert (ran.code, ran.out, ran.err) == (7, b"hello", "oops\n")

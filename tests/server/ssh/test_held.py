"""Shells in tasks that failed and are held."""

from __future__ import annotations

import pytest

from holdfast.core.states import JobState

from .rig import SshRig
from .screen import Screen

pytestmark = pytest.mark.anyio

HELD = "name: broken\ncommand: echo kept > mark; exit 3\nhold: true\n"
FILES = "name: broken\ncommand: echo kept > mark; exit 3\nhold: {keep: files}\n"


async def test_a_shell_in_a_held_task(rig: SshRig) -> None:
    await rig.add_key(rig.house.admin)
    job = await rig.house.submit(HELD)
    await rig.house.until(job.id, JobState.HELD)
    async with Screen(rig.ssh_words("broken", "127.0.0.1")) as screen:
        screen.type("cat mark; exit 6\n")
        await screen.until("kept\r\n")
        assert await screen.end() == 6
    assert await rig.visits(job.id) == ["admin opened a session in main-0 (ssh)"]


async def test_what_is_held_comes_before_what_runs(rig: SshRig) -> None:
    await rig.add_key(rig.house.admin)
    roles = "  good: {command: sleep 1000}\n  bad: {command: 'echo kept > mark; exit 3'}\n"
    job = await rig.house.submit(f"name: both\nhold: true\nroles:\n{roles}")
    await rig.house.until(job.id, JobState.HELD)
    assert (await rig.ssh("both", "127.0.0.1", "cat mark")).out == b"kept\n"


async def test_the_files_of_a_task_whose_processes_are_gone(rig: SshRig) -> None:
    await rig.add_key(rig.house.admin)
    job = await rig.house.submit(FILES)
    await rig.house.until(job.id, JobState.HELD)
    ran = await rig.ssh("broken.main-0", "127.0.0.1", "cat mark; echo more >> mark")
    assert (ran.code, ran.out) == (0, b"kept\n"), ran.err
    assert (await rig.ssh("broken.main-0", "127.0.0.1", "cat mark")).out == b"kept\nmore\n"


async def test_when_a_hold_is_over_so_is_the_shell(rig: SshRig) -> None:
    await rig.add_key(rig.house.admin)
    job = await rig.house.submit(HELD)
    await rig.house.until(job.id, JobState.HELD)
    async with Screen(rig.ssh_words("broken", "127.0.0.1")) as screen:
        screen.type("cat mark\n")
        await screen.until("kept\r\n")
        await rig.house.controller.stop_job(job.id, "admin")
        assert await screen.end() != 0
    await rig.house.until(job.id)
    ran = await rig.ssh("broken", "127.0.0.1", "true")
    assert ran.code == 255
    assert "its containers no longer exist" in ran.err

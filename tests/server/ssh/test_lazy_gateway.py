"""The gateway's port before anybody has come."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from holdfast.server.ssh import lazy_gateway
from holdfast.server.ssh.lazy_gateway import LazySshGateway

from .rig import SshRig

pytestmark = pytest.mark.anyio


@pytest.mark.release
async def test_nothing_is_loaded_before_somebody_comes() -> None:
    """Neither by the server's parts nor by the door itself."""
    look = "import sys, holdfast.server.app, holdfast.server.ssh.lazy_gateway; sys.exit('asyncssh' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", look], check=False).returncode == 0


async def test_the_first_who_come_are_all_let_in(rig: SshRig) -> None:
    await rig.add_key(rig.house.admin)
    job = await rig.run_job()
    second = LazySshGateway(rig.house.services)
    second.open_port()  # on another port, which the gate now tells
    try:
        assert second._serve_task is None
        found = await asyncio.gather(*(rig.ssh(job.id, "127.0.0.1", f"exit {n}") for n in range(1, 5)))
        assert [ran.code for ran in found] == [1, 2, 3, 4]
        assert second._serve_task is not None
    finally:
        await second.close()


async def test_a_door_that_nobody_came_to_is_shut(rig: SshRig) -> None:
    second = LazySshGateway(rig.house.services)
    second.open_port()
    port = rig.port
    await second.close()
    assert rig.house.services.ssh_gateway.port is None
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        await asyncio.open_connection("127.0.0.1", port)


async def test_what_cannot_be_loaded_is_told(
    rig: SshRig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(services: object) -> None:
        raise ImportError("no such library")

    monkeypatch.setattr(lazy_gateway, "_load_gateway", fail)
    second = LazySshGateway(rig.house.services)
    second.open_port()
    _, writer = await asyncio.open_connection("127.0.0.1", rig.port)
    gate = rig.house.services.ssh_gateway
    async with asyncio.timeout(20):
        while gate.is_open:
            await asyncio.sleep(0.01)
    assert "failed to start" in gate.trouble
    assert "the ssh gateway failed to start" in caplog.text
    writer.close()
    await second.close()

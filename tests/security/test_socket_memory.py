"""A task that keeps its data in the buffers of TCP connections, where its memory limit does not count it."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.job import MIB, Resources
from holdfast.engines.base import Isolation
from tests.contracts.engine_contract import Rig, read_all
from tests.engines.scenarios import folder_of, need, play

LIMIT = 32 * MIB
HELD = 96 * MIB  # what it tries to hold; bounded, for others share the machine
FILL = f"""
python3 - <<'END'
import socket
listener = socket.create_server(("127.0.0.1", 0), backlog=64)
block, held, kept = bytes(65536), 0, []
for _ in range(64):
    sender = socket.create_connection(listener.getsockname())
    kept += [sender, listener.accept()[0]]
    sender.setblocking(False)
    try:
        while held < {HELD}:
            held += sender.send(block)
    except BlockingIOError:
        pass
print(held // 1048576, flush=True)
END
"""


def test_the_buffers_of_connections_are_limited(tmp_path: Path) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)

    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "probe", "echo up; exec sleep 600", resources=Resources(memory=LIMIT))
        note = folder_of(tmp_path, "probe").read_start_note()
        assert note is not None
        if not note.cgroups:
            pytest.skip("there are no control groups for us to use here")
        files = [Path(folder, "memory.kmem.tcp.limit_in_bytes") for folder in note.cgroups]
        limits = [int(file.read_text()) for file in files if file.exists()]
        assert limits in ([], [LIMIT])  # version 2 counts them with the rest
        seen = await rig.run("a", FILL, resources=Resources(cpu=1.0, memory=LIMIT))
        held = int((await read_all(rig.log("a"))).decode() or 0)
        assert seen.oom or held * MIB < HELD, (seen, held)

    play(tmp_path, scenario)

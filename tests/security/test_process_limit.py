"""A task that makes as many threads and processes as it can, on the server of an ordinary user."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.engines.base import Isolation
from holdfast.engines.embedded import EmbeddedOptions
from holdfast.engines.embedded.processes import HAS_NAMESPACED_PROCESS_LIMIT
from tests.contracts.engine_contract import Rig, read_all
from tests.engines.scenarios import need, play
from tests.engines.sessions import inside

LIMIT = 64
BOMB = r"""
python3 - <<'END'
import os, threading
end = threading.Event()
threads = []
try:
    while len(threads) < 400:
        thread = threading.Thread(target=end.wait)
        thread.start()
        threads.append(thread)
except RuntimeError:
    pass
try:
    os.fork() or os._exit(0)
    forked = True
except OSError:
    forked = False
end.set()
print(0 < len(threads) < 64, forked, flush=True)
END
"""


@pytest.mark.skipif(os.geteuid() == 0, reason="only for ordinary users; test_ordinary_user.py runs it")
def test_threads_and_processes_of_a_task_are_limited(tmp_path: Path) -> None:
    need(Isolation.READ_ONLY)
    if not HAS_NAMESPACED_PROCESS_LIMIT:
        pytest.skip("this kernel counts the processes of a user in all namespaces together")

    async def scenario(rig: Rig) -> None:
        if rig.engine.get_health().limits != "watched":
            pytest.skip("control groups limit processes here")
        assert (await rig.run("a", BOMB)).code == 0
        assert await read_all(rig.log("a")) == b"True False\n"
        await rig.start_and_wait_for(
            b"up", "b", "trap '' TERM; (ulimit -u 100000) && echo BAD; echo up; exec sleep 600"
        )
        assert b"BAD" not in await read_all(rig.log("b"))
        assert (await inside(rig.engine, "b", BOMB)).out == "True False\n"
        # Each task has its own count, and the server's user none of it.
        assert (await inside(rig.engine, "b", "echo fine")).out == "fine\n"
        await rig.run("c", "echo fine", workdir="/tmp/w")
        assert await read_all(rig.log("c")) == b"fine\n"

    play(tmp_path, scenario, EmbeddedOptions(pids_max=LIMIT))

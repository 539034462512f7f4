"""The write that shortens the join of a task's groups: it moves nothing, wherever the server is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.engines.embedded.cgroups import find_own_procs_file, remove_cgroup
from holdfast.engines.embedded.lifecycle.join_warmup import JoinWarmup

PROGRAM = """
import os, sys
from holdfast.engines.embedded.lifecycle import join_warmup
from holdfast.engines.embedded.cgroups import find_own_procs_file

def own_groups():
    return open("/proc/self/cgroup").read()

def warm_up(warmup):
    before = own_groups()
    warmup._next = 0.0
    warmup.start()
    warmup._last.result()
    assert warmup._procs_file, "nothing was written"
    assert own_groups() == before, "it was moved"

warmup = join_warmup.JoinWarmup(find_own_procs_file)
warm_up(warmup)
with open(sys.argv[1] + "/cgroup.procs", "w") as file:
    file.write("0")
assert sys.argv[1].rpartition("/")[2] in own_groups()
warm_up(warmup)
warmup.close()
"""


def test_a_server_that_is_moved_stays_where_it_is() -> None:
    own = find_own_procs_file()
    if own is None or os.geteuid() != 0:
        pytest.skip("needs root and control groups")
    group = Path(own).parent / f"holdfast-test-{os.getpid()}"
    group.mkdir()
    try:
        subprocess.run([sys.executable, "-c", PROGRAM, str(group)], check=True, timeout=60)
    finally:
        assert remove_cgroup([str(group)])


def test_without_control_groups_nothing_happens() -> None:
    warmup = JoinWarmup(lambda: None)
    warmup.start()
    warmup.close()


def test_after_its_end_nothing_happens() -> None:
    warmup = JoinWarmup(lambda: None)
    warmup.close()
    warmup.start()
    assert warmup._last is None


def test_calls_in_quick_succession_are_one(tmp_path: Path) -> None:
    found: list[None] = []
    file = tmp_path / "cgroup.procs"
    file.touch()

    def find() -> str:
        found.append(None)
        return str(file)

    warmup = JoinWarmup(find)
    warmup._next = float("inf")
    warmup.start()
    assert warmup._last is None
    warmup._next = 0.0
    warmup.start()
    warmup.close()
    assert (found, file.read_text()) == ([None], "0")

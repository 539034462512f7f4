"""Limits: by the kernel's control groups of either version, and from outside where there are none."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from holdfast.core.attempt import ObservedState
from holdfast.core.job import GIB, MIB, Resources
from holdfast.engines.base import LogStream
from holdfast.engines.embedded import EmbeddedOptions, cgroups
from holdfast.engines.embedded.lifecycle import killing
from holdfast.engines.embedded.machine import choose_port_end, read_memory_size
from tests.contracts.engine_contract import Rig, launch, read_all

from .measured_programs import fills
from .scenarios import folder_of, play

EATER = "echo up; python3 -c 'import time; x = bytearray(400 * 2**20); time.sleep(600)'"
SMALL = Resources(cpu=0.5, memory=64 * MIB)


def needs_cgroups(rig: Rig) -> None:
    if not rig.engine.get_health().limits.startswith("cgroup"):
        pytest.skip(f"no control groups here: {rig.engine.get_health().notes}")


def test_too_much_memory_is_told_as_such(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        needs_cgroups(rig)
        seen = await rig.run("a", EATER, resources=SMALL)
        assert (seen.seen, seen.code, seen.oom) == (ObservedState.EXITED, 137, True)
        await rig.engine.remove("a")
        assert (await rig.look("a")).oom  # also when the group that could tell is gone
        assert not (await rig.run("b", "kill -9 $$", resources=SMALL)).oom

    play(tmp_path, scenario)


@pytest.mark.release_after(1)
@pytest.mark.parametrize("isolation", ["auto", "off"])
def test_memory_is_watched_where_the_kernel_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolation: str
) -> None:
    monkeypatch.setattr(cgroups, "find_cgroups", lambda **_: (None, "none for this test"))

    async def scenario(rig: Rig) -> None:
        health = rig.engine.get_health()
        assert health.limits == "watched"
        assert any("none for this test" in note for note in health.notes)
        await rig.start_and_wait_for(b"up", "a", EATER, resources=SMALL)
        await rig.reopen()  # the limit is not forgotten with the server that set it
        await rig.look("a")
        seen = await rig.end_of("a")
        assert (seen.seen, seen.code, seen.oom) == (ObservedState.EXITED, 137, True)

    play(tmp_path, scenario, EmbeddedOptions(isolation=isolation))


@pytest.mark.release
def test_a_task_whose_memory_cannot_be_read_does_not_end_the_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroups, "find_cgroups", lambda **_: (None, "none for this test"))
    failures, real = [OSError("Input/output error"), RuntimeError("a bug")], killing.measure_memory

    def read_memory(target: killing.KillTarget, limit: int) -> int:
        if failures:
            raise failures.pop(0)
        return real(target, limit)

    monkeypatch.setattr(killing, "measure_memory", read_memory)

    async def scenario(rig: Rig) -> None:
        seen = await rig.run("a", EATER, resources=SMALL)
        assert (seen.code, seen.oom) == (137, True)
        assert not failures

    play(tmp_path, scenario)


def test_limits_are_set_and_groups_removed(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        needs_cgroups(rig)
        await rig.start_and_wait_for(b"up", "a", "echo up; sleep 600", resources=Resources(cpu=0.5, memory=64 * MIB))
        note = folder_of(tmp_path, "a").read_start_note()
        assert note is not None
        values = {}
        for group in note.cgroups:
            for name in ("cpu.max", "cpu.cfs_quota_us", "memory.max", "memory.limit_in_bytes", "pids.max"):
                if Path(group, name).exists():
                    values[name] = Path(group, name).read_text().strip()
        assert values.get("cpu.max", values.get("cpu.cfs_quota_us", "")).startswith("50000")
        assert values.get("memory.max", values.get("memory.limit_in_bytes")) == str(64 * MIB)
        assert values["pids.max"] == "50"
        runner = folder_of(tmp_path, "a").read_claim().pid
        assert runner not in cgroups.list_pids(note.cgroups)  # it must live to tell
        await rig.engine.stop("a", 0)
        await rig.end_of("a")
        await rig.engine.remove("a")
        async with asyncio.timeout(30):  # the cleaner removes them in the background
            while any(Path(group).exists() for group in note.cgroups):
                await asyncio.sleep(0.01)

    play(tmp_path, scenario, EmbeddedOptions(pids_max=50))


def test_a_task_cannot_have_more_processes_than_allowed(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        needs_cgroups(rig)
        fork = "import os, time\nfor n in range(40):\n    print(n, flush=True)\n    os.fork() or time.sleep(600)"
        seen = await rig.run("a", f"exec python3 -c '{fork}'", resources=SMALL)
        assert seen.code == 1
        assert b"Resource temporarily unavailable" in await read_all(rig.log("a", LogStream.STDERR))
        assert len(await read_all(rig.log("a"))) < 40 * 3

    play(tmp_path, scenario, EmbeddedOptions(pids_max=20))


# --- finding groups, on trees made of plain files -----------------------------------------------------------------


def v2_tree(tmp_path: Path, own: str, controllers: str = "cpuset cpu io memory pids") -> tuple[Path, Path]:
    """A machine with version 2 alone; the files that describe it."""
    mount = tmp_path / "cgroup"
    for folder in (mount, mount / own.strip("/")):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.controllers").write_text(controllers)
        (folder / "cgroup.subtree_control").write_text("cpu memory pids")
        (folder / "cgroup.procs").write_text("1\n")
        (folder / "holdfast").mkdir(exist_ok=True)
        (folder / "holdfast/cgroup.subtree_control").write_text("cpu memory pids")
    mounts, groups = tmp_path / "mountinfo", tmp_path / "self"
    mounts.write_text(f"30 29 0:26 / {mount} rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n")
    groups.write_text(f"0::{own}\n")
    return mounts, groups


def test_version_2_alone(tmp_path: Path) -> None:
    """Beside our own group and not below it: systemd starts no service in a group that was divided."""
    mounts, own = v2_tree(tmp_path, "/system.slice/holdfast.service")
    found, _ = cgroups.find_cgroups(mounts, own)
    assert found is not None
    parent = tmp_path / "cgroup/holdfast"
    assert (found.label, found.parents) == ("cgroup v2", (("", str(parent)),))
    group = parent / "a"
    group.mkdir()
    for name in ("cpu.max", "memory.max", "memory.swap.max", "pids.max"):
        (group / name).touch()
    assert found.create_cgroup("a", Resources(cpu=1.5, memory=2 * GIB), 100) == (str(group),)
    assert (group / "cpu.max").read_text() == "150000 100000"
    assert (group / "memory.max").read_text() == str(2 * GIB)
    assert (group / "memory.swap.max").read_text() == "0"
    assert (group / "pids.max").read_text() == "100"


def test_version_2_where_only_our_own_group_is_ours(tmp_path: Path) -> None:
    mounts, own = v2_tree(tmp_path, "/user.slice/user@1000.service")
    shutil.rmtree(tmp_path / "cgroup/holdfast")
    (tmp_path / "cgroup/holdfast").touch()  # stands for a folder we may not make
    found, _ = cgroups.find_cgroups(mounts, own)
    assert found is not None
    assert found.parents == (("", str(tmp_path / "cgroup/user.slice/user@1000.service/holdfast")),)


def test_version_2_without_swap_accounting(tmp_path: Path) -> None:
    mounts, own = v2_tree(tmp_path, "/")
    found, _ = cgroups.find_cgroups(mounts, own)
    assert found is not None
    group = tmp_path / "cgroup/holdfast/a"
    group.mkdir()
    for name in ("cpu.max", "memory.max", "pids.max"):
        (group / name).touch()
    found.create_cgroup("a", Resources(), 100)
    assert not (group / "memory.swap.max").exists()


def test_version_2_without_the_controllers(tmp_path: Path) -> None:
    mounts, own = v2_tree(tmp_path, "/", controllers="hugetlb")
    found, why = cgroups.find_cgroups(mounts, own)
    assert found is None
    assert "memory" in why


def test_version_2_where_others_live_beside_us(tmp_path: Path) -> None:
    """A login session: its other processes are not ours to move, and the kernel hands nothing down beside them."""
    mounts, own = v2_tree(tmp_path, "/user.slice/session-1.scope")
    for folder in (tmp_path / "cgroup", tmp_path / "cgroup/user.slice/session-1.scope"):
        (folder / "cgroup.subtree_control").unlink()
        (folder / "cgroup.subtree_control").mkdir()  # stands for a write the kernel refuses
    found, why = cgroups.find_cgroups(mounts, own)
    assert found is None
    assert why


def test_a_hybrid_machine_has_its_controllers_in_version_1(tmp_path: Path) -> None:
    lines = []
    for number, name in enumerate(("cpu,cpuacct", "memory", "pids", "freezer")):
        mount = tmp_path / name
        (mount / "mine").mkdir(parents=True)
        lines.append(f"{number} 29 0:{number} / {mount} rw - cgroup cgroup rw,{name}")
    unified = tmp_path / "unified"
    unified.mkdir()
    (unified / "cgroup.controllers").write_text("\n")
    lines.append(f"9 29 0:9 / {unified} rw - cgroup2 cgroup2 rw")
    (tmp_path / "mountinfo").write_text("\n".join(lines) + "\n")
    (tmp_path / "self").write_text("4:cpu,cpuacct:/mine\n3:memory:/mine\n2:pids:/\n0::/\n")
    found, _ = cgroups.find_cgroups(tmp_path / "mountinfo", tmp_path / "self")
    assert found is not None
    assert found.label == "cgroup v1"
    assert dict(found.parents) == {
        "cpu": f"{tmp_path}/cpu,cpuacct/mine/holdfast",
        "memory": f"{tmp_path}/memory/mine/holdfast",
        "pids": f"{tmp_path}/pids/holdfast",
        "": f"{tmp_path}/unified/holdfast",  # limits nothing, and counts
    }


def test_no_control_groups_at_all(tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text("24 29 0:23 / /proc rw,relatime - proc proc rw\n")
    (tmp_path / "self").write_text("")
    found, why = cgroups.find_cgroups(tmp_path / "mountinfo", tmp_path / "self")
    assert found is None
    assert "not mounted" in why


@pytest.mark.parametrize(
    ("file", "text", "oom"),
    [
        ("memory.events", "low 0\nhigh 0\nmax 7\noom 1\noom_kill 1\n", True),
        ("memory.events", "low 0\nhigh 0\nmax 7\noom 0\noom_kill 0\n", False),
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", True),
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n", False),
        ("other", "", False),
    ],
)
def test_reading_whether_memory_ran_out(tmp_path: Path, file: str, text: str, oom: bool) -> None:
    (tmp_path / file).write_text(text)
    assert cgroups.has_oom_kill([str(tmp_path)]) is oom


def test_memory_is_what_our_own_group_may_use(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:        1000 kB\nMemFree:  10 kB\n")
    unlimited, limited = tmp_path / "a", tmp_path / "b"
    unlimited.write_text("max\n")
    limited.write_text("500000\n")
    assert read_memory_size(meminfo, (unlimited, tmp_path / "none")) == 1000 * 1024
    assert read_memory_size(meminfo, (unlimited, limited)) == 500000


def test_the_node_tells_what_is_there_unless_told_otherwise(tmp_path: Path) -> None:
    options = EmbeddedOptions(cpus=3.5, memory=GIB, node_name="box", port_start=20000, port_end=20010)

    async def scenario(rig: Rig) -> None:
        (node,) = rig.engine.list_nodes()
        assert (node.name, node.cpu, node.memory) == ("box", 3.5, GIB)
        assert (node.port_start, node.port_end) == (20000, 20010)
        assert (await rig.engine.start(launch("a", "true"))).seen in (ObservedState.RUNNING, ObservedState.EXITED)

    play(tmp_path, scenario, options)


@pytest.mark.parametrize(
    ("setting", "end"), [("32768\t60999\n", 32768), ("50000 60000", 40000), ("15001 60000", 40000), ("", 40000)]
)
def test_ports_for_tasks_lie_below_those_of_outgoing_connections(tmp_path: Path, setting: str, end: int) -> None:
    file = tmp_path / "range"
    file.write_text(setting)
    assert choose_port_end(15000, file) == end
    assert choose_port_end(15000, tmp_path / "none") == 40000
    assert choose_port_end(40000, file) > 41000


def test_more_text_than_can_lie_in_memory_for_a_task_is_refused(tmp_path: Path) -> None:
    """It lies there for as long as the task runs, beyond what the task may use."""

    async def scenario(rig: Rig) -> None:
        seen = await rig.engine.start(launch("a", "true", entry="#" * (16 * 1024 * 1024)))
        assert (seen.seen, seen.transient) == (ObservedState.REFUSED, False)
        assert "characters; the limit is 16777216" in seen.message

    play(tmp_path, scenario)


def test_memory_that_children_share_counts_once_where_it_is_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroups, "find_cgroups", lambda **_: (None, "none for this test"))

    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", fills(40 * MIB), resources=Resources(cpu=1.0, memory=80 * MIB))
        folder = folder_of(tmp_path, "a")
        target = killing.KillTarget("", folder, folder.read_start_note(), 0)
        assert killing.measure_memory(target, 80 * MIB) < 80 * MIB
        assert killing.measure_memory(target, 1 << 40) > 150 * MIB  # counted in full, for it does not matter

    play(tmp_path, scenario)

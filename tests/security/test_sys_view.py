"""What a task learns of the machine and of other jobs from /sys and /proc."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.job import MIB, Resources
from holdfast.engines.base import Isolation, LogStream
from holdfast.engines.embedded import cgroups
from holdfast.engines.embedded.mount_table import find_top_mounts, parse_mounts
from holdfast.engines.embedded.sandbox.guard import mask_sys_paths
from holdfast.engines.embedded.sandbox.render import Bind, SandboxGuard
from tests.contracts.engine_contract import Rig, read_all
from tests.engines.scenarios import folder_of, need, play
from tests.engines.sessions import inside

from .namespaced import background, host, run_steps, session, task

STAND = "echo up; exec sleep 600"


@pytest.fixture(autouse=True)
def _sandbox() -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)


async def said_by(rig: Rig, attempt_id: str, script: str) -> str:
    seen = await rig.run(attempt_id, script, resources=Resources(cpu=1.0, memory=192 * MIB))
    said = (await read_all(rig.log(attempt_id, LogStream.MERGED))).decode()
    assert seen.code == 0, (seen, said)
    return said


def test_control_groups_of_other_tasks_are_not_visible(tmp_path: Path) -> None:
    look = "find /sys/fs/cgroup; cat /proc/self/cgroup; find /sys -maxdepth 5 -name '*neighbour*' 2>/dev/null"

    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "neighbour", STAND)
        note = folder_of(tmp_path, "neighbour").read_start_note()
        assert note is not None
        if not note.cgroups:
            pytest.skip("there are no control groups for us to use here")
        names = {Path(folder).name for folder in note.cgroups}
        said = await said_by(rig, "a", look)
        assert not [name for name in names if name in said]
        assert "holdfast" not in said
        assert "neighbour" not in said
        await rig.start_and_wait_for(b"up", "b", STAND)
        entered = await inside(rig.engine, "b", look)
        assert "neighbour" not in entered.out

    play(tmp_path, scenario)


def test_a_task_finds_its_own_limits_where_programs_look(tmp_path: Path) -> None:
    script = "cat /sys/fs/cgroup/memory.max || cat /sys/fs/cgroup/memory/memory.limit_in_bytes"

    async def scenario(rig: Rig) -> None:
        if rig.engine.get_health().limits == "watched":
            pytest.skip("there are no control groups for us to use here")
        assert str(192 * MIB) in (await said_by(rig, "a", f"({script}) 2>/dev/null")).split()
        writes = "for file in $(find /sys/fs/cgroup -name cgroup.procs); do echo $$ >$file && echo BAD; done; exit 0"
        said = await said_by(rig, "b", f"set +e; {writes}")
        assert "Read-only" in said
        assert "BAD" not in said

    play(tmp_path, scenario)


MOUNTS = """
mount -t tmpfs none /sys/kernel/debug; echo SECRET >/sys/kernel/debug/file
mount -t tmpfs none /sys/kernel/mm; echo SECRET >/sys/kernel/mm/file
mount --bind /etc/passwd /sys/kernel/uevent_seqnum
"""
LOOK = "cat /sys/kernel/debug/file /sys/kernel/mm/file /sys/kernel/uevent_seqnum 2>/dev/null || echo none"


@pytest.mark.release
def test_what_is_mounted_below_sys_is_covered(tmp_path: Path) -> None:
    """As debugfs, tracefs, securityfs, pstore and others are; also where no other container runtime expects one."""
    assert run_steps(tmp_path, [task(LOOK)], before=MOUNTS) == ["none\n"]


def test_what_is_mounted_below_sys_after_the_servers_start_is_covered(tmp_path: Path) -> None:
    assert run_steps(tmp_path, [task("true"), host(MOUNTS), task(LOOK)]) == ["", "none\n"]


@pytest.mark.release
def test_what_is_mounted_below_sys_later_does_not_reach_a_sandbox_that_runs(tmp_path: Path) -> None:
    """Mounts of a machine are shared with the namespaces made from it; systemd sees to that."""
    late = "mount -t tmpfs none /sys/kernel/debug; echo SECRET >/sys/kernel/debug/file"
    steps = [background(STAND), host(late), session("ls /sys/kernel/debug; echo end")]
    assert run_steps(tmp_path, steps, before="mount --make-rshared /") == ["end\n"]


MASKED = """
set +e
for path in /proc/interrupts /proc/kcore /proc/keys /proc/timer_list /proc/sched_debug /proc/latency_stats; do
    [ -n "$(cat $path 2>/dev/null | head -c 1)" ] && echo BAD $path
done
for path in /proc/acpi /proc/asound /proc/scsi /sys/firmware /sys/devices/virtual/powercap; do
    [ -n "$(ls -A $path 2>/dev/null)" ] && echo BAD $path
done
touch /sys/kernel/x 2>/dev/null && echo BAD /sys
[ -d /sys/devices/system/cpu ] && [ -d /sys/bus ] && echo kept
exit 0
"""


def test_what_containers_do_not_see_is_masked(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        assert await said_by(rig, "a", MASKED) == "kept\n"

    play(tmp_path, scenario)


def test_the_first_process_tells_nothing_of_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_SECRET", "hunter2")
    here, installed = str(Path.cwd()), str(Path(cgroups.__file__).parents[4])

    async def scenario(rig: Rig) -> None:
        for number, script in enumerate(("cat /proc/1/environ", "cat /proc/1/cmdline", "cat /proc/[0-9]*/environ")):
            said = await said_by(rig, f"a{number}", script)
            assert said
            for secret in (here, installed, "site-packages", "hunter2", "OLDPWD"):
                assert secret not in said, said

    play(tmp_path, scenario)


# --- the parts that only compute ----------------------------------------------------------------------------------

TABLE = rb"""24 1 0:23 / /proc rw - proc proc rw
25 1 0:24 / /sys rw - sysfs sysfs rw
30 25 0:30 / /sys/kernel/debug rw shared:9 - debugfs debugfs rw
31 30 0:31 / /sys/kernel/debug/tracing rw - tracefs tracefs rw
32 25 0:32 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate
33 25 0:33 / /sys/devices/system/cpu rw - fuse.lxcfs lxcfs rw
34 25 0:34 / /sys/odd\040name\303\251 rw - fuse.other other rw
35 25 0:35 / /sys/firmware/efi/efivars rw - efivarfs efivarfs rw
"""


def test_covers_follow_the_mount_table() -> None:
    own = Bind(source="/sys/fs/cgroup/holdfast/a", target="/sys/fs/cgroup")
    guard = mask_sys_paths(SandboxGuard(privileged=True), parse_mounts(TABLE), [own])
    assert {"/sys/kernel/debug", "/sys/odd nameé"} <= set(guard.sys_folders)
    assert not {"/sys/kernel/debug/tracing", "/sys/fs/cgroup", "/sys/devices/system/cpu"} & set(guard.sys_folders)
    assert guard.groups == (own,)
    assert "/sys/fs/cgroup" in mask_sys_paths(SandboxGuard(privileged=True), parse_mounts(TABLE)).sys_folders


def test_where_a_group_finds_itself() -> None:
    second = cgroups.Cgroups(version=2, parents=(("", "/c/holdfast"),))
    assert second.list_binds(second.list_folders("a")) == [("/c/holdfast/a", "/sys/fs/cgroup")]
    first = cgroups.Cgroups(version=1, parents=(("cpu", "/c/cpu"), ("memory", "/c/memory"), ("", "/c/unified")))
    assert first.list_binds(first.list_folders("a")) == [
        ("/c/cpu/a", "/sys/fs/cgroup/cpu"),
        ("/c/memory/a", "/sys/fs/cgroup/memory"),
    ]


def test_the_mount_on_top_counts() -> None:
    table = parse_mounts(b"40 30 0:1 / /x rw - ext4 a rw\n39 40 0:2 / /x rw - tmpfs b rw\nnonsense\n\n")
    assert find_top_mounts(table)["/x"].kind == "tmpfs"
    assert find_top_mounts(reversed(table))["/x"].kind == "tmpfs"

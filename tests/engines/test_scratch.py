"""The size of a task's home: watched, and enforced by stopping the task."""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.core.attempt import ObservedState
from holdfast.core.exits.exit import Cause
from holdfast.core.job import MIB, Mount
from holdfast.core.volumes import HostFolder
from holdfast.disk_space import DiskSpace
from holdfast.engines.base import Isolation, LogStream, TaskDiskUsage
from holdfast.engines.embedded import EmbeddedOptions
from holdfast.engines.embedded.folder_content import DiskExcess, ExcessKind, parse_excess, parse_start_note
from holdfast.engines.embedded.lifecycle import disk_emergency
from holdfast.engines.embedded.lifecycle.disk_usage import MeasureSchedule, measure_home, measure_task_files
from holdfast.engines.embedded.lifecycle.live_tasks import LiveTask
from holdfast.engines.embedded.lifecycle.task_folders import TaskFolders
from holdfast.engines.embedded.lifecycle.unlinked_files import measure_unlinked_files
from holdfast.engines.embedded.task_folder import TaskFolder
from holdfast.engines.embedded.tree_removal import remove_tree
from holdfast.tree_size import MAX_OPEN_LEVELS
from tests.contracts.engine_contract import Rig, collect

from .scenarios import folder_of, need, play

QUICK = EmbeddedOptions(scratch_interval=0.01)
FILL = "dd if=/dev/zero of=$HOME/big bs=1M count=3 status=none; "


@pytest.mark.parametrize("isolation", ["auto", "off"])
@pytest.mark.parametrize("end", ["sleep 600", "trap 'exit 0' TERM; while :; do sleep 0.1; done"])
def test_a_home_that_holds_too_much_ends_the_task_and_is_told(tmp_path: Path, isolation: str, end: str) -> None:
    async def scenario(rig: Rig) -> None:
        script = f"mkdir ~/artifacts; echo kept > ~/artifacts/x; {FILL}{end}"
        seen = await rig.run("a", script, scratch=2 * MIB)
        assert (seen.seen, seen.cause) == (ObservedState.EXITED, Cause.SCRATCH_FULL)
        assert "home" in seen.message
        assert " uses " in seen.message
        assert seen.message.endswith(" of disk space; the limit is 2 MiB")
        assert collect(rig.engine, "a").files[b"x"] == b"kept\n"
        await rig.engine.remove("a")
        again = await rig.look("a")
        assert (again.cause, again.message) == (seen.cause, seen.message)

    play(tmp_path, scenario, EmbeddedOptions(scratch_interval=0.01, isolation=isolation))


def test_one_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        script = f"trap '' TERM; {FILL} while :; do sleep 0.1; done"
        seen = await rig.run("a", script, scratch=MIB)
        assert (seen.code, seen.cause) == (137, Cause.SCRATCH_FULL)

    play(tmp_path, scenario, EmbeddedOptions(scratch_interval=0.01, scratch_grace=0.2))


def test_a_restarted_server_goes_on_watching(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        target = "/data" if sandboxed(rig) else str(tmp_path / "data")
        wait = f"echo up; until [ -e {target}/go ]; do sleep 0.05; done; "
        mounts = (Mount(volume=HostFolder(str(tmp_path / "data")), target=target),)
        await rig.start_and_wait_for(b"up", "a", wait + FILL + "sleep 600", scratch=MIB, mounts=mounts)
        await rig.reopen()
        assert (await rig.look("a")).seen is ObservedState.RUNNING
        (tmp_path / "data" / "go").touch()
        assert (await rig.end_of("a")).cause == Cause.SCRATCH_FULL

    (tmp_path / "data").mkdir()
    play(tmp_path / "home", scenario, QUICK)


def test_one_that_was_found_too_large_is_stopped_by_the_next_server(tmp_path: Path) -> None:
    """The server died between the mark and the stop, and the task has tidied up since."""

    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", "echo up; sleep 600", scratch=MIB)
        folder_of(tmp_path, "a").write_disk_excess(DiskExcess(ExcessKind.HOME, 5 * MIB, MIB))
        await rig.reopen()
        await rig.look("a")
        seen = await rig.end_of("a")
        assert seen.cause == Cause.SCRATCH_FULL
        assert "uses 5 MiB of disk space; the limit is 1 MiB" in seen.message

    play(tmp_path, scenario, QUICK)


def test_what_is_elsewhere_does_not_count(tmp_path: Path) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "big").write_bytes(b"x" * 3 * MIB)

    async def scenario(rig: Rig) -> None:
        script = (
            "dd if=/dev/zero of=/tmp/big bs=1M count=3 status=none; ln -s /tmp/big /data ~/; truncate -s 1T ~/sparse"
        )
        mounts = (Mount(volume=HostFolder(str(shared)), target="/data"),)
        await rig.start_and_wait_for(b"up", "a", f"{script}; echo up; sleep 600", scratch=MIB, mounts=mounts)
        note = folder_of(tmp_path / "home", "a").read_start_note()
        assert note is not None
        assert measure_home(folder_of(tmp_path / "home", "a").path, note.home, 1 << 60) < MIB
        await rig.engine.stop("a", 0)
        assert (await rig.end_of("a")).cause == ""

    play(tmp_path / "home", scenario, QUICK)


def test_a_home_is_counted_without_following_links_or_counting_twice(tmp_path: Path) -> None:
    home = tmp_path / "task" / "upper" / "home"
    (home / "sub").mkdir(parents=True)
    (home / "sub" / "one").write_bytes(b"x" * MIB)
    os.link(home / "sub" / "one", home / "two")
    (tmp_path / "outside").write_bytes(b"x" * 9 * MIB)
    (home / "link").symlink_to(tmp_path)
    os.mkfifo(home / "pipe")
    task = str(tmp_path / "task")
    assert MIB <= measure_home(task, "upper/home", 1 << 40) < 4 * MIB
    assert measure_home(task, "upper/home/link", 1 << 40) == 0
    assert measure_home(task, "upper/nothing", 1 << 40) == 0
    (tmp_path / "task" / "bent").symlink_to(home)
    assert measure_home(task, "bent/sub", 1 << 40) == 0


def test_counting_ends_when_there_is_enough(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    for number in range(50):
        (tmp_path / "home" / f"{number}").write_bytes(b"x" * 8192)
    assert 8192 < measure_home(str(tmp_path), "home", 8192) < 50 * 8192


def test_files_below_more_folders_than_are_held_open_are_counted(tmp_path: Path) -> None:
    """On the way back too: each folder above has another one with a file."""
    depth = 2 * MAX_OPEN_LEVELS + 50
    fd = os.open(tmp_path, os.O_RDONLY)
    for _ in range(depth):
        for name in ("a", "d", "z"):
            os.mkdir(name, dir_fd=fd)
        for name in ("a/file", "z/file"):
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT, dir_fd=fd))
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    file = os.open("large", os.O_WRONLY | os.O_CREAT, dir_fd=fd)
    os.posix_fallocate(file, 0, 3 * MIB)
    os.close(file)
    os.close(fd)
    use = measure_task_files(str(tmp_path), TaskDiskUsage())
    assert use.files == 5 * depth + 1
    assert use.bytes >= 3 * MIB
    assert not any(path.startswith(str(tmp_path)) for path in open_paths())
    remove_tree(str(tmp_path / "d"))


def open_paths() -> list[str]:
    """What this process has open."""
    found = []
    for fd in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the descriptor of this very list
            found.append(str(fd.readlink()))
    return found


def test_removed_files_that_are_open_count_once_if_they_are_on_this_disk(tmp_path: Path) -> None:
    def measure() -> TaskDiskUsage:
        return measure_unlinked_files([os.getpid()], str(tmp_path), time.monotonic() + 60)

    def open_file(name: str) -> int:
        fd = os.open(tmp_path / name, os.O_RDWR | os.O_CREAT)
        os.posix_fallocate(fd, 0, 3 * MIB)
        return fd

    before = measure()
    named, removed, memory = open_file("named (deleted)"), open_file("removed"), os.memfd_create("memory")
    os.posix_fallocate(memory, 0, 3 * MIB)
    again = os.dup(removed)
    (tmp_path / "removed").unlink()
    use = measure()
    assert use.bytes - before.bytes == os.fstat(removed).st_blocks * 512
    assert use.files - before.files == 1
    for fd in (named, removed, memory, again):
        os.close(fd)
    assert measure() == before
    assert measure_unlinked_files([os.getpid()], str(tmp_path / "gone"), time.monotonic() + 60) == TaskDiskUsage()


@pytest.mark.release_after(3)
@pytest.mark.parametrize("isolation", ["auto", "off"])
@pytest.mark.parametrize("place", ["~", "/tmp", "/var/tmp"])
def test_a_removed_file_that_a_task_holds_open_counts(tmp_path: Path, isolation: str, place: str) -> None:
    if isolation == "off" and place != "~":
        pytest.skip("outside of a sandbox that may be another disk")

    async def scenario(rig: Rig) -> None:
        removed = f"exec 9>{place}/big; rm {place}/big; dd if=/dev/zero bs=1M count=3 status=none >&9"
        seen = await rig.run("a", f"{removed}; sleep 600")
        assert (seen.seen, seen.cause) == (ObservedState.EXITED, Cause.DISK_LIMIT)
        assert "the limit is 2 MiB" in seen.message

    options = EmbeddedOptions(scratch_interval=0.01, isolation=isolation, task_bytes=2 * MIB)
    play(tmp_path, scenario, options)


def test_a_removed_file_is_seen_before_the_server_starts(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        removed = "exec 9>~/big; rm ~/big; dd if=/dev/zero bs=1M count=3 status=none >&9"
        await rig.start_and_wait_for(b"up", "a", f"{removed}; echo up; sleep 600")
        uses = await rig.engine.measure_disk()  # type: ignore[attr-defined]
        assert uses["a"].bytes >= 3 * MIB
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(disk_emergency, "read_disk_space", lambda _: DiskSpace(free=0, total=60 * MIB))
            found = disk_emergency._find_largest_task(TaskFolders(tmp_path))
        assert found is not None
        assert found[0] == "a"
        assert found[1].bytes >= 3 * MIB
        await rig.engine.stop("a", 0)
        await rig.end_of("a")

    play(tmp_path, scenario)


def test_slow_looks_are_rare_and_many_tasks_share_the_time() -> None:
    now = 0.0
    pace = MeasureSchedule(10.0, lambda: now)
    first, second, unlimited = (_live(scratch) for scratch in (1, 1, 0))
    tasks = [first, second, unlimited]
    assert pace.list_due_tasks(tasks) == []
    now = 10.0
    assert pace.list_due_tasks(tasks) == [first, second]
    pace.record_measurement(first, took=0.001)
    pace.record_measurement(second, took=2.0)
    now = 20.0
    assert pace.list_due_tasks(tasks) == [first]
    pace.record_measurement(first, took=0.001)
    now = 210.0  # both together take 2.001 seconds, a hundredth of the time until then
    assert pace.list_due_tasks(tasks) == []
    now = 211.0
    assert pace.list_due_tasks(tasks) == [second]


def test_a_task_whose_files_take_long_to_count_is_not_left_alone_for_the_number_of_the_others() -> None:
    now = 0.0
    pace = MeasureSchedule(10.0, lambda: now)
    large, *_ = tasks = [_live(1) for _ in range(30)]
    pace.list_due_tasks(tasks)
    now = 10.0
    for task in pace.list_due_tasks(tasks):
        pace.record_measurement(task, took=0.1 if task is large else 0.0)
    now = 21.0
    assert pace.list_due_tasks(tasks)[:1] == [large]


def test_a_full_disk_cannot_hide_why_the_task_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even the note of it could be written."""

    async def scenario(rig: Rig) -> None:
        seen = await rig.run("a", f"{FILL}sleep 600", scratch=MIB)
        assert seen.cause == Cause.SCRATCH_FULL
        assert not os.path.lexists(folder_of(tmp_path, "a")["full"])

    def fail(folder: TaskFolder, excess: DiskExcess) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(TaskFolder, "write_disk_excess", fail)
    play(tmp_path, scenario, QUICK)


@pytest.mark.parametrize("isolation", ["auto", "off"])
@pytest.mark.parametrize(
    ("script", "limits", "words"),
    [
        ("dd if=/dev/zero of=$HOME/big bs=1M count=3 status=none", {"task_bytes": 2 * MIB}, "the limit is 2 MiB"),
        ("mkdir ~/many; cd ~/many; seq 300 | xargs touch", {"task_files": 200}, " files; the limit is 200"),
    ],
)
def test_a_task_that_writes_more_than_it_may_is_stopped_and_told_which_limit(
    tmp_path: Path, isolation: str, script: str, limits: dict[str, int], words: str
) -> None:
    async def scenario(rig: Rig) -> None:
        seen = await rig.run("a", f"{script}; sleep 600")
        assert (seen.seen, seen.cause) == (ObservedState.EXITED, Cause.DISK_LIMIT)
        assert words in seen.message

    play(tmp_path, scenario, EmbeddedOptions(scratch_interval=0.01, isolation=isolation, **limits))  # type: ignore[arg-type]


def test_everything_it_writes_outside_of_its_home_counts_too_but_its_log(tmp_path: Path) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)

    async def scenario(rig: Rig) -> None:
        log = "dd if=/dev/zero bs=1M count=3 status=none"
        seen = await rig.run("a", f"{log}; dd if=/dev/zero of=/var/tmp/big bs=1M count=3 status=none; sleep 600")
        assert seen.cause == Cause.DISK_LIMIT
        assert (await rig.run("b", log)).code == 0

    play(tmp_path, scenario, EmbeddedOptions(scratch_interval=0.01, task_bytes=2 * MIB))


def test_a_task_that_fills_the_servers_disk_is_told_so(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", f"{FILL} seq 100000; echo up; sleep 600")
        uses = await rig.engine.measure_disk()  # type: ignore[attr-defined]
        assert uses["a"].grown_bytes == uses["a"].bytes >= 3 * MIB
        await rig.engine.stop_task_for_full_disk("a", uses["a"], 4096, 0)  # type: ignore[attr-defined]
        seen = await rig.end_of("a")
        assert seen.cause == Cause.SERVER_DISK_FULL
        assert seen.message.startswith(
            "Stopped because the server's disk was nearly full (4 KiB free); this task wrote "
        )

    play(tmp_path, scenario)


def test_a_task_that_fails_while_nothing_can_be_written_is_told_so(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        assert (await rig.run("before", "exit 3")).cause == ""
        rig.engine.record_disk_full()  # type: ignore[attr-defined]
        assert (await rig.run("a", "exit 3")).cause == Cause.DISK_WAS_FULL
        assert (await rig.run("b", "exit 0")).cause == ""

    play(tmp_path, scenario)


def test_logs_are_cut_when_the_disk_is_full_also_after_a_kill(tmp_path: Path) -> None:
    """What is left begins at a known place, whether or not the server could note it down."""

    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"99999", "a", "seq -w 99999; sleep 600")
        freed = await rig.engine.trim_logs(8192, 1)  # type: ignore[attr-defined]
        assert freed >= 500_000
        assert await rig.engine.trim_logs(8192, 1) == 0  # type: ignore[attr-defined]
        folder = folder_of(tmp_path, "a")
        Path(folder["first"]).unlink()
        await rig.reopen()
        await rig.look("a")
        log = rig.engine.open_log("a", LogStream.STDOUT)
        assert log is not None
        rig.engine.get_followed_recorder("a")  # type: ignore[attr-defined]
        first = await log.find_first_offset()
        assert first == freed
        assert b"\0" not in await log.read(first, 1 << 20)
        await rig.engine.stop("a", 0)
        await rig.end_of("a")

    play(tmp_path, scenario)


def test_a_tasks_files_are_counted_up_to_a_limit(tmp_path: Path) -> None:
    (tmp_path / "upper" / "deep").mkdir(parents=True)
    (tmp_path / "stdout").write_bytes(b"x" * 5 * MIB)
    for number in range(50):
        (tmp_path / "upper" / "deep" / f"{number}").write_bytes(b"x" * 8192)
    use = measure_task_files(str(tmp_path), TaskDiskUsage())
    assert use.files == 52
    assert 50 * 8192 <= use.bytes < MIB
    assert measure_task_files(str(tmp_path), TaskDiskUsage(files=10)).files == 11
    assert measure_task_files(str(tmp_path), TaskDiskUsage(bytes=8192)).bytes < 5 * 8192
    assert measure_task_files(str(tmp_path), TaskDiskUsage(), deadline=0.0) == TaskDiskUsage()
    assert measure_task_files(str(tmp_path / "gone"), TaskDiskUsage()) == TaskDiskUsage()


@pytest.mark.parametrize("text", ["home 5 3", "bytes 5 3", "files 5 3", "server 5 3", "server-files 5 3"])
def test_why_it_was_stopped_is_read_back(text: str) -> None:
    assert parse_excess(text).to_text() == text


def test_what_older_releases_noted_is_understood() -> None:
    assert parse_excess("5") == DiskExcess(ExcessKind.HOME, 5, 0)
    assert parse_excess("nonsense and more").kind is ExcessKind.HOME


def sandboxed(rig: Rig) -> bool:
    return rig.engine.get_health().isolation is not Isolation.NONE


def _live(scratch: int) -> LiveTask:
    note = parse_start_note(f'[1,"b",1700000000000,1,0,[],[],"","home",{scratch}]')
    return LiveTask(attempt_id="a", folder=None, note=note, recorder=None, pid=1, pidfd=None, started_at=0.0)  # type: ignore[arg-type]

"""What tasks use: figures against loads of known size, with control groups, without, and without a sandbox."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast.core.attempt import ObservedState
from holdfast.core.job import GIB, MIB, Resources
from holdfast.core.metrics.samples import Reading
from holdfast.engines.base import SupportsMetrics
from holdfast.engines.embedded import EmbeddedEngine, EmbeddedOptions, cgroups
from holdfast.engines.embedded.folder_content import StartNote
from holdfast.engines.embedded.metrics import process_metrics as process_figures
from holdfast.engines.embedded.metrics import sampling_rounds, traffic
from holdfast.engines.embedded.metrics.cgroup_metrics import (
    CgroupFiles,
    CgroupMetrics,
    find_cgroup_files,
    read_cgroup_metrics,
    read_cgroup_pids,
)
from holdfast.engines.embedded.metrics.process_trees import ProcessTrees
from holdfast.engines.embedded.metrics.sampling_rounds import MeasuredTask, MonotonicCounter
from holdfast.engines.embedded.processes import COOKIE_VARIABLE, list_descendants
from tests.contracts.engine_contract import TIMEOUT, Rig, launch, read_all

from .measured_programs import BURNS_AND_ENDS, burns, fills, talks, task, writes_and_reads
from .scenarios import folder_of, play

ROOM = Resources(cpu=1.0, memory=GIB)
PLAIN = EmbeddedOptions(isolation="off")


def off_by(found: float | None, known: float) -> float:
    assert found is not None
    return abs(found - known) / known


async def read(rig: Rig, *names: str) -> list[Reading]:
    assert isinstance(rig.engine, SupportsMetrics)
    found = await rig.engine.measure_tasks(names)
    return [found[name] for name in names]


async def wait_for(rig: Rig, word: bytes, name: str) -> None:
    log = rig.log(name)
    size = 0
    while word not in await read_all(log):
        assert await log.wait_for_growth(size, TIMEOUT), await read_all(log)
        size = await log.get_size()


@pytest.fixture(params=["groups", "watched", "plain", "plain, watched"])
def options(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> EmbeddedOptions:
    if "watched" in request.param:
        watch(monkeypatch)
    return PLAIN if "plain" in request.param else EmbeddedOptions()


def watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "find_cgroups", lambda **_: (None, "none for this test"))


# --- loads of known size ------------------------------------------------------------------------------------------


@pytest.mark.release_after(2)
def test_processor_time(tmp_path: Path, options: EmbeddedOptions) -> None:
    async def scenario(rig: Rig) -> None:
        async with partner("127.0.0.1", 0, 0) as (place, port):
            await rig.engine.start(launch("burns", burns(port)))
            await place.came.acquire()
            (before,) = await read(rig, "burns")  # with what it took to begin
            place.go.release()
            await wait_for(rig, b"done", "burns")
        _, began, _, ended = (await read_all(rig.log("burns"))).split()
        known = float(ended) - float(began)
        (reading,) = await read(rig, "burns")
        assert off_by(reading.cpu - before.cpu, known) < 0.05, (before, reading, known)
        assert reading.processes >= 1
        await rig.engine.stop("burns", 0)
        used = (await rig.end_of("burns")).used
        assert used is not None
        assert used.cpu - before.cpu > known * 0.95, (before, used, known)
        assert used.cpu < reading.cpu + 0.5  # what it took to end, and to wait for that
        assert used.processes == 0

    play(tmp_path, scenario, options)


@pytest.mark.release_after(2)
def test_memory(tmp_path: Path, options: EmbeddedOptions) -> None:
    """Also what children have in common with their parent."""

    async def scenario(rig: Rig) -> None:
        for name, amount in (("lean", MIB), ("fat", 201 * MIB)):
            await rig.start_and_wait_for(b"up", name, fills(amount), resources=ROOM)
        lean, fat = await read(rig, "lean", "fat")
        assert off_by(fat.memory - lean.memory, 200 * MIB) < 0.02, (lean, fat)
        assert (fat.memory_limit, fat.swap) == (GIB, 0)
        assert fat.memory_peak is not None
        assert fat.memory <= fat.memory_peak < fat.memory + 8 * MIB
        await rig.engine.stop("fat", 0)
        used = (await rig.end_of("fat")).used
        assert used is not None
        assert off_by(used.memory_peak, fat.memory_peak) < 0.02, (used, fat)

    play(tmp_path, scenario, options)


@pytest.mark.release_after(2)
def test_disks(tmp_path: Path, options: EmbeddedOptions) -> None:
    amount = 64 * MIB  # the kernel may well write a page twice that is written while it is being saved

    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "writes", writes_and_reads(amount), resources=ROOM)
        (reading,) = await read(rig, "writes")
        if not reading.disk_written or not reading.disk_read:
            pytest.skip(f"the file system below {tmp_path} does not count what goes to its disk, or comes from it")
        assert off_by(reading.disk_written, amount) < 0.1, reading
        assert off_by(reading.disk_read, amount) < 0.1, reading
        await rig.engine.stop("writes", 0)
        used = (await rig.end_of("writes")).used
        assert used is not None
        assert off_by(used.disk_written, amount) < 0.1
        assert off_by(used.disk_read, amount) < 0.1

    play(tmp_path, scenario, options)


class Partner:
    """Takes connections of a task and says when it is to go on."""

    def __init__(self, sent: int, received: int) -> None:
        self._sent, self._received = sent, received  # by the task
        self.came = asyncio.Semaphore(0)
        self.served = asyncio.Semaphore(0)
        self.go = asyncio.Semaphore(0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        self.came.release()
        await self.go.acquire()
        writer.write(b"!")
        left = self._sent
        while left and (piece := await reader.read(min(left, 1 << 16))):
            left -= len(piece)
        writer.write(bytes(self._received))
        await writer.drain()
        await reader.read()
        writer.close()
        self.served.release()


@asynccontextmanager
async def partner(host: str, sent: int, received: int) -> AsyncIterator[tuple[Partner, int]]:
    place = Partner(sent, received)
    server = await asyncio.start_server(place.serve, host, 0)
    try:
        yield place, server.sockets[0].getsockname()[1]
    finally:
        server.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_network(tmp_path: Path, options: EmbeddedOptions, host: str) -> None:
    """Connections that are open, and what went through others until they were closed."""
    sent, received = 32 * MIB, 16 * MIB  # of which some may have to be sent again

    async def scenario(rig: Rig) -> None:
        async with partner(host, sent, received) as (place, port):
            await rig.engine.start(launch("talks", talks(host, port, sent=sent, received=received)))
            await place.came.acquire()
            (first,) = await read(rig, "talks")
            if first.net_in is None:
                pytest.skip("the kernel does not tell of sockets here")
            assert first.net_out is not None
            assert first.net_out < 1000
            place.go.release()
            await place.served.acquire()  # closed by the task
            await place.came.acquire()
            second = first
            while (second.net_out or 0) < sent * 0.9:  # the kernel tells of a closed one a moment later
                (second,) = await read(rig, "talks")
            assert off_by(second.net_out, sent) < 0.1, second
            assert off_by(second.net_in, received) < 0.1, second
            place.go.release()
            while b"up" not in await read_all(rig.log("talks")):
                await rig.log("talks").wait_for_growth(0, 60)
            (third,) = await read(rig, "talks")
            assert off_by(third.net_out, 2 * sent) < 0.1, third
            assert off_by(third.net_in, 2 * received) < 0.1, third
            await rig.engine.stop("talks", 0)
            used = (await rig.end_of("talks")).used
            assert used is not None
            assert off_by(used.net_out, 2 * sent) < 0.1, used

    play(tmp_path, scenario, options)


@pytest.mark.parametrize("watched", [False, True])
def test_sockets_that_are_first_seen_while_others_are_measured_are_still_their_tasks(
    tmp_path: Path, watched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, received = 4 * MIB, 2 * MIB
    if watched:
        watch(monkeypatch)

    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "other", "echo up; sleep 600")
        async with partner("127.0.0.1", sent, received) as (place, port):
            await rig.engine.start(launch("talks", talks("127.0.0.1", port, sent=sent, received=received)))
            await place.came.acquire()
            (other,) = await read(rig, "other")
            if other.net_in is None:
                pytest.skip("the kernel does not tell of sockets here")
            await read(rig, "talks")
            place.go.release()
            await place.served.acquire()
            await place.came.acquire()
            await read(rig, "other")  # one is closed and one is new
            (first,) = await read(rig, "talks")
            while (first.net_out or 0) < sent * 0.9:  # the kernel tells of a closed one a moment later
                await read(rig, "other")
                (first,) = await read(rig, "talks")
            place.go.release()
            await wait_for(rig, b"up", "talks")
            (second,) = await read(rig, "talks")
            assert off_by(second.net_out, 2 * sent) < 0.1, second
            assert off_by(second.net_in, 2 * received) < 0.1, second
            (other,) = await read(rig, "other")
            assert (other.net_in, other.net_out) == (0, 0)

    play(tmp_path, scenario)


# --- short lives --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("isolation", ["auto", "off"])
def test_a_task_that_nobody_looked_at_has_its_last_figures(tmp_path: Path, isolation: str) -> None:
    program = "x = bytearray(b'x') * (100 << 20)\n" + BURNS_AND_ENDS

    async def scenario(rig: Rig) -> None:
        if not rig.engine.get_health().limits.startswith("cgroup"):
            pytest.skip("without control groups only what was seen before can be told")
        used = (await rig.run("a", task(program), resources=ROOM)).used
        known = float(await read_all(rig.log("a")))
        assert used is not None
        assert known - 0.02 <= used.cpu < known + 0.5  # the sandbox and the shell take some as well
        assert used.memory_peak is not None
        assert 100 * MIB < used.memory_peak < 150 * MIB

    play(tmp_path, scenario, EmbeddedOptions(isolation=isolation))


def test_without_groups_and_sandbox_whoever_waits_for_a_task_learns_what_it_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch(monkeypatch)

    async def scenario(rig: Rig) -> None:
        used = (await rig.run("a", task(BURNS_AND_ENDS))).used
        known = float(await read_all(rig.log("a")))
        assert used is not None
        assert known - 0.02 <= used.cpu < known + 0.5

    play(tmp_path, scenario, PLAIN)


def test_what_cannot_be_told_is_not_made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch(monkeypatch)

    async def scenario(rig: Rig) -> None:
        if rig.engine.get_health().isolation == "none":
            pytest.skip("needs a sandbox: its first process takes the figures with it")
        assert (await rig.run("a", "true")).used is None

    play(tmp_path, scenario)


# --- processes that come and go -----------------------------------------------------------------------------------

# Children that nobody waits for: their figures are lost with them.
FORSAKES = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
child = os.fork()
if not child:
    while time.process_time() < 0.5: pass
    print("up", flush=True)
    time.sleep(600)
while not os.path.exists("end"): time.sleep(0.01)
os.kill(child, 9)
while os.path.exists(f"/proc/{child}"): time.sleep(0.01)
while time.process_time() < 0.3: pass
print("gone", flush=True)
time.sleep(600)
"""

# One that has left its parents and its session, and does not carry the attempt's variables any more.
RUNS_AWAY = """
import os, time
if not os.fork():
    os.setsid()
    if os.fork(): os._exit(0)
    while not os.path.exists("end"): time.sleep(0.01)
    os.execve("/bin/sh", ["sh", "-c", "while [ ! -e burn ]; do sleep 0.01; done; echo gone; exec sleep 600"], {})
os.wait()
print("up", flush=True)
time.sleep(600)
"""


def test_a_counter_does_not_fall_when_children_end_that_nobody_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch(monkeypatch)

    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", task(FORSAKES))
        (before,) = await read(rig, "a")
        assert before.cpu >= 0.5
        Path(folder_of(tmp_path, "a")["scratch"], "end").touch()
        while b"gone" not in await read_all(rig.log("a")):
            await rig.log("a").wait_for_growth(len(b"up\n"), 60)
        (after,) = await read(rig, "a")
        assert after.cpu >= before.cpu

    play(tmp_path, scenario, PLAIN)


def test_processes_that_have_run_away_are_still_the_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch(monkeypatch)

    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "other", "echo up; sleep 600")
        await rig.start_and_wait_for(b"up", "a", task(RUNS_AWAY))
        await read(rig, "other")
        (before,) = await read(rig, "a")  # known by the attempt's variable
        assert before.processes == 2
        await read(rig, "other")
        for name in ("end", "burn"):
            Path(folder_of(tmp_path, "a")["scratch"], name).touch()
        while b"gone" not in await read_all(rig.log("a")):
            await rig.log("a").wait_for_growth(len(b"up\n"), 60)
        (after,) = await read(rig, "a")  # and because it was known
        assert after.processes == 2

    play(tmp_path, scenario, PLAIN)


def test_a_process_that_ran_away_is_known_also_after_others_were_looked_at() -> None:
    def begin(**env: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(["sleep", "600"], env={**os.environ, **env})

    one, other, away = begin(), begin(), begin(**{COOKIE_VARIABLE: "cookie of one"})
    try:
        note = StartNote(boot="", at=datetime.now(UTC), sandbox=False)
        first = MeasuredTask("one", note, one.pid, (), "cookie of one")
        second = MeasuredTask("other", note, other.pid, (), "cookie of other")
        forest = ProcessTrees()
        for _ in range(2):
            assert forest.find_processes([second], 50_000) == {}
            assert forest.find_processes([first], 50_000) == {"one": [away.pid]}
    finally:
        for process in (one, other, away):
            process.kill()
            process.wait()


# A child that has written, ended, and is waited for only later.
LEAVES_REMAINS = """
import os, time
child = os.fork()
if not child:
    with open("file", "wb") as file:
        file.write(bytes(16 << 20))
        file.flush()
        os.fsync(file.fileno())
    print("up", flush=True)
    while not os.path.exists("end"): time.sleep(0.01)
    os._exit(0)
while not os.path.exists("wait"): time.sleep(0.01)
os.waitpid(child, 0)
print("gone", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("groups", [True, False])
def test_what_a_child_wrote_counts_once_however_late_it_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, groups: bool
) -> None:
    if not groups:
        watch(monkeypatch)

    async def scenario(rig: Rig) -> None:
        home = Path(folder_of(tmp_path, "a")["scratch"])
        await rig.start_and_wait_for(b"up", "a", task(LEAVES_REMAINS), resources=ROOM)
        (lives,) = await read(rig, "a")
        (home / "end").touch()
        runner = folder_of(tmp_path, "a").read_claim().pid
        assert runner is not None
        (child,) = [pid for pid in list_descendants(runner) if not list_descendants(pid)]  # numbers may start again
        while Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            await asyncio.sleep(0.01)
        (remains,) = await read(rig, "a")
        (home / "wait").touch()
        while b"gone" not in await read_all(rig.log("a")):
            await rig.log("a").wait_for_growth(len(b"up\n"), 60)
        (waited,) = await read(rig, "a")
        assert lives.disk_written is not None
        if lives.disk_written == 0:
            pytest.skip(f"the file system below {tmp_path} does not count what goes to its disk")
        for reading in (remains, waited):
            assert off_by(reading.disk_written, lives.disk_written) < 0.1, (lives, reading)

    play(tmp_path, scenario, PLAIN)


def test_a_rising_counter_goes_on_from_where_it_stood() -> None:
    counter = MonotonicCounter()
    assert [counter.update(found) for found in (5, 9, 4, 6)] == [5, 9, 9, 11]
    assert counter.update(1, sure=False) == 11  # somebody went while we looked: perhaps a mere chance
    assert counter.update(7) == 12


# --- looks that never come back -----------------------------------------------------------------------------------


def test_a_look_that_hangs_holds_up_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    came, back = threading.Event(), threading.Event()
    read_disk = process_figures.read_disk_counters

    def hang(pid: int) -> process_figures.DiskCounters:
        came.set()
        back.wait()
        return read_disk(pid)

    async def scenario(rig: Rig) -> None:
        for name in ("a", "ends"):
            await rig.start_and_wait_for(b"up", name, "echo up; sleep 600")
        await read(rig, "a", "ends")
        assert isinstance(rig.engine, EmbeddedEngine)
        sums = rig.engine._task_metrics._rounds._traffic
        tells = sums.get_total("ends") is not None
        monkeypatch.setattr(process_figures, "read_disk_counters", hang)
        look = asyncio.create_task(rig.engine.measure_tasks(["a"]))
        await asyncio.to_thread(came.wait)
        look.cancel()
        for _ in range(20):  # more than there are threads
            assert await rig.engine.measure_tasks(["a"]) == {}
        await rig.engine.stop("ends", 0)
        assert (await rig.end_of("ends")).used is not None
        if tells:
            assert sums.get_total("ends") is None
            assert sums.get_total("a") is not None
        assert (await rig.run("later", "true")).seen is ObservedState.EXITED
        await rig.reopen()
        await rig.look("a")
        back.set()
        (reading,) = await read(rig, "a")
        assert reading.processes > 0

    try:
        play(tmp_path, scenario)
    finally:
        back.set()


def test_the_last_figures_of_a_task_are_read_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = []

    def note_reader(files: CgroupFiles) -> CgroupMetrics:
        readers.append(threading.current_thread())
        return read_cgroup_metrics(files)

    monkeypatch.setattr(sampling_rounds, "read_cgroup_metrics", note_reader)

    async def scenario(rig: Rig) -> None:
        await rig.run("a", "true")
        assert readers
        assert threading.current_thread() not in readers

    play(tmp_path, scenario)


# --- hostile tasks ------------------------------------------------------------------------------------------------

CROWD = """
import os, shutil, subprocess, time
odd = os.path.abspath(") R 1 1\\n(x")
shutil.copy("/bin/sleep", odd)
children = [subprocess.Popen([odd, "600"]) for _ in range(20)]
files = [open("/dev/null") for _ in range(300)]
while time.process_time() < 0.5: pass
print("up", flush=True)
time.sleep(600)
"""


@pytest.mark.release_after(2)
def test_beyond_what_is_looked_at_nothing_is_told(
    tmp_path: Path, options: EmbeddedOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the rest is told all the same, whatever the processes are called."""
    monkeypatch.setattr(sampling_rounds, "_MAX_TASK_PROCESSES", 10)
    monkeypatch.setattr(sampling_rounds, "_MAX_DESCRIPTORS", 200)

    async def scenario(rig: Rig) -> None:
        async with partner("127.0.0.1", 0, 0) as (_, port):
            _, writer = await asyncio.open_connection("127.0.0.1", port)  # somebody else's, never seen before
            writer.write(b"!")
            await rig.start_and_wait_for(b"up", "crowd", task(CROWD))
            (crowd,) = await read(rig, "crowd")
            assert (crowd.disk_read, crowd.disk_written) == (None, None)
            assert 0.45 <= crowd.cpu < 3.0  # in ticks of a hundredth
            assert crowd.processes >= 21
            if rig.engine.get_health().limits == "watched":
                assert (crowd.net_in, crowd.net_out) == (None, None)
            else:
                assert (crowd.net_in, crowd.net_out) == (0, 0)  # told by its group
            writer.close()

    play(tmp_path, scenario, options)


def test_where_the_kernel_does_not_tell_of_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "_NETLINK_SOCK_DIAG", 31)  # no such part of the kernel

    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", "echo up; sleep 600")
        (reading,) = await read(rig, "a")
        assert (reading.net_in, reading.net_out) == (None, None)
        assert reading.memory > 0

    play(tmp_path, scenario)


# --- files of control groups --------------------------------------------------------------------------------------


def write_files(folder: Path, **files: str) -> str:
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return str(folder)


def test_files_of_version_2(tmp_path: Path) -> None:
    folder = write_files(
        tmp_path / "a",
        cgroup__events="populated 1\n",
        cgroup__procs="17\n4\n",
        cpu__stat="usage_usec 2500000\nuser_usec 1\nnr_periods 5\nnr_throttled 2\nthrottled_usec 750000\n",
        memory__current="1000000\n",
        memory__peak="1500000\n",
        memory__max="max\n",
        memory__stat="anon 5\nfile 400\ninactive_anon 7\ninactive_file 200000\nactive_file 100000\n",
        io__pressure="some avg10=0.00 avg60=0.00 avg300=0.00 total=1250000\nfull avg10=0.00 total=9\n",
    )
    (tmp_path / "a/memory.swap.current").write_text("4096\n")
    files = find_cgroup_files([folder])
    assert read_cgroup_metrics(files) == CgroupMetrics(
        cpu=2.5, throttled=0.75, memory=700000, memory_peak=1200000, memory_limit=None, swap=4096, disk_wait=1.25
    )
    assert read_cgroup_pids(files) == [17, 4]
    assert files.cgroup_id == Path(folder).stat().st_ino
    (tmp_path / "a/memory.max").write_text("2000000\n")
    (tmp_path / "a/memory.peak").unlink()  # before Linux 5.19
    figures = read_cgroup_metrics(find_cgroup_files([folder]))
    assert (figures.memory_limit, figures.memory_peak) == (2000000, None)


def test_files_of_version_1(tmp_path: Path) -> None:
    folders = [
        write_files(
            tmp_path / "cpu,cpuacct",
            cgroup__procs="17\n",
            cpu__stat="nr_periods 5\nnr_throttled 2\nthrottled_time 750000000\n",
            cpuacct__usage="2500000000\n",
        ),
        write_files(
            tmp_path / "memory",
            memory__usage_in_bytes="1000000\n",
            memory__max_usage_in_bytes="1500000\n",
            memory__stat="cache 5\ninactive_file 1\nhierarchical_memory_limit 9223372036854771712\n"
            "total_inactive_file 200000\ntotal_active_file 100000\ntotal_swap 4096\n",
        ),
    ]
    expected = CgroupMetrics(cpu=2.5, throttled=0.75, memory=700000, memory_peak=1200000, swap=4096)
    assert read_cgroup_metrics(find_cgroup_files(folders)) == expected
    assert find_cgroup_files(folders).cgroup_id == 0
    unified = write_files(
        tmp_path / "unified", cgroup__events="", cpu__stat="usage_usec 2600000\n", cgroup__procs="17\n"
    )
    hybrid = find_cgroup_files([*folders, unified])
    assert (read_cgroup_metrics(hybrid).cpu, read_cgroup_metrics(hybrid).throttled) == (2.6, 0.75)
    assert hybrid.cgroup_id == Path(unified).stat().st_ino


def test_files_of_a_group_that_is_gone(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "a", cgroup__events="", cpu__stat="usage_usec 1\n", memory__current="1\n")
    files = find_cgroup_files([folder, str(tmp_path / "never")])
    shutil.rmtree(folder)
    assert read_cgroup_metrics(files) == CgroupMetrics()
    assert read_cgroup_pids(files) == []

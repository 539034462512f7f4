"""Artifacts: what is kept of ended tasks, where, within which limits, and whatever is put in the way."""

from __future__ import annotations

import asyncio
import errno
import io
import os
import resource
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import BinaryIO

import pytest

from holdfast.controller import artifacts as artifacts_module
from holdfast.controller import loop as loop_module
from holdfast.controller.artifact_draft import (
    ArtifactAmount,
    CollectionResult,
    StagingArtifactSink,
    format_path,
    is_valid_path,
)
from holdfast.controller.artifacts import ArtifactCollector, ArtifactLimits, describe_result
from holdfast.core.attempt import JobSnapshot, Observation, ObservedState
from holdfast.core.job import Job, Resources, Role
from holdfast.core.records import Event, NewEvent
from holdfast.core.states import JobState
from holdfast.engines.artifacts import ArtifactSink, ArtifactsUnavailable, SkipReason
from holdfast.shared_folders import SharedFolders
from holdfast.store.errors import StoreError
from holdfast.store.jobs import events as event_rows
from tests.fake_engine import FakeEngine, FakeMachine

from .test_loop import Place, a_job, run, running

TWO = "mkdir -p ~/artifacts; echo one > ~/artifacts/a.txt; echo two > ~/artifacts/sub/b.txt"
MAX_COUNT = ArtifactLimits(files=1000, bytes=1 << 20, keep=timedelta(days=7))


class Kept:
    """A server whose tasks' artifacts are kept below `home`/shared."""

    def __init__(self, home: Path, limits: ArtifactLimits = MAX_COUNT, machine: FakeMachine | None = None) -> None:
        self.home = home
        self.shared = SharedFolders(home / "shared")
        self.shared.create_folder(self.shared.root)
        self.machine = machine or FakeMachine()
        self.limits = limits

    def running(self):  # type: ignore[no-untyped-def]
        engine = FakeEngine(self.machine)
        return running(self.home, self.machine, collecting=ArtifactCollector(engine, self.shared, self.limits))

    async def written(self, *attempt_ids: str) -> None:
        """These have come to the end of what they write."""
        async with asyncio.timeout(20):
            while any(self._artifacts(id) is None for id in attempt_ids):
                await asyncio.sleep(0.001)

    def _artifacts(self, attempt_id: str) -> dict[str, bytes] | None:
        task = self.machine.tasks.get(attempt_id)
        return task.artifacts if task else None

    @property
    def jobs(self) -> Path:
        return self.shared.get_files_folder("default") / "jobArtifacts"

    def tree(self, job_id: str) -> dict[str, str]:
        """Path -> content, of what people see."""
        top = self.jobs / job_id
        files = [path for path in sorted(top.rglob("*")) if path.is_file() and not path.is_symlink()]
        return {str(path.relative_to(top)): path.read_text() for path in files if ".metadata" not in path.parts}


async def said(place: Place, job_id: str) -> list[Event]:
    return [
        event for event in await place.store.read(event_rows.list_events, job_id) if event.kind.startswith("artifacts")
    ]


@pytest.mark.parametrize(
    ("end", "state"), [("exit 0", JobState.SUCCEEDED), ("exit 3", JobState.FAILED), ("kill -9 $$", JobState.FAILED)]
)
def test_artifacts_are_there_when_the_job_is_seen_to_have_ended(tmp_path: Path, end: str, state: JobState) -> None:
    async def story() -> None:
        kept = Kept(tmp_path)
        async with kept.running() as place:
            id = await place.submit(a_job(f"{TWO}; {end}"))
            await place.until(id, state)
            assert kept.tree(id) == {"a.txt": "one\n", "sub/b.txt": "two\n"}
            expires = int((kept.jobs / id / ".metadata" / "expiredAt").read_text())
            assert abs(expires - (datetime.now(UTC) + timedelta(days=7)).timestamp()) < 100
            (event,) = await said(place, id)
            assert event.message == "2 files (8 B) saved as artifacts."
            assert (event.attempt, event.task) == (0, None)
            assert (await place.kinds(id))[-1] == state.lower()
            assert not list(kept.shared.get_artifact_drafts_folder("default").iterdir())

    run(story)


def test_stopped_and_late_jobs_keep_theirs_too(tmp_path: Path) -> None:
    async def story() -> None:
        kept = Kept(tmp_path)
        async with kept.running() as place:
            stopped = await place.submit(a_job(f"{TWO}; sleep 100"))
            late = await place.submit(a_job(f"{TWO}; sleep 100", time_limit=timedelta(seconds=0.05)))
            await place.until(stopped, JobState.RUNNING)
            await kept.written(f"{stopped}.0.main-0.0")
            await place.controller.stop_job(stopped, "ann")
            await place.until(stopped, JobState.CANCELLED)
            await place.until(late, JobState.FAILED)
            for id in (stopped, late):
                assert len(kept.tree(id)) == 2
                assert "time-limit" in await place.kinds(late)

    run(story)


def test_a_job_without_artifacts_has_no_event_and_no_folder(tmp_path: Path) -> None:
    async def story() -> None:
        kept = Kept(tmp_path)
        async with kept.running() as place:
            for script in ("exit 0", "mkdir -p ~/artifacts; exit 0"):
                id = await place.submit(a_job(script))
                await place.until(id, JobState.SUCCEEDED)
                assert await said(place, id) == []
                assert not kept.jobs.exists()
            lost = await place.submit(a_job(f"{TWO}; sleep 100", max_retries=0))
            await place.until(lost, JobState.RUNNING)
            place.engine.lose_task(f"{lost}.0.main-0.0")
            await place.until(lost, JobState.PENDING)
            assert not kept.jobs.exists()
            await place.controller.stop_job(lost, "ann")

    run(story)


@pytest.mark.parametrize("limits", [replace(MAX_COUNT, files=0), replace(MAX_COUNT, bytes=0)])
def test_an_admin_can_switch_it_off(tmp_path: Path, limits: ArtifactLimits) -> None:
    async def story() -> None:
        kept = Kept(tmp_path, limits)
        async with kept.running() as place:
            id = await place.submit(a_job(TWO))
            await place.until(id, JobState.SUCCEEDED)
            assert await said(place, id) == []
            assert not kept.jobs.exists()

    run(story)


def test_tasks_have_folders_of_their_own_and_share_the_limits(tmp_path: Path) -> None:
    async def story() -> None:
        kept = Kept(tmp_path, replace(MAX_COUNT, files=3))
        async with kept.running() as place:
            id = await place.submit(a_job(TWO, instances=2))
            await place.until(id, JobState.SUCCEEDED)
            assert len(kept.tree(id)) == 3
            assert {path.split("/")[0] for path in kept.tree(id)} == {"main-0", "main-1"}
            assert (kept.jobs / id / ".metadata" / "expiredAt").exists()
            told = {event.task: event.message for event in await said(place, id)}
            assert sorted(told) == ["main-0", "main-1"]
            text = next(message for message in told.values() if "skipped" in message)
            assert text == (
                "1 file (4 B) saved as artifacts; skipped, 4 B in total: 1 (exceeds the maximum number of artifact "
                "files), for example sub/b.txt; a job can save at most 3 files and 1 MiB; an admin can raise "
                "files.artifact_files and files.artifact_bytes."
            )

    run(story)


def test_a_restarted_server_counts_what_other_tasks_have_kept(tmp_path: Path) -> None:
    async def story() -> None:
        kept = Kept(tmp_path, replace(MAX_COUNT, files=3))
        roles = tuple(
            Role(name=name, commands=(f"{TWO}; {end}",), resources=Resources(cpu=1.0), instances=1)
            for name, end in (("quick", "exit 0"), ("slow", "sleep 100"))
        )
        async with kept.running() as place:
            id = await place.submit(Job(name="pair", roles=roles))
            async with asyncio.timeout(20):
                while len(kept.tree(id)) < 2:
                    await asyncio.sleep(0.001)
            await kept.written(f"{id}.0.slow-0.0")
        async with kept.running() as place:
            place.engine.finish_task(f"{id}.0.slow-0.0")
            await place.until(id, JobState.SUCCEEDED)
            assert sorted(kept.tree(id)) == ["quick-0/a.txt", "quick-0/sub/b.txt", "slow-0/a.txt"]

    run(story)


def test_a_later_attempt_replaces_what_an_earlier_one_left(tmp_path: Path) -> None:
    async def story() -> None:
        kept = Kept(tmp_path)
        async with kept.running() as place:
            id = await place.submit(a_job(f"{TWO}; sleep 100", max_retries=1))
            await place.until(id, JobState.RUNNING)
            place.engine.finish_task(f"{id}.0.main-0.0", 1)
            await kept.written(f"{id}.1.main-0.0")
            kept.machine.tasks[f"{id}.1.main-0.0"].artifacts = {"new": b"new"}
            assert len(kept.tree(id)) == 2
            place.engine.finish_task(f"{id}.1.main-0.0", 0)
            await place.until(id, JobState.SUCCEEDED)
            assert kept.tree(id) == {"new": "new"}
            assert [event.attempt for event in await said(place, id)] == [0, 1]
            assert [path.name for path in kept.jobs.iterdir()] == [id]

    run(story)


def test_a_server_that_is_killed_meanwhile_collects_again(tmp_path: Path) -> None:
    """It dies after the artifacts are in their place and before the job's end is saved."""

    async def story() -> None:
        kept = Kept(tmp_path)
        async with kept.running() as place:
            id = await place.submit(a_job(f"{TWO}; sleep 100"))
            await place.until(id, JobState.RUNNING)
            place.controller._reports.report_observation = lambda observation: None  # type: ignore[method-assign]
            place.engine.finish_task(f"{id}.0.main-0.0", 0)
            async with asyncio.timeout(20):
                while not kept.tree(id):
                    await asyncio.sleep(0.001)
        async with kept.running() as place:
            await place.until(id, JobState.SUCCEEDED)
            assert len(kept.tree(id)) == 2
            assert len(await said(place, id)) == 1
            assert [path.name for path in kept.jobs.iterdir()] == [id]

    run(story)


@pytest.mark.release_after(3)
@pytest.mark.parametrize("what", ["link", "file", "pipe", "folder"])
@pytest.mark.parametrize("where", ["jobs", "job"])
def test_what_a_job_put_in_the_way_is_set_aside(tmp_path: Path, what: str, where: str) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "precious").write_text("unharmed")

    def put(place: Path) -> None:
        if what == "link":
            place.symlink_to(victim)
        elif what == "file":
            place.write_text("mine")
        elif what == "pipe":
            os.mkfifo(place)
        else:
            place.mkdir()
            (place / "written by hand").write_text("mine")

    async def story() -> None:
        kept = Kept(tmp_path)
        for instances in (1, 2):
            async with kept.running() as place:
                id = await place.submit(a_job(f"{TWO}; sleep 100", instances=instances))
                await place.until(id, JobState.RUNNING)
                if where == "job":
                    kept.jobs.mkdir(parents=True, exist_ok=True)
                    put(kept.jobs / id)
                elif not kept.jobs.exists():
                    kept.shared.create_folder(kept.shared.get_files_folder("default"))
                    put(kept.jobs)
                await kept.written(*(f"{id}.0.main-{index}.0" for index in range(instances)))
                for index in range(instances):
                    place.engine.finish_task(f"{id}.0.main-{index}.0", 0)
                await place.until(id, JobState.SUCCEEDED)
                assert len(kept.tree(id)) == 2 * instances
                told = " ".join(event.message for event in await said(place, id))
                aside = [*kept.jobs.glob(f"{id}.found-*"), *kept.jobs.parent.glob("*.found-*")]
                moved = where == "job" or (instances == 1 and what != "folder")
                assert ("existing files at this path were moved to" in told) == moved
                if moved:
                    assert aside
                    assert aside[0].name in told
        assert [path.name for path in victim.iterdir()] == ["precious"]

    run(story)


def test_a_job_cannot_bend_its_description(tmp_path: Path) -> None:
    """A folder that looks like one of ours, with links where we write."""
    victim = tmp_path / "victim"
    victim.write_text("unharmed")

    async def story() -> None:
        kept = Kept(tmp_path)
        async with kept.running() as place:
            id = await place.submit(a_job(f"{TWO}; sleep 100", instances=2))
            await place.until(id, JobState.RUNNING)
            own = kept.jobs / id / ".metadata"
            own.mkdir(parents=True)
            for name in ("attempt", "expiredAt"):
                (own / name).symlink_to(victim)
            (kept.jobs / id / "main-0").symlink_to(tmp_path)
            await kept.written(*(f"{id}.0.main-{index}.0" for index in range(2)))
            for index in range(2):
                place.engine.finish_task(f"{id}.0.main-{index}.0", 0)
            await place.until(id, JobState.SUCCEEDED)
            assert len(kept.tree(id)) == 4
            assert victim.read_text() == "unharmed"

    run(story)


class Broken(FakeEngine):
    """Has artifacts that end in trouble."""

    def __init__(self, machine: FakeMachine, trouble: Callable[[ArtifactSink], None]) -> None:
        super().__init__(machine)
        self.trouble = trouble

    def collect_artifacts(self, attempt_id: str, sink: ArtifactSink) -> None:
        self.trouble(sink)


def _raise(error: Exception) -> Callable[[ArtifactSink], None]:
    def trouble(sink: ArtifactSink) -> None:
        raise error

    return trouble


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (
            _raise(ArtifactsUnavailable("artifacts in the task's home folder is not a folder")),
            "No artifacts were saved: artifacts in the",
        ),
        (_raise(OSError(errno.ENOSPC, "No space left on device")), "the disk for shared files is full"),
        (_raise(OSError(errno.EIO, "Input/output error")), "Input/output error"),
        (_raise(ValueError("a bug")), "internal error. See the server's log"),
    ],
)
def test_trouble_is_told_and_the_job_goes_on(
    tmp_path: Path, trouble: Callable[[ArtifactSink], None], words: str
) -> None:
    async def story() -> None:
        kept = Kept(tmp_path)
        collecting = ArtifactCollector(Broken(kept.machine, trouble), kept.shared, MAX_COUNT)
        async with running(tmp_path, kept.machine, collecting=collecting) as place:
            id = await place.submit(a_job(TWO))
            await place.until(id, JobState.SUCCEEDED)
            (event,) = await said(place, id)
            assert words in event.message
            assert not kept.jobs.exists()
            assert not list(kept.shared.get_artifact_drafts_folder("default").iterdir())

    run(story)


def test_a_disk_that_does_not_answer_holds_up_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts_module, "COLLECT_TIMEOUT", 0.1)
    monkeypatch.setattr(artifacts_module, "BYTES_PER_SECOND", float("inf"))
    monkeypatch.setattr(artifacts_module, "FILES_PER_SECOND", float("inf"))
    answers, done = threading.Event(), threading.Event()

    def hang(sink: ArtifactSink) -> None:
        answers.wait(60)
        sink.add_file((b"late",), 0, io.BytesIO)
        assert sink.is_cancelled
        done.set()

    async def story() -> None:
        kept = Kept(tmp_path)
        collecting = ArtifactCollector(Broken(kept.machine, hang), kept.shared, MAX_COUNT)
        async with running(tmp_path, kept.machine, collecting=collecting) as place:
            id = await place.submit(a_job(TWO))
            await place.until(id, JobState.SUCCEEDED)
            (event,) = await said(place, id)
            assert "the operation timed out" in event.message
            answers.set()
            await asyncio.to_thread(done.wait, 20)
            async with asyncio.timeout(20):
                while list(kept.shared.get_artifact_drafts_folder("default").iterdir()):
                    await asyncio.sleep(0.001)
            assert not kept.jobs.exists()  # it came too late

    run(story)


def test_what_one_group_leaves_holds_up_no_other(tmp_path: Path) -> None:
    answers = threading.Event()

    class Slow(FakeEngine):
        def collect_artifacts(self, attempt_id: str, sink: ArtifactSink) -> None:
            if attempt_id.startswith("red"):
                answers.wait(60)
            sink.add_file((b"a",), 0, io.BytesIO)

    async def story() -> None:
        kept = Kept(tmp_path)
        collecting = ArtifactCollector(Slow(kept.machine), kept.shared, MAX_COUNT)

        def collect(id: str, group: str) -> asyncio.Task[NewEvent | None]:
            job = replace(a_job(TWO), group=group)
            snapshot = JobSnapshot(id=id, job=job, user="ann", submitted_at=datetime.now(UTC))
            return asyncio.create_task(collecting.collect_artifacts(snapshot, f"{id}.0.main-0.0"))

        reds = [collect(f"red{number}", "red") for number in range(2 * artifacts_module.MAX_CONCURRENT_COLLECTIONS)]
        try:
            async with asyncio.timeout(20):
                event = await collect("blue", "blue")
        finally:
            answers.set()
        assert event is not None
        assert "1 file" in event.message
        assert all(red is not None and "1 file" in red.message for red in await asyncio.gather(*reds))

    run(story)


def test_time_spent_on_artifacts_is_not_the_jobs(tmp_path: Path) -> None:
    """A job that ended in time has ended in time, however long its artifacts take."""
    late, waited = threading.Event(), threading.Event()

    def slow(sink: ArtifactSink) -> None:
        waited.set()
        late.wait(60)

    async def story() -> None:
        kept = Kept(tmp_path)
        collecting = ArtifactCollector(Broken(kept.machine, slow), kept.shared, MAX_COUNT)
        async with running(tmp_path, kept.machine, collecting=collecting) as place:
            id = await place.submit(a_job(TWO, time_limit=timedelta(seconds=0.5)))
            await asyncio.to_thread(waited.wait, 20)
            live = place.controller._live[id]
            assert live.began is not None
            live.began -= 10  # the limit has passed since
            live.collecting = dict.fromkeys(live.collecting, live.began + 0.1)
            place.controller._mark_jobs(id)
            async with asyncio.timeout(20):
                while place.controller._marked:
                    await asyncio.sleep(0.001)
            late.set()
            await place.until(id, JobState.SUCCEEDED)
            assert "time-limit" not in await place.kinds(id)

    run(story)


def test_an_end_that_is_told_again_is_not_collected_again(tmp_path: Path) -> None:
    """By then its files are being removed: what is left of them must not take the place of the whole."""
    collected: list[str] = []

    class Counting(FakeEngine):
        def collect_artifacts(self, attempt_id: str, sink: ArtifactSink) -> None:
            collected.append(attempt_id)
            super().collect_artifacts(attempt_id, sink)

    async def story() -> None:
        kept = Kept(tmp_path)
        collecting = ArtifactCollector(Counting(kept.machine), kept.shared, MAX_COUNT)
        async with running(tmp_path, kept.machine, collecting=collecting) as place:
            id = await place.submit(a_job(f"{TWO}; sleep 100", instances=2))
            first, second = (f"{id}.0.main-{index}.0" for index in range(2))
            await kept.written(first, second)
            place.engine.finish_task(first, 0)
            async with asyncio.timeout(20):
                while not await said(place, id):
                    await asyncio.sleep(0.001)
            again = Observation(attempt_id=first, seen=ObservedState.EXITED, code=0, artifacts=True)
            place.controller.attempts.handle_observation(again)
            place.engine.finish_task(second, 0)
            await place.until(id, JobState.SUCCEEDED)
            assert collected == [first, second]

    run(story)


def test_an_event_that_could_not_be_saved_is_saved_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "STORE_RETRY_INTERVAL", 0.01)

    async def story() -> None:
        kept = Kept(tmp_path)
        async with kept.running() as place:
            id = await place.submit(a_job(f"{TWO}; sleep 100"))
            await place.until(id, JobState.RUNNING)
            write, failures = place.store.write, iter([True, True])

            async def fail_twice(*words: object, **more: object) -> object:
                if next(failures, False):
                    raise StoreError("the disk is full")
                return await write(*words, **more)  # type: ignore[arg-type]

            monkeypatch.setattr(place.store, "write", fail_twice)
            place.engine.finish_task(f"{id}.0.main-0.0", 0)
            await place.until(id, JobState.SUCCEEDED)
            assert len(await said(place, id)) == 1
            assert len(kept.tree(id)) == 2

    run(story)


# --- what fits ----------------------------------------------------------------------------------------------------


def _draft(folder: Path, room: ArtifactAmount) -> StagingArtifactSink:
    folder.mkdir()
    return StagingArtifactSink(os.open(folder, os.O_RDONLY), room, lambda: False)


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def _offer(draft: StagingArtifactSink, path: str, data: bytes, size: int | None = None) -> None:
    draft.add_file(tuple(os.fsencode(path).split(b"/")), len(data) if size is None else size, partial(io.BytesIO, data))


def test_what_does_not_fit_is_left_out_and_the_rest_is_kept(tmp_path: Path) -> None:
    draft = _draft(tmp_path / "d", ArtifactAmount(files=3, bytes=10))
    for path, size in (("a", 4), ("b", 8), ("c", 6), ("d", 1), ("e", 0), ("f", 0)):
        _offer(draft, path, b"x" * size)
    assert _names(tmp_path / "d") == ["a", "c", "e"]
    tally = draft.tally
    assert (tally.files, tally.bytes, tally.skipped_bytes) == (3, 10, 9)
    assert tally.skipped == {SkipReason.TOO_LARGE: 2, SkipReason.TOO_MANY: 1}
    assert tally.skipped_names == ["b", "d", "f"]


def test_holes_stay_holes_and_a_file_that_grows_is_cut(tmp_path: Path) -> None:
    draft = _draft(tmp_path / "d", ArtifactAmount(files=9, bytes=1 << 30))
    _offer(draft, "deep/er/grown", b"123456", size=4)
    _offer(draft, "deep/er/shrunk", b"12", size=4)
    _offer(draft, "hole", bytes(8 << 20) + b"end")
    assert (tmp_path / "d/deep/er/grown").read_bytes() == b"1234"
    assert (tmp_path / "d/deep/er/shrunk").read_bytes() == b"12"
    hole = tmp_path / "d" / "hole"
    assert hole.read_bytes() == bytes(8 << 20) + b"end"
    assert hole.stat().st_blocks * 512 < 1 << 20
    draft.close()


def test_a_full_disk_ends_the_writing(tmp_path: Path) -> None:
    draft = _draft(tmp_path / "d", ArtifactAmount(files=9, bytes=100))

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))  # a disk of ten bytes
    try:
        for path, data in (("a", b"1"), ("b", b"x" * 11), ("c", b"1")):
            _offer(draft, path, data)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert _names(tmp_path / "d") == ["a"]
    assert draft.tally.skipped == {SkipReason.NO_SPACE: 2}


def test_a_file_that_cannot_be_read_is_left_out_and_a_disk_that_fails_is_told(tmp_path: Path) -> None:
    draft = _draft(tmp_path / "d", ArtifactAmount(files=9, bytes=100))

    def closed() -> BinaryIO:
        raise PermissionError(errno.EACCES, "Permission denied")

    draft.add_file((b"a",), 1, closed)
    _offer(draft, "b", b"1")
    assert draft.tally.skipped == {SkipReason.UNREADABLE: 1}
    assert _names(tmp_path / "d") == ["b"]
    with pytest.raises(FileExistsError):
        _offer(draft, "b", b"1")


@pytest.mark.parametrize(
    "path",
    [(b"..", b"x"), (b"a", b"."), (b"a/b",), (b"a", b""), (b"bad\xff",), (b"x" * 256,), (b"y" * 200,) * 11, (b"a\0",)],
)
def test_names_that_nobody_could_ask_for(tmp_path: Path, path: tuple[bytes, ...]) -> None:
    assert not is_valid_path(path)
    draft = _draft(tmp_path / "d", ArtifactAmount(files=9, bytes=100))
    draft.add_file(path, 0, io.BytesIO)
    assert _names(tmp_path / "d") == []
    assert not draft.tally.files


def test_odd_names_are_kept_and_shown_harmlessly(tmp_path: Path) -> None:
    draft = _draft(tmp_path / "d", ArtifactAmount(files=9, bytes=100))
    _offer(draft, "new\nline", b"1")
    _offer(draft, "naïve ☂", b"1")
    assert _names(tmp_path / "d") == ["naïve ☂", "new\nline"]
    assert format_path((b"new\nline",)) == "'new\\nline'"
    assert format_path((b"bad\xff",)) == "bad\\xff"
    assert len(format_path((b"x" * 255,) * 20)) <= 100


def test_what_is_told() -> None:
    assert describe_result(CollectionResult(), MAX_COUNT) == ""
    tally = CollectionResult(more=True, skipped_names=["x"])
    tally.skipped[SkipReason.LINK] = 2
    assert describe_result(tally, MAX_COUNT) == (
        "No artifacts were saved; skipped: 2 (symbolic links are not followed), for example x; more files were "
        "not checked; a job can save at most 1000 files and 1 MiB; an admin can raise files.artifact_files and "
        "files.artifact_bytes."
    )

"""Failed tasks of OpenPAI jobs: the log is asked for the cause, and the cause decides the retry."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.controller.cause_finder import TAIL_SIZE, read_tail
from holdfast.core.attempt import JobSnapshot, Observation, ObservedState
from holdfast.core.exits.exit import Cause
from holdfast.core.exits.table import find_spec
from holdfast.core.job import Job, JobFormat
from holdfast.core.states import JobState
from holdfast.engines.base import LogSource, LogStream
from holdfast.store.jobs import records as job_rows
from tests.fake_engine import FakeMachine

from .test_loop import Place, a_job, cancel_workers, run, running

OOM = "RuntimeError: CUDA out of memory."


def pai_job(script: str, **fields: object) -> Job:
    return a_job(script, dialect=JobFormat.OPENPAI_V2, **fields)


def code_of(end: JobSnapshot) -> int:
    assert end.exit is not None
    return find_spec(end.exit).code


class CountedLogs:
    """The engine's logs, with a note of whose were requested."""

    def __init__(self, place: Place) -> None:
        self.asked: list[str] = []
        self._log = place.engine.open_log
        place.engine.open_log = self.log  # type: ignore[method-assign]

    def log(self, attempt_id: str, stream: LogStream) -> LogSource | None:
        self.asked.append(attempt_id)
        return self._log(attempt_id, stream)


@pytest.mark.parametrize(
    ("script", "code", "own", "attempts"),
    [
        (f"echo {OOM} >&2; exit 1", 226, 1, 0),  # never retried, though the job allows it
        ("echo bash: trian: command not found; exit 127", 220, 127, 0),
        ("echo a failure like any other; exit 3", 255, 3, 1),
        (f"echo {OOM}; exit 0", 0, 0, 0),
    ],
)
def test_the_log_tells_the_cause_and_the_cause_decides(
    tmp_path: Path, script: str, code: int, own: int, attempts: int
) -> None:
    async def story() -> None:
        async with running(tmp_path) as place:
            id = await place.submit(pai_job(script, max_retries=1))
            end = await place.until(id, JobState.FAILED, JobState.SUCCEEDED)
            assert end.exit is not None
            assert (code_of(end), end.exit.code, end.attempt) == (code, own, attempts)
            saved = await place.store.read(job_rows.load_snapshot, id)
            assert code_of(saved) == code
            (task,) = saved.tasks
            assert task.exit is not None
            assert task.exit.cause == end.exit.cause

    run(story)


def test_hardware_that_fails_is_retried_without_being_counted(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as place:
            id = await place.submit(pai_job("sleep 100"))
            await place.until(id, JobState.RUNNING)
            place.engine.write_log(f"{id}.0.main-0.0", b"CUDA_ERROR_ECC_UNCORRECTABLE\n")
            place.engine.finish_task(f"{id}.0.main-0.0", 1)
            await place.until(id, JobState.PENDING)
            again = await place.until(id, JobState.RUNNING)
            assert (again.attempt, again.user_retries, again.platform_retries) == (1, 0, 1)
            (first,) = await place.store.read(job_rows.list_past_attempts, id)
            assert (first.number, first.counted, find_spec(first.outcome.exit).code) == (0, False, 223)

    run(story)


def test_only_the_end_of_a_log_is_asked(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as place:
            id = await place.submit(pai_job("sleep 100"))
            await place.until(id, JobState.RUNNING)
            place.engine.write_log(f"{id}.0.main-0.0", f"{OOM} A smaller batch will do.\n".encode())
            place.engine.write_log(f"{id}.0.main-0.0", b"x" * 999 + b"\n" + b"y" * TAIL_SIZE)
            place.engine.finish_task(f"{id}.0.main-0.0", 1)
            assert code_of(await place.until(id, JobState.FAILED)) == 255

    run(story)


class Trickle:
    """A log of which little is read at a time and the beginning is gone."""

    async def get_size(self) -> int:
        return 10

    async def find_first_offset(self) -> int:
        return 4

    async def read(self, start: int, count: int) -> bytes:
        return b"0123456789"[start : start + min(count, 2)]


@pytest.mark.parametrize(("most", "expected"), [(3, b"789"), (100, b"456789"), (0, b"")])
def test_a_tail_is_read_whole(most: int, expected: bytes) -> None:
    assert asyncio.run(read_tail(Trickle(), most)) == expected  # type: ignore[arg-type]


def test_other_jobs_signals_and_stops_cost_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as place:
            logs = CountedLogs(place)
            for job in (a_job(f"echo {OOM}; exit 1"), pai_job("exit 0"), pai_job("kill -11 $$")):
                await place.until(await place.submit(job), JobState.FAILED, JobState.SUCCEEDED)
            stopped = await place.submit(pai_job("trap '' TERM; sleep 100"))
            await place.until(stopped, JobState.RUNNING)
            await place.controller.stop_job(stopped, "ann")
            place.engine.finish_task(f"{stopped}.0.main-0.0", 1)
            await place.until(stopped, JobState.CANCELLED)
            full = await place.submit(pai_job("sleep 100"))
            await place.until(full, JobState.RUNNING)
            place.engine.finish_task(f"{full}.0.main-0.0", 1, oom=True)
            assert code_of(await place.until(full, JobState.FAILED)) == -1200
            assert logs.asked == []

    run(story)


def test_an_end_told_twice_is_looked_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as place:
            logs = CountedLogs(place)
            id = await place.submit(pai_job("sleep 100"))
            await place.until(id, JobState.RUNNING)
            place.engine.finish_task(f"{id}.0.main-0.0", 1)
            place.controller.attempts.handle_observation(place.engine.machine.tasks[f"{id}.0.main-0.0"].seen)
            await place.until(id, JobState.FAILED)
            assert logs.asked == [f"{id}.0.main-0.0"]

    run(story)


def test_server_dies_between_exit_and_diagnosis(tmp_path: Path) -> None:
    async def story() -> None:
        machine = FakeMachine()
        async with running(tmp_path, machine) as place:
            id = await place.submit(pai_job("sleep 100", max_retries=5))
            await place.until(id, JobState.RUNNING)
            place.engine.write_log(f"{id}.0.main-0.0", OOM.encode())
            hang(place)
            place.engine.finish_task(f"{id}.0.main-0.0", 1)
            await asyncio.sleep(0)
            assert place.controller.attempts._workers
            cancel_workers(place)
        async with running(tmp_path, machine) as place:
            end = await place.until(id, JobState.FAILED)
            assert (code_of(end), end.attempt) == (226, 0)
            assert machine.tasks[f"{id}.0.main-0.0"].starts == 1

    run(story)


def hang(place: Place) -> None:
    """From here on no log of this server's can be read."""

    async def never(_: Observation) -> str:
        await asyncio.Event().wait()
        raise AssertionError

    place.controller._reports._cause_finder._find_cause = never  # type: ignore[method-assign]


@pytest.mark.parametrize("trouble", ["broken", "slow", "gone"])
def test_a_log_that_cannot_be_read_does_not_keep_a_job_from_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    async def story() -> None:
        async with running(tmp_path) as place:
            if trouble == "slow":
                monkeypatch.setattr("holdfast.controller.cause_finder.DIAGNOSIS_TIMEOUT", 0.01)
                hang(place)
            elif trouble == "gone":
                place.engine.open_log = lambda *_: None  # type: ignore[method-assign]
            else:

                def broken(*_: object) -> LogSource:
                    raise OSError("Input/output error")

                place.engine.open_log = broken  # type: ignore[method-assign]
            end = await place.until(await place.submit(pai_job(f"echo {OOM}; exit 4")), JobState.FAILED)
            assert end.exit is not None
            assert (code_of(end), end.exit.code, end.exit.cause) == (255, 4, "")

    run(story)


def test_a_stop_while_the_log_is_being_read_is_honoured(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as place:
            goes_on = asyncio.Event()
            find = place.controller._reports._cause_finder._find_cause

            async def slow(observation: Observation) -> str:
                await goes_on.wait()
                return await find(observation)

            place.controller._reports._cause_finder._find_cause = slow  # type: ignore[method-assign]
            id = await place.submit(pai_job(f"echo {OOM}; exit 1", max_retries=5))
            await place.until(id, JobState.RUNNING)
            assert await place.controller.stop_job(id, "ann")
            goes_on.set()
            end = await place.until(id, JobState.CANCELLED)
            assert code_of(end) == -210

    run(story)


def test_a_user_who_kills_every_try_can_still_stop_the_job(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as place:
            id = await place.submit(pai_job("kill -9 $$"))
            async with asyncio.timeout(20):
                while (now := place.controller.get_active_job(id)) is None or now.platform_retries < 2:
                    await place.controller.wait_for_change(id, 20)
            assert (now.state, now.user_retries) == (JobState.PENDING, 0)
            assert await place.controller.stop_job(id, "ann")
            await place.until(id, JobState.CANCELLED)

    run(story)


@pytest.mark.parametrize(
    ("seen", "code"),
    [
        (Observation(attempt_id="", seen=ObservedState.REFUSED, message="no", cause=Cause.IMAGE_MISSING), 254),
        (Observation(attempt_id="", seen=ObservedState.REFUSED, message="no"), -200),
    ],
)
def test_what_the_engine_refuses_has_its_cause(tmp_path: Path, seen: Observation, code: int) -> None:
    async def story() -> None:
        async with running(tmp_path) as place:
            place.engine.refuse = lambda launch: replace(seen, attempt_id=launch.attempt_id)
            assert code_of(await place.until(await place.submit(pai_job("exit 0")), JobState.FAILED)) == code

    run(story)


def test_what_no_machine_has_is_too_large(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as place:
            end = await place.until(await place.submit(pai_job("exit 0", cpu=48)), JobState.FAILED)
            assert code_of(end) == -1100

    run(story)

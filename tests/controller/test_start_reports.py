"""A job whose tasks wait in the queue of an engine writes few events, whatever changes there."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.job import Job, Resources, Role
from holdfast.core.planning.start_progress import QUICK_REPORTS, REPORT_INTERVAL
from holdfast.core.states import JobState
from tests.controller.test_loop import run, running
from tests.controller.test_queue_nodes import SmallCluster

TASKS = 50
CHANGES = 10


class WideCluster(SmallCluster):
    machines = ()
    queue_limit = TASKS


def test_changed_reasons_of_many_tasks_write_few_events(tmp_path: Path) -> None:
    async def story() -> None:
        role = Role(name="main", commands=("exit 0",), instances=TASKS, resources=Resources(cpu=1.0))
        now = [datetime(2026, 8, 1, 12, tzinfo=UTC)]
        async with running(tmp_path, engine=WideCluster, clock=lambda: now[0]) as place:
            id = await place.submit(Job(name="wide", roles=(role,), gang=False))
            snapshot = await place.until(id, JobState.PREPARING)
            ids = [snapshot.build_attempt_id(task) for task in snapshot.tasks]
            while not all(attempt_id in place.engine.machine.tasks for attempt_id in ids):
                await asyncio.sleep(0.001)
            for change in range(CHANGES):
                for number, attempt_id in enumerate(ids):
                    text = f"Reason {change}" if number else "Next"
                    seen = Observation(attempt_id=attempt_id, seen=ObservedState.QUEUED, message=text)
                    place.controller.attempts.handle_observation(seen)
                await asyncio.sleep(0.01)
            kinds = await place.kinds(id)
            assert 1 <= kinds.count("starting") <= QUICK_REPORTS
            now[0] += REPORT_INTERVAL
            place.controller._mark_jobs(id)
            while (message := place.controller.get_active_job(id).message) != f"Reason {CHANGES - 1} (49 of 50 tasks)":
                await asyncio.sleep(0.001)
            assert (await place.kinds(id)).count("starting") <= QUICK_REPORTS + 1, message

    run(story)

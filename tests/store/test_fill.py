"""The benchmark's filler makes a store like any other."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from bench.fill_store import fill_store

from holdfast.core.records import JobFilter
from holdfast.core.states import JobState
from holdfast.store.jobs import events
from holdfast.store.jobs import records as jobs

from .open_store import VAULT, Opened


def test_a_filled_store_is_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    fill_store(path, 200, template_count=20, vault=VAULT)
    opened = Opened(f"sqlite:///{path}")
    every = opened.pages(JobFilter(), 150)
    assert [job.seq for job in every] == list(range(200, 0, -1))
    assert len({job.id for job in every}) == 200
    assert all(job.state.final for job in every)
    last = every[0]
    assert opened.names(JobFilter(text=last.id[-6:], user=last.user)) == [last.name]
    day = timedelta(days=1)
    recent = JobFilter(submitted_after=last.submitted_at - day, states=tuple(JobState))
    assert opened.pages(recent, 5) == [job for job in every if job.submitted_at >= last.submitted_at - day]
    assert [event.kind for event in opened.read(events.list_events, last.id)][:3] == [
        "submitted",
        "preparing",
        "running",
    ]
    (task,) = opened.read(jobs.list_job_tries, last.id)
    assert task.task.finished_at == last.finished_at
    assert len(opened.read(jobs.list_expired_logs, last.submitted_at, 5)) == 5
    assert opened.read(jobs.load_snapshot, last.id).job.name == last.name
    opened.submit("one more")
    assert opened.names(JobFilter(), 10)[:1] == ["one more"]
    opened.close()

"""A server and its engine's daemons are killed again and again: no job is lost or runs twice, no log has a gap."""

from __future__ import annotations

from pathlib import Path

import pytest

from .kill_run import ENGINES, KillRun

LONG_RUN = 900  # seconds


@pytest.mark.release
@pytest.mark.timeout(LONG_RUN)
@pytest.mark.parametrize("engine", ENGINES)
def test_jobs_survive_kills_of_the_server_and_of_the_daemon(tmp_path: Path, engine: str) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    with ENGINES[engine](tmp_path / "home") as (server, daemon):
        report = KillRun(server, daemon, marks, jobs=20, kills=10, seed=7).run()
    assert report.problems == []
    assert report.left == 0
    assert report.jobs.total() == 20

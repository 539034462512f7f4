"""A server and its Docker daemon are killed again and again: no job is lost or runs twice, no log has a gap."""

from __future__ import annotations

from pathlib import Path

import pytest

from .kill_run import KillRun, start_docker_server

LONG_RUN = 900  # seconds


@pytest.mark.release
@pytest.mark.timeout(LONG_RUN)
def test_jobs_survive_kills_of_the_server_and_of_the_daemon(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    with start_docker_server(tmp_path / "home") as (server, daemon):
        report = KillRun(server, daemon, marks, jobs=20, kills=10, seed=7).run()
    assert report.problems == []
    assert report.containers_left == 0
    assert report.jobs.total() == 20

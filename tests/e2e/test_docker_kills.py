"""A server and its container daemon are killed again and again: no job is lost or runs twice, no log has a gap."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.container_daemons import ContainerDaemon, Dockerd, PodmanService

from .kill_run import KillRun, start_container_server

LONG_RUN = 900  # seconds


@pytest.mark.release
@pytest.mark.timeout(LONG_RUN)
@pytest.mark.parametrize("kind", [Dockerd, PodmanService], ids=["docker", "podman"])
def test_jobs_survive_kills_of_the_server_and_of_the_daemon(tmp_path: Path, kind: type[ContainerDaemon]) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    with start_container_server(tmp_path / "home", kind) as (server, daemon):
        report = KillRun(server, daemon, marks, jobs=20, kills=10, seed=7).run()
    assert report.problems == []
    assert report.containers_left == 0
    assert report.jobs.total() == 20

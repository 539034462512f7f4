"""Datasets as real tasks see them, through a real server and the embedded engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .server import Server

ROLE = {"dockerImage": "img", "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("datasets") / "home")
    running.start()
    try:
        if running.get("/capacity").json()["engine"]["isolation"] == "none":
            pytest.skip("tasks see mounts at other paths only in a sandbox")
        yield running
    finally:
        running.stop()


def add(server: Server, name: str, path: Path, **more: Any) -> None:
    path.mkdir(parents=True, exist_ok=True)
    with server.client() as client:
        answer = client.post(f"{server.url}/api/v1/datasets", json={"name": name, "path": str(path), **more})
        assert answer.status_code == 201, answer.text


def job(name: str, command: str, storages: list[dict[str, str]]) -> str:
    return json.dumps(
        {
            "protocolVersion": 2,
            "name": name,
            "type": "job",
            "prerequisites": [{"name": "img", "type": "dockerimage", "uri": "host"}],
            "taskRoles": {"worker": {**ROLE, "commands": [command]}},
            "extras": {"storages": storages},
        }
    )


def run(server: Server, text: str) -> list[str]:
    """What it printed; lines that the platform writes around an OpenPAI job's own begin with a bracket."""
    end = server.wait(server.submit(text)["id"])
    assert end["state"] == "Succeeded", server.get(f"/jobs/{end['id']}/log").text
    lines = server.get(f"/jobs/{end['id']}/log", stream="stdout").text.splitlines()
    return [line for line in lines if not line.startswith("[")]


def test_read_only_is_read_only(server: Server, tmp_path: Path) -> None:
    add(server, "library", tmp_path / "library")
    (tmp_path / "library/book").write_text("words\n")
    command = "cat /mnt/library/book; touch /mnt/library/new || echo refused; rm -f /mnt/library/book || echo kept"
    assert run(server, job("reads", command, [{"name": "library"}])) == ["words", "refused", "kept"]
    assert [path.name for path in (tmp_path / "library").iterdir()] == ["book"]


def test_writing_where_that_is_granted(server: Server, tmp_path: Path) -> None:
    add(server, "desk", tmp_path / "desk", read_only=False)
    run(server, job("writes", "echo done > /desk/deep/note", [{"name": "desk", "mountPath": "/desk/deep"}]))
    assert (tmp_path / "desk/note").read_text() == "done\n"


def test_a_user_sees_only_their_own_folder(server: Server, tmp_path: Path) -> None:
    add(server, "drawers", tmp_path / "drawers", read_only=False, per_user=True)
    (tmp_path / "drawers/other").mkdir()
    (tmp_path / "drawers/other/secret").write_text("not yours\n")
    command = "ls -a /mnt/drawers; echo mine > /mnt/drawers/note"
    assert run(server, job("own", command, [{"name": "drawers"}])) == [".", ".."]
    assert (tmp_path / "drawers/admin/note").read_text() == "mine\n"
    assert (tmp_path / "drawers/admin").stat().st_mode & 0o777 == 0o700


def test_our_own_file_and_the_links_in_it(server: Server, tmp_path: Path) -> None:
    """A link inside a dataset leads nowhere but inside the task."""
    add(server, "maze", tmp_path / "maze")
    (tmp_path / "hidden").write_text("outside\n")
    (tmp_path / "maze/way-out").symlink_to(tmp_path / "hidden")
    text = "name: own\nresources: {cpu: 0.1, memory: 64Mi}\ndatasets: [maze]\n"
    assert run(server, f"{text}command: cat /datasets/maze/way-out || echo no\n") == ["no"]


def test_a_folder_replaced_after_submission_is_not_followed(server: Server, tmp_path: Path) -> None:
    """The dataset's folder becomes a link to somewhere else while the job waits for its turn."""
    add(server, "swapped", tmp_path / "swapped")
    (tmp_path / "private").mkdir()
    (tmp_path / "private/secret").write_text("private\n")
    everything = server.get("/capacity").json()["nodes"][0]["cpu"]
    first = server.submit(f"name: first\nresources: {{cpu: {everything}, memory: 64Mi}}\ncommand: sleep 600\n")
    waiting = server.submit(job("second", "cat /mnt/swapped/secret", [{"name": "swapped"}]))
    (tmp_path / "swapped").rmdir()
    (tmp_path / "swapped").symlink_to(tmp_path / "private")
    with server.client() as client:
        client.post(f"{server.url}/api/v1/jobs/{first['id']}/stop")
    end = server.wait(waiting["id"])
    assert end["state"] == "Failed"
    assert "link" in end["message"]

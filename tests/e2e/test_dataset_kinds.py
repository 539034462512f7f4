"""Volumes, checkouts and a server that is killed in the middle of one, through a real server and real tasks."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.services.repositories import Repository

from .server import TIMEOUT, Server

SMALL = "resources: {cpu: 0.1, memory: 64Mi}\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("kinds") / "home")
    running.start()
    try:
        if running.get("/capacity").json()["engine"]["isolation"] == "none":
            pytest.skip("tasks see mounts at other paths only in a sandbox")
        yield running
    finally:
        running.stop()


def add(server: Server, **body: Any) -> None:
    with server.client() as client:
        answer = client.post("/datasets", json={"everyone": True, **body})
        assert answer.status_code == 201, answer.text


def sync(server: Server, name: str) -> dict[str, Any]:
    with server.client() as client:
        answer = client.post(f"/datasets/{name}/sync")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())


def run(server: Server, command: str, dataset: str) -> list[str]:
    end = server.wait(server.submit(f"name: x\n{SMALL}datasets: [{dataset}]\ncommand: {command}\n")["id"])
    assert end["state"] == "Succeeded", server.get(f"/jobs/{end['id']}/log").text
    return server.get(f"/jobs/{end['id']}/log", stream="stdout").text.splitlines()


def test_a_volume_keeps_what_jobs_write(server: Server) -> None:
    add(server, name="vol", kind="volume", read_only=False)
    assert run(server, "echo kept > /datasets/vol/note", "vol") == []
    assert run(server, "cat /datasets/vol/note", "vol") == ["kept"]
    assert (server.home / "shared/volumes/vol/note").read_text() == "kept\n"


def test_a_checkout_is_read_and_not_written(server: Server, tmp_path: Path) -> None:
    """The job waits for the first clone, which has only begun when it comes."""
    repository = Repository(tmp_path / "code")
    (repository.folder / "shadow").symlink_to("/etc/shadow")
    repository.commit(readme="words\n")
    add(server, name="code", kind="git", data={"url": repository.url})
    command = "cat /datasets/code/readme; touch /datasets/code/new || echo refused; ls -A /datasets/code"
    assert run(server, command, "code") == ["words", "refused", "readme", "shadow"]


def test_a_running_task_keeps_its_commit(server: Server, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "moving")
    repository.commit(readme="one\n")
    add(server, name="moving", kind="git", data={"url": repository.url})
    add(server, name="signs", kind="volume", read_only=False)
    wait = "touch /datasets/signs/began; while [ ! -e /datasets/signs/go ]; do sleep 0.05; done"
    command = f"cat /datasets/moving/readme; {wait}; cat /datasets/moving/readme"
    job = server.submit(f"name: x\n{SMALL}datasets: [moving, signs]\ncommand: '{command}'\n")
    signs = server.home / "shared/volumes/signs"
    with server.client() as client:
        while not (signs / "began").exists():  # each look takes the server a moment, so this is no busy loop
            assert client.get(f"/jobs/{job['id']}").json()["state"] in ("Pending", "Preparing", "Running")
    newest = repository.commit(readme="two\n")
    assert sync(server, "moving")["commit"] == newest
    (signs / "go").touch()
    end = server.wait(job["id"])
    assert end["state"] == "Succeeded"
    assert server.get(f"/jobs/{job['id']}/log", stream="stdout").text.splitlines() == ["one", "one"]
    assert run(server, "cat /datasets/moving/readme", "moving") == ["two"]


@pytest.mark.release
def test_a_server_that_is_killed_in_the_middle_of_a_clone(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "code")
    repository.commit(readme="words\n")
    server = Server(tmp_path / "home")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(TIMEOUT)
        server.start()
        try:
            add(server, name="code", kind="git", data={"url": f"http://127.0.0.1:{silent.getsockname()[1]}/code"})
            called, _ = silent.accept()  # git is there, and waits for an answer
            work = server.home / "shared/git/code/.work-of-before/tree"
            work.mkdir(parents=True)
            (work / "readme").write_text("half")
            server.kill()
            called.close()
            server.start()
            with server.client() as client:
                answer = client.patch("/datasets/code", json={"data": {"url": repository.url}})
                assert answer.status_code == 200, answer.text
            assert sync(server, "code")["error"] == ""
            assert (server.home / "shared/git/code/code/readme").read_text() == "words\n"
            assert not work.exists()
        finally:
            with suppress(AssertionError):
                server.stop()

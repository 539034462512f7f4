"""Jobs in PrimeHub's format through a real server and the embedded engine: what they find, and what others do not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .server import Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("primehub") / "home", HOLDFAST_SCHEDULES_TIMEZONE="Asia/Taipei")
    running.start()
    try:
        if running.get("/capacity").json()["engine"]["isolation"] == "none":
            pytest.skip("tasks see folders at these paths only in a sandbox")
        for name, more in {
            "Team_A": {"shared_volume": True},
            "lab": {"shared_volume": True, "launch_only": False},
            "far": {"shared_volume": True},
        }.items():
            ask(running, "post", "/groups", {"name": name, **more})
            ask(running, "put", f"/groups/{name}/members/admin", {"admin": False})
        yield running
    finally:
        running.stop()


def ask(server: Server, method: str, path: str, body: Any) -> None:
    with server.client() as client:
        reply = client.request(method, path, json=body)
    assert reply.is_success, (path, reply.text)


def form(command: str, **more: Any) -> str:
    job = {"displayName": "ein Job & mehr", "instanceType": "cpu-1", "image": "host", "groupName": "Team_A"}
    return json.dumps({**job, "command": command, **more})


def run(server: Server, text: str) -> list[str]:
    end = server.wait(server.submit(text)["id"])
    assert end["state"] == "Succeeded", server.get(f"/jobs/{end['id']}/log").text
    return server.get(f"/jobs/{end['id']}/log", stream="stdout").text.splitlines()


def test_everything_around_a_job(server: Server, tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist/seen").write_text("digits\n")
    ask(server, "post", "/datasets", {"name": "mnist", "path": str(tmp_path / "mnist"), "groups": ["Team_A"]})
    secret = {"name": "my-db", "kind": "env", "groups": ["Team_A"], "variables": {"password": "geheim"}}
    ask(server, "post", "/datasets", secret)
    command = """
    pwd; cat datasets/mnist/seen; touch /datasets/mnist/x 2>/dev/null || echo read-only
    echo "$TZ $GROUP_NAME $INSTANCE_TYPE $IMAGE_NAME $MY_DB_PASSWORD $PHJOB_ARTIFACT_LIMIT_SIZE_MB"
    ls -d /project/*/; echo mine > team-a/note; echo shared > /phfs/note; exit 0
    """
    assert run(server, form(command)) == [
        "/home/jovyan", "digits", "read-only", "Asia/Taipei Team_A cpu-1 host geheim 100",
        "/project/Team_A/", "/project/lab/", "/project/team-a/",
    ]  # fmt: skip
    shared = server.home / "shared/groups/Team_A"
    assert (shared / "volume/note").read_text() == "mine\n"
    assert (shared / "files/note").read_text() == "shared\n"


def test_the_next_job_finds_it_and_another_groups_does_not(server: Server) -> None:
    run(server, form("echo kept > team-a/kept"))
    assert run(server, form("cat ~/team-a/kept")) == ["kept"]
    elsewhere = f"ls /project; cat {server.home}/shared/groups/Team_A/volume/kept 2>/dev/null || echo nothing"
    assert run(server, form(elsewhere, groupName="far")) == ["far", "lab", "nothing"]
    own = "name: own\ngroup: Team_A\nresources: {cpu: 0.1, memory: 64Mi}\ncommand: cat /project/team-a/kept; ls /\n"
    found = run(server, own)
    assert found[0] == "kept"
    assert not {"phfs", "datasets"} & set(found)


def test_jobs_of_our_own_find_the_groups_files_when_they_ask(server: Server) -> None:
    """Every task of every role, read and write; a job of another group finds its own."""
    run(server, form("echo shared > /phfs/seen"))
    roles = (
        "{one: {command: cat /phfs/seen > /phfs/from-one}, two: {instances: 2, command: touch /phfs/$HOLDFAST_TASK}}"
    )
    head = "name: own\nresources: {cpu: 0.1, memory: 64Mi}\nfiles: true\n"
    run(server, f"{head}group: Team_A\nroles: {roles}\n")
    files = server.home / "shared/groups/Team_A/files"
    assert (files / "from-one").read_text() == "shared\n"
    assert {"two-0", "two-1"} <= {path.name for path in files.iterdir()}
    assert run(server, f"{head}group: far\ncommand: ls -A /phfs; echo $HOLDFAST_FILES\n") == ["/phfs"]


def test_a_clone_keeps_its_form_and_its_timeout(server: Server) -> None:
    first = server.submit(form("true", activeDeadlineSeconds=77))["id"]
    text = server.get(f"/jobs/{first}/yaml").text
    again = server.submit(text)["id"]
    for id in (first, again):
        job = server.get(f"/jobs/{id}").json()
        assert (job["dialect"], job["name"]) == ("primehub", "ein Job & mehr")
    assert "activeDeadlineSeconds: 77\n" in text
    assert server.get(f"/jobs/{again}/yaml").text == text


def test_a_rerun_keeps_its_timeout(server: Server) -> None:
    first = server.submit(form("true", activeDeadlineSeconds=78))["id"]
    server.wait(first)
    with server.client() as client:
        again = client.post(f"/jobs/{first}/rerun").json()["id"]
    assert "activeDeadlineSeconds: 78\n" in server.get(f"/jobs/{again}/yaml").text


@pytest.mark.release
def test_where_jobs_are_not_isolated(tmp_path: Path) -> None:
    """Nothing appears at another path there; what can be had is linked from the job's own folder."""
    plain = Server(tmp_path / "home", HOLDFAST_SANDBOX_ISOLATION="off")
    plain.start()
    try:
        ask(plain, "post", "/groups", {"name": "Team_A", "shared_volume": True})
        (tmp_path / "mnist").mkdir()
        (tmp_path / "mnist/seen").write_text("digits\n")
        ask(plain, "post", "/datasets", {"name": "mnist", "path": str(tmp_path / "mnist"), "everyone": True})
        command = 'cat datasets/mnist/seen; echo mine > team-a/note; cat "$PRIMEHUB_GROUP_VOLUME_PATH/note"; ls'
        assert run(plain, form(command)) == ["digits", "mine", "datasets", "phfs", "team-a"]
        assert (plain.home / "shared/groups/Team_A/volume/note").exists()
        own = "name: own\ngroup: Team_A\nresources: {cpu: 0.1, memory: 64Mi}\ncommand: echo runs\n"
        assert run(plain, own) == ["runs"]
        shared = own.replace("echo runs", 'echo mine > "$HOLDFAST_FILES/note"') + "files: true\n"
        assert run(plain, shared) == []
        assert (plain.home / "shared/groups/Team_A/files/note").read_text() == "mine\n"
    finally:
        plain.stop()

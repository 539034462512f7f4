"""What works in the sandbox works in containers, through a whole server."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.engines.base import Terminal
from holdfast.sdk.address import Address
from holdfast.sdk.inside import TaskSession, open_debugger, open_exec, open_port
from tests.container_daemons import IMAGE, ContainerDaemon, Dockerd, need_program, run_daemon
from tests.fake_gpus import run_with_fake_gpus

from .server import TIMEOUT, Server
from .test_ssh import Client, line_of

SMALL = {"image": IMAGE, "resources": {"cpu": 0.2, "memory": "64Mi"}}
FOLDERS = [path for path in ("/usr", "/lib", "/lib64") if Path(path).exists()]
PYTHON = {**SMALL, "mounts": [f"{os.path.realpath(path)}:{path}:ro" for path in FOLDERS]}  # the machine's own
ECHO = """
import os, socket
with socket.create_server(("127.0.0.1", int(os.environ["HOLDFAST_PORT_ECHO"]))) as server:
    print("up", flush=True)
    connection, _ = server.accept()
    while data := connection.recv(65536):
        connection.sendall(data)
"""
DEBUGGED = """
import paipdb
secret = 41
paipdb.set_trace()
print("the answer is", secret)
"""
HUNG = """
import time
def hangs():
    time.sleep(1000)
hangs()
"""


@pytest.fixture(scope="module")
def daemon() -> Iterator[ContainerDaemon]:
    with run_daemon(Dockerd) as daemon, daemon.join_network():
        yield daemon


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, daemon: ContainerDaemon) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("parity") / "home"
    running = Server(home, HOLDFAST_ENGINE_KIND="docker", HOLDFAST_ENGINE_SOCKET=daemon.socket)
    running.start()
    try:
        yield running
    finally:
        running.stop()


def submit(server: Server, base: dict[str, Any], command: str, **more: Any) -> str:
    return str(server.submit(json.dumps({"name": "parity", **base, "grace": "1s", "command": command, **more}))["id"])


def stop(server: Server, job: str) -> None:
    with server.client() as client:
        client.post(f"/jobs/{job}/stop").raise_for_status()
    server.wait(job)


def wait_until(look: Callable[[], Any]) -> Any:
    """Return what it finds, once that is something."""
    end = time.monotonic() + TIMEOUT
    while not (found := look()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)
    return found


def wait_for_log(server: Server, job: str, text: str) -> None:
    wait_until(lambda: text in server.get(f"/jobs/{job}/log").text)


def connect(server: Server) -> Address:
    return Address(server.url, server.token, "a test")


def read_until(session: TaskSession, text: bytes) -> bytes:
    seen = b""
    while text not in seen:
        message = session.receive()
        assert message is not None, seen
        if isinstance(message, bytes):
            seen += message
    return seen


@pytest.mark.skipif(not shutil.which("ssh"), reason="OpenSSH's client is missing")
def test_ssh(server: Server, tmp_path: Path) -> None:
    client = Client(tmp_path / "client", server)
    job = submit(server, SMALL, "sleep 600", env={"COLOUR": "green"})
    line = line_of(server, job)
    ran = client.ssh(line, 'echo "$COLOUR"; cat; exit 5', given=b"typed\n")
    assert (ran.returncode, ran.stdout) == (5, b"green\ntyped\n"), ran.stderr
    (tmp_path / "source").write_bytes(os.urandom(1_000_000))
    place = f"{line['user']}@{line['host']}:copied"
    sent = client.run("scp", "-P", str(line["port"]), str(tmp_path / "source"), place)
    assert sent.returncode == 0, sent.stderr
    assert client.ssh(line, "cat copied").stdout == (tmp_path / "source").read_bytes()
    stop(server, job)


def test_a_terminal_over_the_web(server: Server) -> None:
    job = submit(server, SMALL, "echo up; sleep 600")
    wait_for_log(server, job, "up")
    with open_exec(connect(server), job, terminal=Terminal(columns=90, rows=25)) as session:
        session.send(b"echo size=$(stty size)=; cat /etc/passwd\n")
        assert b"root:x:0:0" in read_until(session, b"/bin/sh")
        session.send(b"exit 3\n")
        assert [message for message in session if isinstance(message, dict)][-1] == {"exit": 3}
    stop(server, job)


def test_a_debugger(server: Server) -> None:
    job = submit(server, PYTHON, 'python3 -c "$PROGRAM"', env={"PROGRAM": DEBUGGED})
    with open_debugger(connect(server), job, wait=TIMEOUT) as session:
        read_until(session, b"(Pdb) ")
        session.send(b"p secret\n")
        assert b"41" in read_until(session, b"(Pdb) ")
        session.send(b"!secret = 42\n")
        read_until(session, b"(Pdb) ")
        session.send(b"c\n")
        assert server.wait(job)["state"] == "Succeeded"
    assert "the answer is 42" in server.get(f"/jobs/{job}/log").text


def test_stacks(server: Server) -> None:
    job = submit(server, PYTHON, 'exec python3 -c "$PROGRAM"', env={"PROGRAM": HUNG})

    def look() -> bool:
        reply = server.get(f"/jobs/{job}/tasks/main-0/stacks").json()
        frames = [
            frame["function"]
            for process in reply.get("processes", ())
            for thread in process["threads"]
            for frame in thread["frames"]
        ]
        return "hangs" in frames

    wait_until(look)
    stop(server, job)


def test_a_port(server: Server) -> None:
    job = submit(server, PYTHON, 'exec python3 -c "$PROGRAM"', env={"PROGRAM": ECHO}, ports={"echo": 1})
    wait_for_log(server, job, "up")
    with open_port(connect(server), job, None, "echo") as session:
        session.send(b"there and back")
        assert read_until(session, b"back") == b"there and back"
    assert server.wait(job)["state"] == "Succeeded"


def test_artifacts(server: Server) -> None:
    job = submit(server, SMALL, "mkdir ~/artifacts; echo weights >~/artifacts/model; exit 3")
    assert server.wait(job)["state"] == "Failed"
    assert server.get(f"/jobs/{job}/artifacts/model").text == "weights\n"


def test_metrics(server: Server) -> None:
    job = submit(server, SMALL, "while :; do :; done")
    points = wait_until(lambda: server.get(f"/jobs/{job}/metrics", ring="15m").json().get("points"))
    assert points[-1]["cpu"] > 0
    assert points[-1]["memory"] > 0
    stop(server, job)


def test_a_job_that_ran_out_of_memory_says_so(server: Server) -> None:
    job = submit(server, SMALL, "tail /dev/zero")  # keeps the last line in memory
    end = server.wait(job)
    assert (end["state"], end["exit_code"]) == ("Failed", 137)
    assert "memory" in server.get(f"/jobs/{job}/why").text.lower()
    assert server.get(f"/jobs/{job}").json()["retries"]["platform"] == 0


def test_a_held_task_is_entered_and_released(server: Server) -> None:
    job = submit(server, SMALL, "echo evidence >note; exit 7", hold=True)
    found = server.get(f"/jobs/{job}/wait", timeout=50, held=True).json()
    assert found["state"] == "Held", found
    with open_exec(connect(server), job, argv=["cat", "note"]) as session:
        messages = list(session)
    assert messages == [b"\x01evidence\n", {"exit": 0}]
    with server.client() as client:
        assert client.delete(f"/jobs/{job}/hold").status_code == 202
    end = server.wait(job)
    assert (end["state"], end["exit_code"]) == ("Failed", 7)


def test_a_dataset(server: Server, tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "book").write_text("words\n")
    with server.client() as client:
        client.post("/datasets", json={"name": "library", "path": str(tmp_path / "library")}).raise_for_status()
    command = "cat /datasets/library/book; touch /datasets/library/new || echo refused"
    job = submit(server, SMALL, command, datasets=["library"])
    assert server.wait(job)["state"] == "Succeeded"
    assert server.get(f"/jobs/{job}/log", stream="stdout").text == "words\nrefused\n"


def test_shared_files_volumes_and_managed_datasets(server: Server) -> None:
    """They are in the server's state folder, which no other mount can show."""
    with server.client() as client:
        client.post("/groups", json={"name": "team", "shared_volume": True}).raise_for_status()
        client.put("/groups/team/members/admin", json={"admin": False}).raise_for_status()
        client.post("/datasets", json={"name": "managed", "kind": "volume", "read_only": False}).raise_for_status()
    script = "for place in /phfs /project/team /datasets/managed; do echo kept >$place/note; done"
    job = submit(server, SMALL, script, group="team", files=True, datasets=["managed"])
    end = server.wait(job)
    assert end["state"] == "Succeeded", end["message"]
    shared = server.home / "shared"
    for folder in ("groups/team/files", "groups/team/volume", "volumes/managed"):
        assert (shared / folder / "note").read_text() == "kept\n"


def test_a_job_sees_its_own_gpu(server: Server) -> None:
    if not server.get("/capacity").json()["nodes"][0]["gpus"]:
        pytest.skip("there is no GPU here; the next test makes up two")
    jobs = [
        submit(server, SMALL, "ls /dev/nvidia[0-9]; sleep 600", resources={"cpu": 0.2, "memory": "64Mi", "gpu": 1})
        for _ in range(2)
    ]
    for job in jobs:
        wait_for_log(server, job, "nvidia")
    seen = [server.get(f"/jobs/{job}/log").text for job in jobs]
    assert sorted(seen) == ["/dev/nvidia0\n", "/dev/nvidia1\n"]
    none = submit(server, SMALL, "ls /dev | grep -c nvidia")
    server.wait(none)
    assert server.get(f"/jobs/{none}/log", stream="stdout").text == "0\n"
    for job in jobs:
        stop(server, job)


@pytest.mark.release
def test_a_job_sees_its_own_gpu_of_two(tmp_path: Path) -> None:
    need_program("dockerd")
    run_with_fake_gpus(tmp_path, "tests/e2e/test_docker_parity.py::test_a_job_sees_its_own_gpu")


# --- the daemon and its containers are changed from outside -----------------------------------------------------------


def submit_second_run(server: Server, folder: Path) -> str:
    """Submit a job whose first attempt waits, and whose second succeeds. Return once it waits."""
    command = f"[ -e {folder}/ran ] && exit 0; touch {folder}/ran; echo up; sleep 600"
    job = submit(server, SMALL, command, mounts=[f"{folder}:{folder}:rw"])
    wait_for_log(server, job, "up")
    return job


def test_jobs_survive_a_killed_daemon(server: Server, daemon: ContainerDaemon) -> None:
    job = submit(server, SMALL, "echo up; i=0; while [ $i -lt 30 ]; do i=$((i+1)); echo $i; sleep 0.1; done; exit 4")
    wait_for_log(server, job, "up")
    daemon.kill()
    waiting = submit(server, SMALL, "echo later")  # accepted meanwhile
    daemon.start()
    end = server.wait(job)
    assert (end["state"], end["exit_code"]) == ("Failed", 4)
    assert server.get(f"/jobs/{job}/log").text == "up\n" + "".join(f"{n}\n" for n in range(1, 31))
    assert server.wait(waiting)["state"] == "Succeeded"
    for each in (job, waiting):
        assert server.get(f"/jobs/{each}").json()["retries"]["platform"] == 0


def test_a_container_removed_by_hand_is_a_platform_failure(
    server: Server, daemon: ContainerDaemon, tmp_path: Path
) -> None:
    job = submit_second_run(server, tmp_path)
    with daemon.client() as client:
        filters = json.dumps({"label": [f"holdfast.job={job}"]})
        (found,) = client.get("/containers/json", params={"filters": filters}).json()
        client.delete(f"/containers/{found['Id']}", params={"force": "1"}).raise_for_status()
    check_retried(server, job)


@pytest.mark.release
def test_a_restart_without_live_restore_is_a_platform_failure(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    with run_daemon(Dockerd) as daemon:
        assert isinstance(daemon, Dockerd)
        daemon.live_restore = False
        daemon.stop()
        daemon.start()
        server = Server(tmp_path / "home", HOLDFAST_ENGINE_KIND="docker", HOLDFAST_ENGINE_SOCKET=daemon.socket)
        server.start()
        try:
            job = submit_second_run(server, tmp_path / "shared")
            daemon.kill()
            daemon.start()
            check_retried(server, job)
        finally:
            server.stop()


def check_retried(server: Server, job: str) -> None:
    end = server.wait(job)
    assert end["state"] == "Succeeded", end
    assert server.get(f"/jobs/{job}").json()["retries"]["platform"] == 1

"""up and down, with real servers."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.free_ports import reserve_port

from .cli_runner import TIMEOUT, clean_env, run_on_terminal, run_program, start


@pytest.fixture
def env(tmp_path: Path) -> Iterator[dict[str, str]]:
    env = clean_env(tmp_path, HOLDFAST_SERVER_PORT="0")
    yield env
    if (tmp_path / "state" / "server.json").exists():
        run_program("down", env=env)


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    file = tmp_path / "first.yaml"
    file.write_text("name: first\ncommand: echo it works\n")
    return file


def test_detached_with_a_first_job(env: dict[str, str], job_file: Path) -> None:
    first = run_program("up", "--detach", "--first-job", str(job_file), env=env)
    assert first.code == 0, first.err
    assert "it works\n" in first.text
    assert "password" in first.text
    assert "succeeded" in first.err
    log = (Path(env["HOLDFAST_HOME"]) / "server.log").read_text()
    password = first.text.split("password ")[1].split()[0]
    assert password not in log
    assert "Login link: run `holdfast portal`" in first.text

    again = run_program("up", "--first-job", str(job_file), env=env)
    assert again.code == 0, again.err
    assert "is already running at http://127.0.0.1:" in again.text
    assert "it works\n" in again.text
    assert password not in again.text

    job_file.write_text("name: fails\ncommand: exit 9\n")
    assert run_program("up", "--first-job", str(job_file), env=env).code == 9


def test_an_engine_that_cannot_run_the_first_job_skips_it(env: dict[str, str], tmp_path: Path) -> None:
    job = tmp_path / "hello.yaml"
    job.write_text("name: hello\ncommand: echo hello\n")
    docker = {**env, "HOLDFAST_ENGINE_KIND": "docker", "HOLDFAST_ENGINE_SOCKET": str(tmp_path / "none.sock")}
    first = run_program("up", "--detach", "--first-job", str(job), env=docker)
    assert first.code == 0, first
    assert "First job skipped: The engine docker has no image `host`. Run one with an image" in first.err
    assert b"Portal: " in first.out
    assert b'"first_job": null' in run_program("up", "--first-job", str(job), "--json", env=docker).out


@pytest.mark.release
def test_what_to_do_next_comes_after_the_first_job(env: dict[str, str], job_file: Path) -> None:
    seen = run_on_terminal("up", "--detach", "--first-job", str(job_file), env=env).out
    assert seen.count(b"next: ") == 1
    assert seen.index(b"it works") < seen.index(b"next: ")


def test_down_stops_it_and_tells_what_goes_on(env: dict[str, str]) -> None:
    run_program("up", "--detach", env=env)
    job = run_program("submit", "--", "echo ready; sleep 600", env=env).text.strip()
    with start("logs", "-f", job, env=env, stdout=subprocess.PIPE) as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == b"ready\n"
        follower.kill()
    down = run_program("down", env=env)
    assert down.code == 0, down.err
    assert "1 job keeps running" in down.text
    assert run_program("down", env=env).code == 1
    assert "Cannot connect" in run_program("ls", env=env).err
    back = run_program("up", "--detach", "--json", env=env)
    assert back.json["server"]["first_password"] is None
    assert run_program("show", "--json", job, env=env).json["state"] == "Running"
    assert run_program("stop", "--wait", job, env=env).code == 0


def test_in_the_foreground_until_ctrl_c(env: dict[str, str], job_file: Path) -> None:
    process = start("up", "--first-job", str(job_file), env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    seen = []
    while not seen or seen[-1] != b"it works\n":
        line = process.stdout.readline()
        assert line, process.stderr.read().decode() if process.stderr else ""
        seen.append(line)
    assert seen[0].startswith(b"Holdfast is running at http://127.0.0.1:")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, err.decode()
    assert b"Server stopped." in err
    assert b"Traceback" not in err


def test_a_taken_port_is_explained_and_nothing_is_left_running(env: dict[str, str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for how in ((), ("--detach",)):
            result = run_program("up", "--port", port, *how, env=env)
            assert result.code == 1
            assert f"Cannot listen on 127.0.0.1:{port}" in result.err
            assert "--port" in result.err
    assert not (Path(env["HOLDFAST_HOME"]) / "server.json").exists()


def test_a_used_ssh_port_is_reported_at_the_start(env: dict[str, str]) -> None:
    program = "import socket, sys\nlistener = socket.create_server(('127.0.0.1', 0))\n"
    program += "print(listener.getsockname()[1], flush=True)\nsys.stdin.read()"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-I", "-c", program], stdin=pipe, stdout=pipe) as owner:
        assert owner.stdout is not None
        port = owner.stdout.readline().decode().strip()
        started = run_program("up", "--detach", env={**env, "HOLDFAST_SSH_PORT": port})
        assert started.code == 0, started.err
        assert f"The SSH gateway cannot listen on 127.0.0.1:{port}" in started.text
        assert "HOLDFAST_SSH_PORT" in started.text
        assert f"process {owner.pid} (" in started.text
        assert "import socket" not in started.text
        refused = run_program("ssh", "somejob", env=env)
        assert f"cannot listen on 127.0.0.1:{port}" in refused.err
        assert "holdfast exec" in refused.err
        owner.kill()


def test_a_start_on_another_port_than_the_last_one_is_reported(env: dict[str, str]) -> None:
    home = Path(env["HOLDFAST_HOME"])
    run_program("up", "--detach", env=env)
    last = json.loads((home / "client.json").read_text())["url"].rpartition(":")[2]
    run_program("down", env=env)
    assert f"`holdfast up --port {last}`" in " ".join(run_program("ls", env=env).err.split())
    port = str(reserve_port())
    elsewhere = run_program("up", "--detach", env={**env, "HOLDFAST_SERVER_PORT": port})
    assert f"holdfast up --port {last}" in elsewhere.err
    run_program("down", env=env)
    assert "warning" not in run_program("up", "--detach", env={**env, "HOLDFAST_SERVER_PORT": port}).err


def test_a_missing_first_job_starts_nothing(env: dict[str, str], tmp_path: Path) -> None:
    result = run_program("up", "--detach", "--first-job", str(tmp_path / "none.yaml"), env=env)
    assert result.code == 1
    assert "none.yaml" in result.err
    assert not Path(env["HOLDFAST_HOME"]).exists()


@pytest.mark.release
def test_a_server_that_is_being_killed_is_not_taken_for_one_that_runs(env: dict[str, str]) -> None:
    """It keeps its lock until it is gone."""
    run_program("up", "--detach", env=env)
    home = Path(env["HOLDFAST_HOME"])
    before = json.loads((home / "server.json").read_text())["pid"]
    os.kill(before, signal.SIGKILL)
    with open(home / "server.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        release = threading.Timer(0.5, fcntl.flock, (lock, fcntl.LOCK_UN))
        release.start()
        started = run_program("up", "--detach", "--json", env=env)
        release.join()
    assert started.code == 0, started.err
    assert not started.json["server"]["already_running"]
    assert started.json["server"]["pid"] != before


@pytest.mark.release
def test_down_leaves_a_stranger_with_the_same_number_alone(env: dict[str, str]) -> None:
    """A server that was killed left its file behind, and its process number now belongs to somebody else."""
    run_program("up", "--detach", env=env)
    home = Path(env["HOLDFAST_HOME"])
    info = json.loads((home / "server.json").read_text())
    os.kill(info["pid"], signal.SIGKILL)
    psutil.wait_procs([psutil.Process(info["pid"])] if psutil.pid_exists(info["pid"]) else [], timeout=TIMEOUT)
    with subprocess.Popen(["sleep", "600"]) as stranger:
        (home / "server.json").write_text(json.dumps({**info, "pid": stranger.pid}))
        assert run_program("down", env=env).code == 1
        assert stranger.poll() is None
        stranger.kill()


@pytest.mark.release
def test_follow_goes_on_across_a_restart(env: dict[str, str], tmp_path: Path) -> None:
    """Killed in the middle of a log: whoever follows sees every byte once, and the job's own exit code."""
    run_program("up", "--detach", env=env)
    home = Path(env["HOLDFAST_HOME"])
    port = json.loads((home / "client.json").read_text())["url"].rsplit(":", 1)[1]
    gate = tmp_path / "shared" / "gate"
    gate.parent.mkdir()
    command = f"seq 1 2000; while [ ! -e {gate} ]; do sleep 0.05; done; seq 2001 4000; exit 6"
    follower = start("submit", "-f", "--mount", str(gate.parent), "--", command, env=env, stdout=subprocess.PIPE)
    assert follower.stdout is not None
    seen = [follower.stdout.readline() for _ in range(2000)]
    os.kill(json.loads((home / "server.json").read_text())["pid"], signal.SIGKILL)
    gate.touch()
    assert run_program("up", "--detach", "--port", port, env=env).code == 0
    seen += follower.stdout.readlines()
    assert seen == [b"%d\n" % number for number in range(1, 4001)]
    assert follower.wait(TIMEOUT) == 6

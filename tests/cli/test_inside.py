"""Getting inside tasks of a real server with the real command."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast.cli.inside.ssh import _build_ssh_options
from holdfast.core.errors import UserError
from holdfast.sdk import SshCommand, TemporaryKey
from tests.e2e.server import Server
from tests.preloaded import run_holdfast

from .cli_runner import TIMEOUT, Result, clean_env, run_on_terminal, run_program, start
from .terminals import AtTerminal, at_terminal

Env = dict[str, str]


NEVER = datetime.max.replace(tzinfo=UTC)
PROMPT = b"# " if os.getuid() == 0 else b"$ "


def submit(env: Env, name: str, command: str, *options: str) -> str:
    done = run_program("submit", "--name", name, *options, "--", command, env=env)
    assert done.code == 0, done.err
    return done.text.strip()


def until_running(env: Env, job: str, state: str = "Running") -> None:
    began = time.monotonic()
    while (found := run_program("show", "--json", job, env=env).json)["state"] != state:
        assert time.monotonic() - began < TIMEOUT, f"it does not become {state}: {found['message']}"


def run_with(stdin: bytes, *args: str, env: Env) -> Result:
    done = run_holdfast(args, env=env, input=stdin, timeout=TIMEOUT)
    return Result(done.returncode, done.stdout, done.stderr.decode())


@pytest.fixture(scope="module")
def job(place: Env) -> Iterator[str]:
    """One that runs, for all that look into it."""
    job = submit(place, "inside", "echo here > file; sleep 1000")
    until_running(place, job)
    yield job
    run_program("stop", "--wait", job, env=place)


# -- exec


def test_a_command_has_streams_and_status_of_its_own(place: Env, job: str) -> None:
    one = run_program("exec", job, "--", "cat file; echo wrong >&2; exit 7", env=place)
    assert (one.code, one.out, one.err) == (7, b"here\n", "wrong\n")
    several = run_program("exec", "inside", "main-0", "--", "printf", "%s|", "a  b", "$HOME", env=place)
    assert (several.code, several.out, several.err) == (0, b"a  b|$HOME|", "")
    assert run_program("exec", job, "--", "kill -9 $$", env=place).code == 137


def test_bytes_go_in_and_out_as_they_are(place: Env, job: str) -> None:
    data = os.urandom(3_000_000)
    done = run_with(data, "exec", job, "--", "tee copy", env=place)
    assert (done.code, hashlib.sha256(done.out).digest()) == (0, hashlib.sha256(data).digest())
    kept = run_program("exec", job, "--", "sha256sum < copy; rm copy", env=place)
    assert hashlib.sha256(data).hexdigest() in kept.text


def test_a_reader_that_leaves_ends_the_command(place: Env, job: str) -> None:
    process = start("exec", job, "--", "yes", env=place, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"y\n"
    process.stdout.close()
    assert process.wait(TIMEOUT) == 0


def test_the_first_ctrl_c_is_the_commands(place: Env, job: str) -> None:
    script = "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.02; done"
    process = start("exec", job, "--", script, env=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == b"caught\n"
    assert process.wait(TIMEOUT) == 9


def test_the_second_ctrl_c_is_ours(place: Env, job: str) -> None:
    script = "trap 'echo caught' INT; echo ready; while :; do sleep 0.02; done"
    process = start("exec", job, "--", script, env=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == b"caught\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(TIMEOUT) == 130


def test_a_shell_at_a_terminal(place: Env, job: str) -> None:
    with at_terminal("exec", job, env=place, columns=97, rows=31) as terminal:
        terminal.until(PROMPT)
        terminal.type(b"tty; stty size; echo $TERM\r")
        shown = terminal.until(b"xterm-256color\r\n")
        assert b"/dev/pts/" in shown
        assert b"31 97" in shown
        terminal.resize(120, 40)
        terminal.type(b"clear; stty size\r")  # by then it has come through
        _until_size(terminal, b"40 120")
        terminal.type(b"sh -c \"echo rea''dy; exec sleep 1000\"\r")
        terminal.until(b"ready\r\n")
        terminal.type(b"\x03")
        terminal.until(PROMPT)
        terminal.type(b"exit 5\r")
        assert terminal.wait() == 5
        assert terminal.settings() == terminal.before


def _until_size(terminal: AtTerminal, size: bytes) -> None:
    while size not in terminal.until(PROMPT):
        terminal.type(b"stty size\r")


def test_pipes_at_a_terminal_and_a_terminal_with_pipes(place: Env, job: str) -> None:
    with at_terminal("exec", "-T", job, "--", "test -t 1 || echo pipes", env=place) as terminal:
        terminal.until(b"pipes")
        assert terminal.wait() == 0
    done = run_with(b"echo typed; exit 3\n", "exec", "-t", job, "--", "sh", env=place)
    assert done.code == 3
    assert b"typed\r\n" in done.out


def test_a_terminal_is_as_it_was_when_the_command_is_ended(place: Env, job: str) -> None:
    with at_terminal("exec", job, "--", "echo rea''dy; sleep 1000", env=place) as terminal:
        terminal.until(b"ready")
        assert terminal.settings() != terminal.before
        terminal.process.terminate()
        assert terminal.wait() == 143
        assert terminal.settings() == terminal.before


def test_a_command_without_dashes_is_told(place: Env, job: str) -> None:
    for words, meant in ((("ls", "-l"), "-- ls -l"), (("main-0", "ls", "/"), "main-0 -- ls /")):
        for way in ("exec", "ssh"):
            done = run_program(way, job, *words, env=place)
            assert done.code == 2
            assert f"holdfast {way} {job} {meant}" in " ".join(done.err.split())


# -- ssh


def test_ssh_without_any_key_set_up(place: Env, job: str) -> None:
    done = run_program("ssh", job, "--", "cat file; echo wrong >&2; exit 7", env=place)
    assert (done.code, done.out, done.err) == (7, b"here\n", "wrong\n")
    assert not (Path(place["HOME"]) / ".ssh").exists()


def test_words_of_the_command_are_no_options_of_ssh(place: Env, job: str) -> None:
    done = run_program("ssh", job, "--", "-V", env=place)
    assert done.code not in (0, 255)  # as the task's shell says
    assert "OpenSSH" not in done.err


@pytest.mark.parametrize(
    ("user", "host"),
    [("job-1.main-0", "-oProxyCommand=touch stolen"), ("-oProxyCommand=touch stolen", "127.0.0.1"), ("job-1", "")],
)
def test_a_hostile_server_gives_ssh_no_option(tmp_path: Path, user: str, host: str) -> None:
    line = SshCommand(task="main-0", command="", user=user)
    with pytest.raises(UserError, match="unsafe SSH user or host"):
        _build_ssh_options(tmp_path, tmp_path / "key", line, TemporaryKey(host=host, port=22, expires_at=NEVER))


def test_what_follows_the_options_of_ssh_is_a_host(tmp_path: Path) -> None:
    line, known = (
        SshCommand(task="main-0", command="", user="job-1"),
        TemporaryKey(host="here", port=22, expires_at=NEVER),
    )
    assert _build_ssh_options(tmp_path, tmp_path / "key", line, known)[-4:] == ["-l", "job-1", "--", "here"]


def test_ssh_at_a_terminal(place: Env, job: str) -> None:
    with at_terminal("ssh", job, env=place, columns=97, rows=31) as terminal:
        terminal.until(PROMPT)
        terminal.type(b"stty size; echo $TERM; exit 4\r")
        assert b"31 97" in terminal.until(b"xterm-256color\r\n")
        assert terminal.wait() == 4


def test_the_line_and_the_entry_for_ones_own_key(place: Env, job: str) -> None:
    line = run_program("ssh", "--print", job, env=place).text
    assert f"{job}.main-0@127.0.0.1" in line
    entry = run_program("ssh", "--config", job, env=place).text.split()
    assert entry[::2] == ["Host", "HostName", "Port", "User"]
    assert run_program("ssh", "--json", job, env=place).json["command"] == line.strip()


def test_ssh_and_exec_say_the_same_of_a_task_that_is_not_there(place: Env, job: str) -> None:
    ways = [run_program(way, job, "nosuch", env=place) for way in ("ssh", "exec")]
    assert [done.code for done in ways] == [1, 1]
    assert ways[0].err == ways[1].err
    assert f"{job} has no task nosuch" in ways[0].err
    assert "Choose one of its tasks: main-0." in ways[0].err


def test_ssh_takes_a_task_as_openpai_spells_it(place: Env, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    role = "{command: sleep 1000, resources: {cpu: 0.1, memory: 64Mi}}"
    file.write_text(f"name: spelled\nroles: {{my.role: {role}}}\n")
    job = run_program("submit", str(file), env=place).text.strip()
    until_running(place, job)
    assert f"{job}.my.role-0@" in run_program("ssh", "--print", job, "myrole-0", env=place).text
    run_program("stop", job, env=place)


def test_a_key_that_is_not_there_can_be_made(place: Env, tmp_path: Path) -> None:
    done = run_program("key", "add", str(tmp_path / "id_ed25519.pub"), env=place)
    assert done.code == 1
    assert "ssh-keygen -t ed25519" in done.err


def test_without_a_client_ssh_says_what_does_the_same(place: Env, job: str, tmp_path: Path) -> None:
    done = run_program("ssh", job, env={**place, "PATH": str(tmp_path)})
    assert done.code == 1
    assert f"holdfast exec {job}" in done.err


# -- forward

SERVE = "echo served > index.html; exec python3 -m http.server --bind 127.0.0.1 $HOLDFAST_PORT_HTTP"


def test_a_port_of_a_task_here(place: Env, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(json.dumps({"name": "web", "ports": {"http": 1}, "command": SERVE}))
    job = run_program("submit", str(file), env=place).text.strip()
    until_running(place, job)
    listens = "until (: < /dev/tcp/127.0.0.1/$HOLDFAST_PORT_HTTP) 2>/dev/null; do sleep 0.02; done"
    assert run_program("exec", job, "--", listens, env=place).code == 0
    pipe = subprocess.PIPE
    by_name = start("forward", "--json", job, "main-0:http", "0", env=place, stdout=pipe, stderr=pipe)
    assert by_name.stdout is not None
    assert by_name.stderr is not None
    told = json.loads(by_name.stdout.readline())
    for _ in range(3):
        with urllib.request.urlopen(f"http://127.0.0.1:{told['port']}/", timeout=TIMEOUT) as answer:
            assert answer.read() == b"served\n"
    by_number = start("forward", job, told["target"], env=place, stdout=pipe)
    assert by_number.stdout is not None
    address = by_number.stdout.readline().decode().strip()
    with urllib.request.urlopen(f"http://{address}/", timeout=TIMEOUT) as answer:
        assert answer.read() == b"served\n"
    by_number.send_signal(signal.SIGINT)
    assert by_number.wait(TIMEOUT) == 130
    run_program("stop", "--wait", job, env=place)
    assert by_name.wait(TIMEOUT) == 1
    said = by_name.stderr.read()
    assert b"has ended" in said
    assert b"Nothing listens" not in said


def test_where_nothing_listens_is_told_and_forwarding_goes_on(place: Env, job: str) -> None:
    process = start("forward", job, "1", "0", env=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    address = process.stdout.readline().decode().strip()
    process.stderr.readline()  # where it leads
    assert b"warning: Nothing listens on port 1 of main-0 yet" in process.stderr.readline()
    for _ in range(2):
        with pytest.raises((OSError, http.client.RemoteDisconnected)):
            urllib.request.urlopen(f"http://{address}/", timeout=TIMEOUT)
        assert b"Nothing listens on port 1" in process.stderr.readline()
    assert process.poll() is None
    unknown = run_program("forward", job, "main-0:web", env=place)
    assert unknown.code == 1
    assert "no port named web" in unknown.err


# -- stack


def test_the_stacks_of_a_hung_program(place: Env) -> None:
    program = "import threading\ndef stuck():\n    threading.Event().wait()\nprint('up', flush=True)\nstuck()"
    job = submit(place, "hung", f'python3 -c "{program}"')
    follower = start("logs", "-f", job, env=place, stdout=subprocess.PIPE)
    assert follower.stdout is not None
    assert follower.stdout.readline() == b"up\n"
    while "stuck (<string>:3)" not in (text := run_program("stack", job, env=place).text):
        pass  # it has only just begun
    assert "MainThread" in text
    found = run_program("stack", "--json", job, "main-0", env=place).json
    assert (found["job"], found["task"]) == (job, "main-0")
    assert any(process["python"] for process in found["processes"])
    seen = run_on_terminal("stack", job, env=place, columns=200).text
    assert f"next: holdfast ssh {job} main-0" in seen
    assert "holdfast debug" not in seen
    run_program("stop", job, env=place)


# -- of a job that failed


@pytest.mark.release_after(1)
@pytest.mark.parametrize("hold", ["--hold", "--hold-files"])
def test_a_held_task_is_entered_by_one_command(place: Env, hold: str) -> None:
    job = submit(place, "fails", "echo why > reason; exit 3", hold)
    assert run_program("wait", job, env=place).code == 3
    assert run_program("show", "--json", job, env=place).json["state"] == "Held"
    for way in ("exec", "ssh"):
        done = run_program(way, job, "--", "cat reason; exit 6", env=place)
        assert (done.code, done.out) == (6, b"why\n"), done.err
    run_program("release", job, env=place)


@pytest.mark.release
def test_a_name_means_the_one_that_is_held_before_those_that_ended(place: Env) -> None:
    kept = submit(place, "again", "exit 3", "--hold", "--cpu", "0.1", "--memory", "64Mi")
    assert run_program("wait", kept, env=place).code == 3
    gone = submit(place, "again", "true", "--cpu", "0.1", "--memory", "64Mi")
    assert run_program("wait", gone, env=place).code == 0
    assert run_program("ssh", "again", "--", "echo $HOLDFAST_JOB", env=place).text == f"{kept}\n"
    assert run_program("extend", "again", "--for", "1d", "--json", env=place).json["job"] == kept
    assert kept in run_program("release", "again", env=place).text
    assert run_program("wait", kept, env=place).code == 3
    refused = run_program("release", "again", env=place)
    assert f"again ({gone}) has ended and has no tasks on hold" in refused.err
    assert "--hold" not in refused.err


@pytest.mark.release
def test_a_server_that_dies_ends_the_line(tmp_path: Path) -> None:
    server = Server(tmp_path / "state", HOLDFAST_SSH_PORT="0")
    server.start()
    try:
        env = clean_env(tmp_path)
        job = submit(env, "left", "sleep 1000")
        until_running(env, job)
        pipe = subprocess.PIPE
        process = start("exec", job, "--", "echo in; sleep 1000", env=env, stdin=pipe, stdout=pipe, stderr=pipe)
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"in\n"
        server.kill()
        assert process.wait(TIMEOUT) == 1
        assert b"Lost the connection" in process.stderr.read()
        server.start()
        run_program("stop", "--wait", job, env=env)
    finally:
        server.stop()


# -- who may not, and when not


@pytest.fixture(scope="module")
def others(place: Env, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Env]:
    """A member of the job's group, and a stranger to it."""
    run_program("group", "add", "strangers", env=place)
    run_program("user", "add", "amy", "--no-password", "--group", "default", env=place)
    run_program("user", "add", "eve", "--no-password", "--group", "strangers", env=place)
    url = run_program("status", "--json", env=place).json["url"]
    made = {name: run_program("token", "create", "t", "--user", name, "--json", env=place) for name in ("amy", "eve")}
    home = tmp_path_factory.mktemp("others")
    return {name: clean_env(home, HOLDFAST_URL=url, HOLDFAST_TOKEN=token.json["token"]) for name, token in made.items()}


WAYS = [("exec",), ("ssh",), ("stack",), ("debug",), ("forward", "80")]


@pytest.mark.release_after(2)
@pytest.mark.parametrize("way", WAYS, ids=[way[0] for way in WAYS])
def test_who_may_not_is_told_why(place: Env, job: str, others: dict[str, Env], way: tuple[str, ...]) -> None:
    member = run_program(way[0], job, *way[1:], env=others["amy"])
    assert member.code == 1
    assert "only admin and admins of default can connect to its tasks" in member.err
    stranger = run_program(way[0], job, *way[1:], env=others["eve"])
    assert stranger.code == 1
    assert f"Job {job} not found" in stranger.err


@pytest.mark.release_after(1)
@pytest.mark.parametrize("way", WAYS, ids=[way[0] for way in WAYS])
def test_a_job_that_is_over_is_told(place: Env, way: tuple[str, ...]) -> None:
    job = submit(place, "over", "true")
    assert run_program("wait", job, env=place).code == 0
    done = run_program(way[0], job, *way[1:], env=place)
    assert done.code == 1
    assert "its containers no longer exist" in done.err
    assert "holdfast show" not in done.err

"""`holdfast debug` at a real paipdb in a real task."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.cli.inside.pdb_console import PROMPT_PATTERN, parse_last_command
from tests.preloaded import run_holdfast

from .cli_runner import TIMEOUT, run_program, start
from .terminals import at_terminal

Env = dict[str, str]

PROGRAM = """
import paipdb
secret_number = 42
print("up", flush=True)
paipdb.settrace()
total = secret_number + 1
print("total", total, flush=True)
for step in range(1000000000):
    pass
"""


def submit(env: Env, tmp_path: Path) -> str:
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    job = {
        "name": "train",
        "command": "cp $SOURCE train.py; python3 train.py",
        "env": {"SOURCE": str(script)},
        "mounts": [{"source": str(tmp_path), "target": str(tmp_path)}],
    }
    file = tmp_path / "job.json"
    file.write_text(json.dumps(job))
    done = run_program("submit", str(file), env=env)
    assert done.code == 0, done.err
    return done.text.strip()


@pytest.fixture
def waiting(place: Env, tmp_path: Path) -> Iterator[str]:
    """A job whose program is at its breakpoint, or will be."""
    job = submit(place, tmp_path)
    yield job
    run_program("stop", "--wait", job, env=place)


def typed(lines: bytes, *args: str, env: Env) -> tuple[int, str, str]:
    done = run_holdfast(["debug", *args], env=env, input=lines, timeout=TIMEOUT)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_lines_are_piped_in_and_the_program_stays(place: Env, waiting: str) -> None:
    code, out, err = typed(b"p secret_number\nw\n", "--wait", "1m", waiting, env=place)
    assert (code, "(Pdb) 42\n" in out) == (0, True), err
    assert "train.py:6" in err
    assert f"holdfast debug {waiting}" in err  # how to come back
    again = typed(b"n\np total\n", waiting, "main-0", env=place)
    assert "(Pdb) 43\n" in again[1]


@pytest.mark.release
def test_a_program_that_runs_on_is_left_at_the_end_of_what_was_piped_in(place: Env, waiting: str) -> None:
    code, out, err = typed(b"p secret_number\nc\n", "--wait", "1m", waiting, env=place)
    assert (code, "(Pdb) 42\n" in out) == (0, True), err
    follower = start("logs", "-f", waiting, env=place, stdout=subprocess.PIPE)
    assert follower.stdout is not None
    while not follower.stdout.readline().startswith(b"total 43"):
        pass  # it runs on
    assert run_program("show", "--json", waiting, env=place).json["state"] == "Running"


@pytest.mark.release
def test_an_answer_that_takes_long_is_waited_for(place: Env, waiting: str) -> None:
    slow = b"import time; time.sleep(1.5); print('sl' + 'ow')\n"
    code, out, err = typed(slow, "--wait", "1m", waiting, env=place)
    assert (code, "slow\n" in out) == (0, True), err


def test_a_pipe_that_stays_open_is_no_end(place: Env, waiting: str) -> None:
    asking = start("debug", "--wait", "1m", waiting, env=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert asking.stdin is not None
    asking.stdin.write(b"import time\nn\nuntil\n")
    asking.stdin.flush()
    assert asking.stdout is not None
    while b"for step in" not in asking.stdout.readline():
        pass
    asking.stdin.write(b"q\n")  # and the program ends before the pipe does
    asking.stdin.flush()
    assert asking.wait(TIMEOUT) == 0


@pytest.mark.parametrize(
    ("typed", "command"), [("c", "c"), (" until 7", "until"), ("b 7 ;; c", "c"), ("p ';;'", "'"), ("", "")]
)
def test_what_is_done_last(typed: str, command: str) -> None:
    assert parse_last_command(typed) == command


@pytest.mark.release
def test_a_prompt_with_history_and_completion(place: Env, waiting: str) -> None:
    with at_terminal("debug", "--wait", "1m", waiting, env=place) as terminal:
        terminal.until(b"(Pdb) ")
        terminal.type(b"p secret_number\r")
        terminal.until(b"\n42\r\n")
        terminal.until(b"(Pdb) ")
        terminal.type(b"p secr\t + 1\r")  # a word that was shown
        terminal.until(b"\n43\r\n")
        terminal.until(b"(Pdb) ")
        terminal.type(b"longl\t\r")  # a command
        terminal.until(b"->")
        terminal.until(b"total = secret_number + 1")
        terminal.until(b"(Pdb) ")
        terminal.type(b"\x04")
        assert terminal.wait() == 0
    with at_terminal("debug", waiting, env=place) as terminal:
        terminal.until(b"(Pdb) ")
        terminal.type(b"\x1b[A\x1b[A\r")  # what was typed before, by the arrow keys
        terminal.until(b"\n43\r\n")
        terminal.until(b"(Pdb) ")
        terminal.type(b"\x04")
        assert terminal.wait() == 0
    history = Path(place["HOME"]) / ".local" / "state" / "holdfast" / "debug_history"
    assert "p secret_number" in history.read_text()
    assert history.stat().st_mode & 0o077 == 0


def test_ctrl_c_stops_a_program_that_runs_and_q_ends_it(place: Env, waiting: str) -> None:
    with at_terminal("debug", "--wait", "1m", waiting, env=place) as terminal:
        terminal.until(b"(Pdb) ")
        terminal.type(b"c\r")
        with_log = start("logs", "-f", waiting, env=place, stdout=subprocess.PIPE)
        assert with_log.stdout is not None
        while not with_log.stdout.readline().startswith(b"total 43"):
            pass  # it runs on
        terminal.type(b"\x03")
        terminal.until(b"(Pdb) ")
        terminal.type(b"p step >= 0\r")
        terminal.until(b"\nTrue\r\n")
        terminal.until(b"(Pdb) ")
        terminal.type(b"q\r")
        assert terminal.wait() == 0
        assert terminal.seen.count(b"The program ends with exit code 2.") == 1
        assert b"The debugger ended" not in terminal.seen
    assert run_program("wait", waiting, env=place).code == 2


@pytest.mark.release
def test_who_looks_at_the_job_or_its_log_is_told(place: Env, waiting: str) -> None:
    with at_terminal("logs", "-f", waiting, env=place, columns=150) as terminal:
        terminal.until(b"debugger waiting at train.py:6 in main-0 until ")
        terminal.until(f": holdfast debug {waiting} main-0".encode())
    shown = run_program("show", waiting, env=place).text
    assert "waiting at train.py:6 in main-0" in shown
    for listing in (("ls",), ("top", "--once")):
        lines = run_program(*listing, env={**place, "COLUMNS": "200"}).text.splitlines()
        assert next(line for line in lines if waiting in line).endswith("debugger waiting at train.py:6 in main-0")
    with at_terminal("ls", env=place, columns=150) as terminal:
        terminal.until(f"next: holdfast debug {waiting}".encode())
    with at_terminal("stack", waiting, env=place, columns=150) as terminal:
        terminal.until(f"next: holdfast debug {waiting} main-0".encode())
    found = run_program("show", "--json", waiting, env=place).json["debuggers"]
    assert [(each["task"], each["line"], each["waits"]) for each in found] == [("main-0", 6, True)]


def test_it_waits_for_a_job_that_has_not_started(place: Env, tmp_path: Path) -> None:
    job = submit(place, tmp_path)
    code, out, _ = typed(b"q\n", "--wait", "1m", job, env=place)
    assert code == 0
    assert "(Pdb) " in out


def test_where_no_debugger_waits(place: Env) -> None:
    job = run_program("submit", "--", "sleep 1000", env=place).text.strip()
    while (done := run_program("debug", job, env=place)).err.startswith("error: " + job):
        pass  # it has not started yet
    assert done.code == 1
    assert "No debugger is waiting" in done.err
    assert "paipdb.settrace()" in done.err
    run_program("stop", job, env=place)


@pytest.mark.release
def test_a_process_of_an_older_python_is_told(place: Env) -> None:
    script = "import time; print('up', flush=True); time.sleep(1000)"
    job = run_program("submit", "--", f'exec python3 -c "{script}"', env=place).text.strip()
    follower = start("logs", "-f", job, env=place, stdout=subprocess.PIPE)
    assert follower.stdout is not None
    assert follower.stdout.readline() == b"up\n"
    found = run_program("stack", "--json", job, env=place).json["processes"]
    pid = str(next(each["pid"] for each in found if each["python"]))
    done = run_program("debug", "--pid", pid, job, env=place)
    assert done.code == 1
    assert "is not Python 3.14 or newer" in done.err
    none = run_program("debug", "--pid", "4000000", job, env=place)
    assert "Process 4000000 not found" in none.err
    run_program("stop", job, env=place)


NEWER = """
mkdir fake
echo 'import sys; sys.version_info = (3, 14, 0)' > fake/sitecustomize.py
echo 'import sys; print("attached by", *sys.argv[1:], sys.stdin.isatty())' > fake/pdb.py
exec python3 -c "import time; print('up', flush=True); time.sleep(1000)"
"""


def test_a_process_is_handed_to_pythons_own_debugger(place: Env, tmp_path: Path) -> None:
    """Played: a Python that says it is newer than it is, whose pdb tells what it was requested."""
    file = tmp_path / "job.json"
    file.write_text(json.dumps({"name": "newer", "env": {"PYTHONPATH": "fake"}, "command": NEWER}))
    job = run_program("submit", str(file), env=place).text.strip()
    follower = start("logs", "-f", job, env=place, stdout=subprocess.PIPE)
    assert follower.stdout is not None
    assert follower.stdout.readline() == b"up\n"
    found = run_program("stack", "--json", job, env=place).json["processes"]
    pid = str(next(each["pid"] for each in found if each["python"]))
    with at_terminal("debug", "--pid", pid, job, env=place) as terminal:
        terminal.until(f"attached by -p {pid} True".encode())
        assert terminal.wait() == 0
    run_program("stop", job, env=place)


@pytest.mark.release
def test_vs_code_is_led_to_debugpy(place: Env, tmp_path: Path) -> None:
    """What listens there is played: debugpy is not installed with us."""
    echo = (
        "import os, socket; s = socket.create_server(('127.0.0.1', int(os.environ['HOLDFAST_PORT_DEBUGPY'])));"
        "print('up', flush=True); c = s.accept()[0]; c.sendall(b'I am ' + c.recv(100)); c.close()"
    )
    file = tmp_path / "job.json"
    file.write_text(json.dumps({"name": "py", "ports": {"debugpy": 1}, "command": f'python3 -c "{echo}"; sleep 1000'}))
    job = run_program("submit", str(file), env=place).text.strip()
    follower = start("logs", "-f", job, env=place, stdout=subprocess.PIPE)
    assert follower.stdout is not None
    assert follower.stdout.readline() == b"up\n"
    led = start("debug", "--vscode", job, env=place, stdout=subprocess.PIPE)
    assert led.stdout is not None
    printed = b""
    while not printed.endswith(b"\n}\n"):
        printed += led.stdout.readline()
    configuration = json.loads(printed)
    assert (configuration["type"], configuration["request"]) == ("debugpy", "attach")
    home = run_program("exec", job, "--", "pwd", env=place).text.strip()
    assert configuration["pathMappings"] == [{"localRoot": "${workspaceFolder}", "remoteRoot": home}]
    where = configuration["connect"]
    with socket.create_connection((where["host"], where["port"]), timeout=TIMEOUT) as connection:
        connection.sendall(b"code")
        assert connection.recv(100) == b"I am code"
    run_program("stop", job, env=place)


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        (b"(Pdb) ", True),
        (b"((Pdb)) ", True),
        (b"(com) ", True),
        (b">>> ", True),
        (b"(Pdb) 42", False),
        (b"> train.py(5)", False),
    ],
)
def test_what_counts_as_a_prompt(text: bytes, asks: bool) -> None:
    assert bool(PROMPT_PATTERN.search(text)) is asks

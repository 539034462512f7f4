"""What only shows with real processes: terminals, pipes, signals, what is loaded."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from .cli_runner import TIMEOUT, run_on_terminal, run_program, start


@pytest.mark.release
def test_colours_and_hints_on_a_terminal_alone(place: dict[str, str]) -> None:
    run_program("submit", "--wait", "--name", "seen", "--", "true", env=place)
    seen = run_on_terminal("ls", env=place)
    assert b"\x1b[" in seen.out
    assert b"next: " in seen.out
    plain = run_on_terminal("ls", env={**place, "NO_COLOR": "1"})
    assert b"\x1b[3" not in plain.out
    piped = run_program("ls", env=place)
    assert b"\x1b" not in piped.out
    assert piped.err == ""


def test_a_last_line_without_its_end_stays_to_be_seen(place: dict[str, str]) -> None:
    seen = run_on_terminal("submit", "-f", "--name", "unended", "--", "printf lastline", env=place).out
    after = seen.partition(b"lastline")[2]
    assert after.startswith(b"\r\n")
    assert b"\x1b[2K" not in after
    assert b"unended" in after


def test_the_next_page_keeps_the_filters(place: dict[str, str]) -> None:
    for _ in range(2):
        run_program("submit", "--name", "two pages", "--", "true", env=place)
    seen = run_on_terminal("ls", "--text", "two pages", "--limit", "1", env={**place, "NO_COLOR": "1"}).out
    assert b"holdfast ls --text 'two pages' --limit 1 --more " in seen


def test_ids_are_whole_on_a_narrow_terminal(place: dict[str, str]) -> None:
    job = run_program("submit", "--name", "n" * 60, "--", "true", env=place).out.strip()
    token = run_program("token", "create", "--json", "t" * 60, env=place).json["id"].encode()
    assert job in run_on_terminal("ls", env=place, columns=60).out
    assert token in run_on_terminal("token", "ls", env=place, columns=60).out


def test_a_reader_that_leaves_is_no_error(place: dict[str, str]) -> None:
    """As in `holdfast logs JOB | head`: the log is larger than any pipe holds."""
    job = run_program("submit", "--wait", "--json", "--", "yes | head -c 3000000", env=place).json["id"]
    process = start("logs", job, env=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read(2) == b"y\n"
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(TIMEOUT) == 0


@pytest.mark.release_after(1)
@pytest.mark.parametrize("command", [("logs", "-f"), ("wait",), ("events", "-f")])
def test_ctrl_c_ends_quietly_with_130(place: dict[str, str], command: tuple[str, ...]) -> None:
    job = run_program("submit", "--", "echo ready; sleep 600", env=place).out.decode().strip()
    follower = start("logs", "-f", job, env=place, stdout=subprocess.PIPE)
    assert follower.stdout is not None
    assert follower.stdout.readline() == b"ready\n"
    follower.kill()
    follower.wait()
    process = start(*command, job, env=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    if command != ("wait",):
        process.stdout.readline()  # it is at work
    else:
        wait_for_connection(process.pid)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, err) == (130, b"")
    run_program("stop", job, env=place)


def wait_for_connection(pid: int) -> None:
    """Until it has a socket open: then it is past its imports and talks to the server."""
    import psutil

    while not psutil.Process(pid).net_connections():
        time.sleep(0.01)


def loaded_by(code: str, env: dict[str, str]) -> set[str]:
    script = f"import sys\n{code}\nsys.stdout.flush()\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, timeout=TIMEOUT, check=False)
    return set(done.stderr.decode().split())


@pytest.mark.release_after(1)
@pytest.mark.parametrize(
    ("args", "heavy"),
    [
        (["--help"], {"httpx", "pydantic", "sqlalchemy", "fastapi", "holdfast.bootstrap", "holdfast.sdk"}),
        (["ls"], {"pydantic", "sqlalchemy", "fastapi", "holdfast.bootstrap", "asyncio", "yaml"}),
        (["submit", "--", "true"], {"pydantic", "sqlalchemy", "fastapi", "holdfast.bootstrap", "yaml"}),
    ],
)
def test_quick_commands_load_nothing_heavy(place: dict[str, str], args: list[str], heavy: set[str]) -> None:
    code = f"from holdfast.cli.main import run_command_line\nassert run_command_line({args!r}) == 0"
    loaded = loaded_by(code, place)
    assert "holdfast.cli.main" in loaded
    assert not heavy & loaded


def test_the_shell_completes_commands_and_jobs(place: dict[str, str]) -> None:
    job = run_program("submit", "--", "true", env=place).out.decode().strip()
    words = {"COMP_WORDS": f"holdfast show {job[:-2]}", "COMP_CWORD": "2", "_HOLDFAST_COMPLETE": "complete_bash"}
    assert run_program(env={**place, **words}).out.decode().split() == [job]
    words |= {"COMP_WORDS": "holdfast even", "COMP_CWORD": "1"}
    assert run_program(env={**place, **words}).out.decode().split() == ["events"]


def test_what_one_types_is_whole_in_every_list(place: dict[str, str]) -> None:
    name = "n" * 50
    run_program("group", "add", name, "--cpu", "64", "--memory", "512Gi", "--user-cpu", "8", env=place)
    run_program("instance-type", "add", name, "--description", "d" * 60, "--everyone", env=place)
    run_program("image", "alias", "add", name, "i" * 60, "--everyone", env=place)
    run_program("dataset", "add", name, "--kind", "volume", "--everyone", "--description", "d" * 60, env=place)
    for command in (("group",), ("instance-type",), ("image", "alias"), ("dataset",)):
        assert name.encode() in run_on_terminal(*command, "ls", env=place, columns=80).out, command
        run_program(*command, "rm", name, "--yes", env=place)

"""simulate as people meet it: output, report and exit code. What it finds is tried in tests/simulation."""

from __future__ import annotations

from pathlib import Path

import pytest

from .cli_runner import Cli, clean_env, run_on_terminal


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "job.yaml"


def test_a_job_that_is_well(alone: Cli, file: Path) -> None:
    file.write_text("name: well\ncommand: echo hello\n")
    result = alone.ok("simulate", str(file))
    assert result.text.startswith("main-0 | hello\nmain-0: Succeeded after ")
    assert "No server checked the group" in result.text
    assert result.text.endswith("No problems found.\n")


def test_a_job_that_would_break(alone: Cli) -> None:
    job = b"name: ill\nsecrets: {password: hunter22}\ncommand: echo '<% $secrets.password %>' $HOLDFAST_JBO; exit 4\n"
    result = alone("simulate", "-", "--no-server", stdin=job)
    assert result.code == 1
    assert "main-0 | ******" in result.text
    assert "problem: main: $HOLDFAST_JBO is not set in the real run\n    Did you mean 'HOLDFAST_JOB'?" in result.text
    assert "The job would fail: 2 problems." in result.text
    assert "hunter22" not in result.text


def test_json_has_the_whole_report_and_output_goes_beside(alone: Cli, file: Path) -> None:
    file.write_text("name: ill\ncommand: 'echo first; nosuch'\n")
    result = alone("simulate", str(file), "--no-server", "--json")
    assert result.code == 1
    report = result.json
    assert (report["job"], report["engine"], report["ending"], report["would_break"]) == (
        "ill",
        "sandbox",
        "ended",
        True,
    )
    assert report["tasks"][0]["code"] == 127
    assert report["diagnosis"]["fault"] == "command-not-found"
    assert {each["about"] for each in report["remarks"] if each["level"] == "problem"} == {"exit"}
    assert "main-0 | first" in result.err


def test_a_file_that_is_no_job(alone: Cli, file: Path) -> None:
    file.write_text("name: x\ncomand: echo\n")
    result = alone("simulate", str(file), "--no-server")
    assert result.code == 2
    assert f"{file}:2" in result.err
    assert "nothing was run" in result.err
    assert alone("simulate", str(file.with_name("missing.yaml")), "--no-server").code == 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--instances", "none"), "neither a positive number nor"),
        (("--timeout", "soon"), "is not a duration"),
        (("--timeout", "0s"), "must be greater than 0"),
        (("--with", "rkt"), "rkt"),
        (("--dialect", "klingon"), "unknown file format"),
    ],
)
def test_options_that_mean_nothing(alone: Cli, file: Path, options: tuple[str, ...], says: str) -> None:
    file.write_text("name: x\ncommand: echo\n")
    result = alone("simulate", str(file), *options)
    assert result.code == 2
    assert says in result.err


def test_a_role_that_is_not_there(alone: Cli, file: Path) -> None:
    file.write_text("name: x\nroles: {worker: {command: echo}}\n")
    result = alone("simulate", str(file), "--role", "wroker", "--no-server")
    assert result.code == 1
    assert "The job has no role 'wroker'" in result.err
    assert "worker" in result.err


def test_the_server_is_asked_what_only_it_knows(cli: Cli, file: Path) -> None:
    file.write_text("name: asked\ngroup: nobody-knows-it\ncommand: echo\n")
    result = cli("simulate", str(file))
    assert result.code == 1
    assert "would reject the job" in result.text
    file.write_text("name: asked\ncommand: echo $HOLDFAST_USER\n")
    assert "main-0 | admin" in cli.ok("simulate", str(file)).text


def test_no_task_steers_the_terminal(alone: Cli, tmp_path: Path, file: Path) -> None:
    file.write_text("name: steers\ncommand: printf '\\033[31mred\\033[2J\\033]0;title\\a\\n'\n")
    assert alone.ok("simulate", str(file), "--no-server").text.startswith("main-0 | red\\x1b[2J\\x1b]0;title\\x07\n")
    seen = run_on_terminal("simulate", str(file), "--no-server", env=clean_env(tmp_path)).text
    assert "\x1b[31mred\\x1b[2J\\x1b]0;title\\x07\x1b[0m" in seen

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.cli.errors import show_error
from holdfast.core.errors import Problem, UserError
from holdfast.sdk import ApiError
from tests.sdk.scripted import Say, ScriptedServer

from .cli_runner import Cli


def test_every_problem_is_one_line_with_file_and_line(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    problems = (Problem("roles.a.cpu", "must be a number", "try 2", 7), Problem("", "is empty\x1b[2J"))
    error = ApiError("bad", code="invalid_job", status=400, problems=problems)
    show_error(error, json=False, source="job.yaml")
    lines = capfdbinary.readouterr().err.decode().splitlines()
    assert lines[:2] == ["job.yaml:7: roles.a.cpu: must be a number (try 2)", "job.yaml: is empty\\x1b[2J"]


def test_errors_of_our_own_have_the_servers_shape(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    show_error(UserError("no", field="f", hint="h"), json=True)
    error = json.loads(capfdbinary.readouterr().err)["error"]
    assert error == {"code": "bad_request", "message": "no", "field": "f", "hint": "h", "request_id": None}


@pytest.fixture
def nowhere(alone: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    """The CLI with an address where surely nothing listens: the port is taken by a socket that takes no connections."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HOLDFAST_URL", f"http://127.0.0.1:{taken.getsockname()[1]}")
        yield alone


def test_without_a_server_it_says_how_to_start_one(nowhere: Cli) -> None:
    result = nowhere("ls")
    assert (result.code, result.out) == (1, b"")
    assert "Cannot connect to http://127.0.0.1:" in result.err
    assert "holdfast up" in result.err
    assert nowhere("ls", "--json").error["code"] == "cannot_connect"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("nonsense",), "No such command"),
        (("ls", "--nonsense"), "No such option"),
        (("show",), "JOB"),
        (("ls", "--since", "soon"), "neither a duration"),
        (("ls", "--limit", "many"), "--limit"),
        (("submit",), "missing FILE"),
        (("submit", "a.yaml", "--", "true"), "cannot be used together"),
        (("submit", "a.yaml", "--cpu", "2"), "--cpu: only valid with a command after --; set `resources`"),
        (("submit", "--env", "A", "--", "true"), "NAME=VALUE"),
        (("logs", "x", "--stdout", "--stderr"), "--stdout and --stderr cannot be used together"),
        (("completion", "tcsh"), "bash"),
    ],
)
def test_wrong_usage_is_code_2_and_explained(alone: Cli, args: tuple[str, ...], said: str) -> None:
    result = alone(*args)
    assert (result.code, result.out) == (2, b"")
    assert said in result.err
    assert "--help" in result.err


def test_wrong_usage_as_json(alone: Cli) -> None:
    assert alone("submit", "--json").error["code"] == "usage"


def test_json_of_a_jobs_own_command_is_not_ours(nowhere: Cli) -> None:
    result = nowhere("submit", "--", "tool", "--json")
    assert result.code == 1
    assert result.err.startswith("error: Cannot connect")


def test_an_answer_nested_too_deeply_is_an_ordinary_error(alone: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ScriptedServer()
    try:
        server.on("GET", "/jobs", Say(b"[" * 100_000))
        server.on("GET", "/status", Say(b'{"error":' * 100_000, 500))
        monkeypatch.setenv("HOLDFAST_URL", server.url)
        for command in ("ls", "status"):
            result = alone(command)
            assert result.code == 1
            assert "this may not be a Holdfast server" in result.err
        deep = b'{"a":' * 600 + b"1" + b"}" * 600
        known = b'"id": "x", "name": "x", "user": "x", "group": "x", "state": "Failed", "submitted_at": "2026-01-01"'
        server.on("GET", "/jobs/x", Say(b'{%s, "job": %s}' % (known, deep)))
        result = alone("show", "x", "--json")
        assert result.code == 1
        assert "The response is nested too deeply" in result.error["message"]
    finally:
        server.stop()


def test_a_missing_file_is_named(alone: Cli, tmp_path: Path) -> None:
    result = alone("submit", str(tmp_path / "none.yaml"))
    assert result.code == 1
    assert "none.yaml: No such file" in result.err


def test_no_command_at_all_shows_the_help(alone: Cli) -> None:
    result = alone()
    assert (result.code, result.err) == (2, "")
    assert "submit" in result.text


def test_help_and_version_need_no_server(alone: Cli) -> None:
    assert "Submit a job" in alone.ok("--help").text
    assert alone.ok("--version").text.startswith("holdfast ")
    assert alone.ok("version", "--json").json["server"] is None


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(alone: Cli, shell: str) -> None:
    assert "_HOLDFAST_COMPLETE" in alone.ok("completion", shell).text

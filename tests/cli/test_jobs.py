"""Jobs by command line, against a real server that really runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .cli_runner import Cli


def submitted(cli: Cli, *args: str) -> str:
    return cli.ok("submit", *args).text.strip()


def test_a_command_runs_and_its_log_and_exit_code_come_back(cli: Cli) -> None:
    result = cli(
        "submit", "--follow", "--name", "two words", "--", "sh", "-c", "printf 'a b\\n'; echo oops >&2; exit 3"
    )
    assert result.code == 3
    assert sorted(result.out.splitlines()) == [b"a b", b"oops"]
    assert "two words" in result.err
    assert "failed" in result.err


def test_log_bytes_arrive_unchanged(cli: Cli) -> None:
    command = "printf '\\000\\377\\033[31m\\r\\n\\200no newline'"
    result = cli("submit", "-f", "--", command)
    assert (result.code, result.out) == (0, b"\x00\xff\x1b[31m\r\n\x80no newline")
    job = cli.ok("ls", "--json", "--limit", "1").json["items"][0]["id"]
    assert cli.ok("logs", job).out == result.out
    assert cli.ok("logs", job, "main-0", "--stdout").out == result.out
    assert cli.ok("logs", job, "--stderr").out == b""
    assert cli.ok("logs", job, "--json").json["size"] == len(result.out)


def test_tail_since_and_attempt_choose_what_is_shown(cli: Cli) -> None:
    result = cli("submit", "--wait", "--retry", "1", "--json", "--", "echo one; echo two; exit 1")
    job = result.json["id"]
    assert (result.code, result.json["attempt"]) == (1, 1)
    assert cli.ok("logs", job, "--tail", "1").out == b"two\n"
    assert cli.ok("logs", job, "--attempt", "0").out == b"one\ntwo\n"
    assert cli.ok("logs", job, "--since", "1h").out == b"one\ntwo\n"
    assert cli("logs", job, "--attempt", "9").code == 1


def test_following_shows_every_attempt(cli: Cli) -> None:
    result = cli("submit", "-f", "--retry", "2", "--", "echo try; exit 5")
    assert (result.code, result.out) == (5, b"try\n" * 3)


def test_a_file_from_a_path_and_from_stdin(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: filed\ncommand: echo from a file\n")
    assert cli("submit", "-f", str(file)).out == b"from a file\n"
    assert cli("submit", "-f", "-", stdin=file.read_bytes()).out == b"from a file\n"


def test_every_problem_of_a_file_is_shown_with_its_line(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("name: x\ncomand: true\nresources:\n  cpu: many\n")
    result = cli("submit", str(file))
    assert (result.code, result.out) == (1, b"")
    assert f"{file}:2: comand:" in result.err
    assert f"{file}:4: resources.cpu:" in result.err
    problems = cli("submit", str(file), "--json").error["problems"]
    assert {problem["line"] for problem in problems} >= {2, 4}


def test_problems_of_a_command_name_the_option(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").touch()
    result = cli("submit", "--memory", "much", "--mount", "/a:b:c:d", "--", "python", "train.py")
    assert {line.split(":")[0] for line in result.err.splitlines()} == {"--memory", "--mount", "error"}


def test_a_folder_is_mounted_from_here(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    assert f"- {tmp_path}/data:/in" in cli.ok("plan", "--yaml", "--mount", "data:/in", "--", "true").text


def test_a_command_without_its_dashes_is_recognised(cli: Cli) -> None:
    assert "holdfast submit -- echo hi" in cli("submit", "echo", "hi").err
    assert "holdfast submit -- echo" in cli("submit", "echo").err
    assert "Check the path." in cli("submit", "no-such-file.yaml").err
    assert "holdfast plan -" in cli("plan", stdin=b"command: true").err


def test_plan_says_what_would_happen(cli: Cli) -> None:
    assert "would start now" in cli.ok("plan", "--cpu", "0.1", "--", "true").text
    assert "name: true" in cli.ok("plan", "--yaml", "--name", "true1", "--", "true").text.replace("true1", "true")
    never = cli("plan", "--cpu", "100000", "--", "true")
    assert never.code == 1
    assert "never run" in never.text
    assert cli("plan", "--json", "--cpu", "100000", "--", "true").json["verdict"] == "never"
    invalid = cli("plan", "-", stdin=b"name: j\ncommand: a\nmounts: [/none/a:/a]\nresources: {cpu: 100000}\n")
    assert "mounts[0].source: /none/a does not exist" in invalid.err
    assert "roles.main" not in invalid.err
    assert invalid.err.endswith("error: 2 problems.\n")


def test_a_job_no_machine_can_run_has_no_exit_code(cli: Cli) -> None:
    assert cli("submit", "--wait", "--cpu", "100000", "--", "true").code in (1, 125)


def test_env_and_instances(cli: Cli) -> None:
    result = cli(
        "submit", "--wait", "--json", "--env", "WORD=a b", "--instances", "2", "--cpu", "0.1", "--", "echo $WORD"
    )
    assert [task["task"] for task in result.json["tasks"]] == ["main-0", "main-1"]
    assert cli.ok("logs", result.json["id"], "main-1").out == b"a b\n"


def test_the_log_of_the_task_that_failed_is_shown_and_named(cli: Cli) -> None:
    said = "import os, socket, time; s = socket.socket(socket.AF_UNIX); s.bind(chr(0) + os.environ['HOLDFAST_JOB'])"
    command = f"""
        echo I am $HOLDFAST_TASK_INDEX
        if [ $HOLDFAST_TASK_INDEX = 0 ]; then exec python3 -c "{said}; time.sleep(60)"; fi
        until grep -q @$HOLDFAST_JOB /proc/net/unix; do sleep 0.1; done
        exit 4"""
    followed = cli("submit", "-f", "--name", "pair", "--instances", "2", "--cpu", "0.1", "--", command)
    assert (followed.code, followed.out) == (4, b"I am 0\n")
    job = cli.ok("ls", "--json", "--limit", "1").json["items"][0]["id"]
    assert f"Log of main-0, one of 2 tasks; list them with `holdfast show {job}`\n" in followed.err
    assert f"holdfast logs {job} main-1\n" in followed.err
    shown = cli.ok("logs", job)
    assert (shown.out, shown.err) == (
        b"I am 1\n",
        f"Log of main-1, one of 2 tasks; list them with `holdfast show {job}`\n",
    )
    assert cli.ok("logs", "-f", job).out == b"I am 1\n"
    assert cli.ok("logs", job, "--attempt", "0").out == b"I am 1\n"
    assert cli.ok("logs", job, "--json").json["task"] == "main-1"
    named = cli.ok("logs", job, "main-0")
    assert (named.out, named.err) == (b"I am 0\n", "")


def test_ls_filters_and_pages(cli: Cli) -> None:
    for number in range(3):
        cli("submit", "--wait", "--name", f"paged-{number}", "--", f"exit {number}")
    failed = cli.ok("ls", "--json", "--text", "paged-", "--state", "failed", "--mine", "--since", "1h").json
    assert [job["name"] for job in failed["items"]] == ["paged-2", "paged-1"]
    page = cli.ok("ls", "--json", "--text", "paged-", "--limit", "2").json
    more = cli.ok("ls", "--json", "--text", "paged-", "--more", page["next"]).json
    assert [job["name"] for job in page["items"] + more["items"]] == ["paged-2", "paged-1", "paged-0"]
    assert len(cli.ok("ls", "--json", "--text", "paged-", "--all").json["items"]) == 3
    table = cli.ok("ls", "--text", "paged-1").text.splitlines()
    assert table[0].split() == ["ID", "NAME", "STATE", "USER", "GROUP", "AGE", "RAN", "MESSAGE"]
    assert "paged-1" in table[1]
    assert "Failed" in table[1]


def test_ls_says_when_nothing_matches(cli: Cli) -> None:
    assert cli.ok("ls", "--text", "no-such-name").err == "No matching jobs.\n"
    assert cli.ok("ls", "--text", "no-such-name", "--json").json["items"] == []


def test_show_tells_what_runs_in_what(cli: Cli) -> None:
    lines = "\n".join(f"echo {number}" for number in range(8))
    job = submitted(cli, "--mount", "/usr:/in", "--cpu", "1", "--", lines)
    text = cli.ok("show", job).text
    for part in (
        "image       host",
        "command     echo 0",
        "echo 4\n",
        "3 more lines",
        "mounts      /usr at /in",
        " 1 core,",
    ):
        assert part in text
    assert "echo 5" not in text


def test_show_tells_all_and_its_json_is_stable(cli: Cli) -> None:
    job = cli("submit", "--wait", "--json", "--name", "shown", "--", "exit 4").json["id"]
    text = cli.ok("show", job).text
    for part in ("shown", job, "Failed", "exit code   4", "main-0"):
        assert part in text
    shown = cli.ok("show", "shown", "--json").json
    assert (shown["id"], shown["exit"]["code"], shown["tasks"][0]["state"]) == (job, 4, "Failed")
    assert cli.ok("show", job, "--attempts", "--json").json["attempts"][0]["attempt"] == 0


def test_show_says_what_to_try_when_the_log_of_an_openpai_job_told_the_cause(cli: Cli) -> None:
    role = {
        "dockerImage": "i",
        "commands": ["echo RuntimeError: CUDA out of memory >&2", "exit 3"],
        "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0},
    }
    images = [{"type": "dockerimage", "name": "i", "uri": "host"}]
    file = {"protocolVersion": 2, "name": "pai", "type": "job", "prerequisites": images, "taskRoles": {"t": role}}
    job = cli("submit", "-", "--wait", "--json", stdin=json.dumps(file).encode()).json["id"]
    exit = cli.ok("show", job, "--json").json["exit"]
    assert (exit["kind"], exit["code"], exit["cause"]) == ("user-error", 3, "cuda-oom")
    assert "hint        Use a smaller batch" in cli.ok("show", job).text
    assert "Exit code 3: the GPU ran out of memory" in cli.ok("show", job).text


def test_hostile_words_cannot_steer_the_terminal(cli: Cli) -> None:
    """Names with control characters are refused by the server; descriptions may hold any text."""
    hostile = {"name": "[red]evil[/red]", "command": "true", "description": "\x1b]0;owned\x07\x1b[2J \u202e"}
    job = cli.ok("submit", "-", "--json", stdin=json.dumps(hostile).encode()).json["id"]
    cli("wait", job)
    for result in (cli.ok("ls"), cli.ok("show", job), cli.ok("events", job), cli.ok("top")):
        assert b"\x1b" not in result.out
        assert "\u202e" not in result.text
    assert "\\x1b]0;owned\\x07\\x1b[2J \\u202e" in cli.ok("show", job).text
    assert "[red]evil[/red]" in cli.ok("ls").text


def test_stop_ends_a_running_job_and_wait_tells(cli: Cli) -> None:
    job = submitted(cli, "--", "echo ready; sleep 600")
    assert f"{job} stopped" in cli.ok("stop", "--wait", job).text
    assert cli("wait", job).code == 120
    assert cli.ok("stop", job).code == 0  # again changes nothing
    done = cli("submit", "--wait", "--json", "--", "true").json["id"]
    assert cli.ok("stop", done).text == f"{done} had already ended (succeeded)\n"
    report = cli("stop", "--json", job, "no-such-job")
    assert (report.code, report.json["stopped"], report.json["failed"][0]["job"]) == (1, [job], "no-such-job")


def test_wait_with_a_timeout_leaves_the_job_alone(cli: Cli) -> None:
    job = submitted(cli, "--", "sleep 600")
    assert cli("wait", "--timeout", "0", job).code == 121
    assert cli.ok("show", job, "--json").json["finished_at"] is None
    cli.ok("stop", job)


def test_the_time_limit_has_its_own_code(cli: Cli) -> None:
    assert cli("submit", "--wait", "--time-limit", "1s", "--", "sleep 600").code == 124


def test_tags_are_put_on_and_taken_off(cli: Cli) -> None:
    job = submitted(cli, "--", "true")
    assert cli.ok("tag", job, "nightly", "günstig/50%", "--json").json["tags"] == ["nightly", "günstig/50%"]
    assert "nightly, günstig/50%" in cli.ok("show", job).text
    assert cli.ok("tag", "--remove", job, "günstig/50%", "--json").json["tags"] == ["nightly"]
    assert "none" in cli.ok("tag", "-r", job, "nightly").err
    assert cli("tag", "-r", job, "nightly").code == 1
    assert cli("tag", job, "a,b").code == 1


def test_ports_of_tasks_are_shown(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: ports\nports: {web: 2}\ncommand: 'true'\n")
    job = cli.ok("submit", "--wait", "--json", str(file)).json["id"]
    (ports,) = (task["ports"]["web"] for task in cli.ok("show", job, "--json").json["tasks"])
    assert f"web {ports[0]} {ports[1]}" in cli.ok("show", job).text


def test_rerun_and_clone(cli: Cli, tmp_path: Path) -> None:
    job = cli("submit", "--wait", "--json", "--name", "again", "--", "echo once more").json["id"]
    rerun = cli("rerun", "-f", job)
    assert (rerun.code, rerun.out) == (0, b"once more\n")
    assert cli.ok("ls", "--json", "--limit", "1").json["items"][0]["rerun_of"] == job
    file = tmp_path / "again.yaml"
    cli.ok("clone", job, "-o", str(file))
    assert cli("clone", job, "-o", str(file)).code == 1
    cli.ok("clone", job, "-o", str(file), "--force")
    assert cli("submit", "-f", str(file)).out == b"once more\n"
    assert "once more" in cli.ok("clone", job).text
    assert "once more" in cli.ok("clone", "--source", job).text


def test_events_tell_the_story(cli: Cli) -> None:
    job = cli("submit", "--wait", "--json", "--", "true").json["id"]
    events = [json.loads(line) for line in cli.ok("events", "--json", job).text.splitlines()]
    assert [event["seq"] for event in events] == sorted(event["seq"] for event in events)
    assert events[0]["actor"] == "admin"
    followed = cli.ok("events", "-f", job).text.splitlines()
    assert len(followed) == len(events)


def test_an_attempt_that_does_not_exist(cli: Cli) -> None:
    job = cli("submit", "--wait", "--json", "--", "true").json["id"]
    assert " has no attempt 4\n" in cli("logs", job, "--attempt", "4").err
    assert " has no task main-0, attempt 0, try 3\n" in cli("logs", job, "main-0", "--attempt", "0", "--try", "3").err
    assert cli("logs", job, "--attempt", "4", "--json").error["code"] == "not_found"


def test_a_job_that_does_not_exist(cli: Cli) -> None:
    for command in ("show", "logs", "wait", "clone", "rerun", "events"):
        result = cli(command, "no-such-job")
        assert (result.code, result.out) == (1, b"")
        assert "no-such-job" in result.err
        assert cli(command, "no-such-job", "--json").error["code"] == "not_found"


@pytest.mark.parametrize("args", [("top",), ("top", "--once"), ("top", "--json")])
def test_top_shows_machines_and_jobs(cli: Cli, args: tuple[str, ...]) -> None:
    job = submitted(cli, "--", "sleep 600")
    shown = cli.ok(*args).text
    assert job in shown
    assert "NODE" in shown or "nodes" in shown
    cli.ok("stop", job)

"""Jobs from the file to the log, through a real server and the embedded engine."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .server import TIMEOUT, Server

SMALL = "resources: {cpu: 0.1, memory: 64Mi}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("journey") / "home")
    running.start()
    yield running
    running.stop()


def run(server: Server, text: str) -> tuple[dict[str, Any], str]:
    """The job's end and the merged log of its first task."""
    end = server.wait(server.submit(text)["id"])
    return end, server.get(f"/jobs/{end['id']}/log").text


def events(server: Server, job_id: str) -> list[dict[str, Any]]:
    return list(server.get(f"/jobs/{job_id}/events").json()["items"])


def test_exit_code_and_both_streams(server: Server) -> None:
    end, log = run(server, f"name: a\n{SMALL}\ncommands: ['echo out', 'echo err >&2', 'exit 7', 'echo never']")
    assert (end["state"], end["exit_code"], end["exit_kind"]) == ("Failed", 7, "user-error")
    assert log == "out\nerr\n"
    assert server.get(f"/jobs/{end['id']}/log", stream="stderr").text == "err\n"


def test_every_state_change_is_an_event_with_its_actor(server: Server) -> None:
    end, _ = run(server, f"name: a\n{SMALL}\ncommand: 'true'")
    found = [(event["kind"], event["actor"], event["state"]) for event in events(server, end["id"])]
    assert found == [
        ("submitted", "admin", "Pending"),
        ("placed", "holdfast", "Preparing"),
        ("started", "holdfast", "Running"),
        ("succeeded", "holdfast", "Succeeded"),
    ]


def test_roles_start_together_and_see_their_own_index(server: Server) -> None:
    echo = "command: 'echo $HOLDFAST_TASK'"
    text = f"name: gang\n{SMALL}\nroles:\n  ps: {{{echo}}}\n  worker: {{instances: 2, {echo}}}"
    end, _ = run(server, text)
    assert end["state"] == "Succeeded"
    for task in ("ps-0", "worker-0", "worker-1"):
        assert server.get(f"/jobs/{end['id']}/log", task=task).text == f"{task}\n"


def test_time_limit(server: Server) -> None:
    end, log = run(server, f"name: slow\n{SMALL}\ntime_limit: 1s\ngrace: 1s\ncommand: echo begun; sleep 100")
    assert (end["state"], end["exit_kind"]) == ("Failed", "time-limit")
    assert end["message"] == "Exceeded its time limit of 1s"
    assert log == "begun\n"


def test_stop_is_gentle_first_and_then_not(server: Server) -> None:
    script = "trap 'echo asked' TERM; echo begun; while :; do sleep 0.1 || :; done"
    stubborn = f'name: stubborn\n{SMALL}\ngrace: 1s\ncommand: "{script}"'
    job = server.submit(stubborn)["id"]
    with server.client() as client, client.stream("GET", f"/jobs/{job}/log", params={"follow": "true"}) as log:
        next(log.iter_bytes())
        client.post(f"/jobs/{job}/stop")
    end = server.wait(job)
    assert end["state"] == "Cancelled"
    said = server.get(f"/jobs/{job}/log", stream="stdout").text
    assert said.startswith("begun\nasked\n")


def test_a_stopped_jobs_children_are_gone(server: Server) -> None:
    own = str(100_000 + server.port)  # other tests' tasks may sleep as well
    command = f"(setsid sleep {own} &) ; echo begun; sleep {own}"
    job = server.submit(f"name: family\n{SMALL}\ngrace: 0s\ncommand: {command}")["id"]
    with server.client() as client, client.stream("GET", f"/jobs/{job}/log", params={"follow": "true"}) as log:
        next(log.iter_bytes())
        client.post(f"/jobs/{job}/stop")
    server.wait(job)
    left = [path for path in Path("/proc").glob("[0-9]*/cmdline") if b"sleep\0" + own.encode() in _read(path)]
    assert not left


def test_out_of_memory_is_told_apart(server: Server) -> None:
    eat = "python3 -c 'import time; x = bytes([1]) * 300_000_000; time.sleep(60)'"  # until someone notifications
    end, _ = run(server, f"name: hungry\nresources: {{cpu: 0.5, memory: 64Mi}}\ncommand: {eat}")
    assert (end["state"], end["exit_kind"]) == ("Failed", "out-of-memory")
    assert "64 MiB" in end["message"]


def test_more_than_the_machine_has(server: Server) -> None:
    end, log = run(server, "name: huge\nresources: {cpu: 5000, memory: 900Ti, gpu: 99}\ncommand: 'true'")
    assert (end["state"], end["exit_kind"]) == ("Failed", "refused")
    for part in ("System Error", "5000 cores", "of memory", "99 GPUs"):
        assert part in end["message"]
    assert json.loads(log)["error"]["code"] == "no_log"


def test_an_unknown_image_fails_before_running_and_names_the_known(server: Server) -> None:
    end, _ = run(server, f"name: x\nimage: nobody/knows:1\n{SMALL}\ncommand: 'true'")
    assert end["state"] == "Failed"
    assert end["started_at"] is None
    assert "nobody/knows:1" in end["message"]
    assert "Available images: host" in end["message"]


def test_openpai_v2_with_secrets_that_need_care(server: Server) -> None:
    text = """\
protocolVersion: 2
name: pai_two
type: job
prerequisites:
  - {type: dockerimage, name: image, uri: host}
parameters: {greeting: hello}
secrets: {password: 'a<b>&"c'}
taskRoles:
  worker:
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 0}
    commands:
      - echo <% $parameters.greeting %>
      - printf %s '<% $secrets.password %>' | base64
deployments:
  - name: debug
    taskRoles: {worker: {preCommands: ['mkdir -p /pai_data/debug', 'cd /pai_data/debug'], postCommands: ['pwd']}}
defaults: {deployment: debug}
"""
    end, log = run(server, text)
    assert end["state"] == "Succeeded", log
    assert log == "hello\nYTxiPiYiYw==\n/pai_data/debug\n"
    for path in (f"/jobs/{end['id']}", f"/jobs/{end['id']}/yaml", f"/jobs/{end['id']}/source"):
        assert "a<b>" not in server.get(path).text


def test_openpai_v1_json_goes_on_after_a_failed_command(server: Server) -> None:
    job = {
        "jobName": "pai_one",
        "image": "host",
        "jobEnvs": {"GREETING": "hi"},
        "taskRoles": [{"name": "main", "memoryMB": 100, "command": "false; echo $GREETING"}],
    }
    end, log = run(server, json.dumps(job))
    assert (end["state"], log) == ("Succeeded", "hi\n")


def test_primehub_form(server: Server) -> None:
    job = {
        "displayName": "form",
        "groupName": "default",
        "instanceType": "cpu-1",
        "image": "host",
        "command": "pwd\necho $PRIMEHUB_USER $PRIMEHUB_GROUP",
        "activeDeadlineSeconds": 60,
    }
    end, log = run(server, json.dumps(job))
    assert (end["state"], log) == ("Succeeded", "/home/jovyan\nadmin default\n")


def test_rerun_keeps_secrets_and_clone_masks_them(server: Server) -> None:
    first, log = run(server, f"name: s\n{SMALL}\nsecrets: {{TOKEN: abc}}\ncommand: echo $TOKEN")
    assert log == "abc\n"
    with server.client() as client:
        again = client.post(f"/jobs/{first['id']}/rerun").json()
    assert again["rerun_of"] == first["id"]
    server.wait(again["id"])
    assert server.get(f"/jobs/{again['id']}/log").text == "abc\n"
    assert "******" in server.get(f"/jobs/{first['id']}/yaml").text


def test_a_job_sees_neither_the_servers_state_nor_other_peoples_secrets(server: Server) -> None:
    look = f"cat {server.home}/client.json; ls -A {server.home} /root; cut -d: -f2 /etc/shadow | sort -u"
    _, log = run(server, f"name: nosy\n{SMALL}\nshell_options: []\ncommand: {json.dumps(look)}")
    assert server.token not in log
    assert "holdfast.db" not in log
    # To root a shadow file with every name and no password, to others none at all.
    assert "*" in log.splitlines() or "/etc/shadow: Permission denied" in log


@pytest.mark.release
def test_logs_expire_and_the_record_stays(tmp_path: Path) -> None:
    server = Server(tmp_path / "home")
    server.start()
    job = server.wait(server.submit(f"name: old\n{SMALL}\ncommand: echo hello")["id"])["id"]
    server.stop()
    server.settings = {"HOLDFAST_LOGS_KEEP_DAYS": "0.0000001"}
    server.start()
    try:
        with server.client() as client:
            until = time.monotonic() + TIMEOUT
            while (reply := client.get(f"/jobs/{job}/log")).status_code != 410:  # the sweep begins with the server
                assert time.monotonic() < until, reply.text
        assert reply.status_code == 410
        assert "expired on" in reply.json()["error"]["message"]
        assert server.get(f"/jobs/{job}").json()["state"] == "Succeeded"
    finally:
        server.stop()


def test_an_unknown_image_may_run_on_host_with_a_warning(tmp_path: Path) -> None:
    server = Server(tmp_path / "home", HOLDFAST_IMAGES_UNKNOWN="host")
    server.start()
    try:
        end, log = run(server, f"name: x\nimage: nobody/knows:1\n{SMALL}\ncommand: echo ran")
        assert (end["state"], log) == ("Succeeded", "ran\n")
        warnings = [event["message"] for event in events(server, end["id"]) if event["kind"] == "warning"]
        assert ["nobody/knows:1" in warning for warning in warnings] == [True, True]  # when it came, and when it ran
    finally:
        server.stop()


def test_a_second_server_on_the_same_folder_says_so(server: Server) -> None:
    second = Server(server.home)
    with pytest.raises(AssertionError, match="ended by itself") as refusal:
        second.start()
    assert "already running" in str(refusal.value)
    assert server.url in str(refusal.value)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.release
def test_a_lost_database_is_not_taken_for_a_first_start(tmp_path: Path) -> None:
    server = Server(tmp_path / "home")
    server.start()
    server.wait(server.submit(f"name: a\n{SMALL}\ncommand: echo hello")["id"])
    server.stop()
    for file in server.home.glob("holdfast.db*"):
        file.unlink()
    with pytest.raises(AssertionError, match="database is empty"):
        server.start()

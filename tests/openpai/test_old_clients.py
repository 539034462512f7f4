"""What the VS Code client and OpenPAI's Python SDK ask, in their order, of a real server."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.e2e.server import TIMEOUT, Server

from .place import FINAL, PASSWORD, place

GUEST = "Guest is not allowed to do this operation."
JOB = """
protocolVersion: 2
name: {name}
type: job
prerequisites: [{{name: image, type: dockerimage, uri: host}}]
taskRoles:
  main:
    dockerImage: image
    resourcePerInstance: {{cpu: 1, memoryMB: 64, gpu: 0, ports: {{debug: 1}}}}
    commands: ["{command}"]
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with place(tmp_path_factory.mktemp("old") / "home", HOLDFAST_ACCESS_READING="anyone") as running:
        yield running


@pytest.fixture
def http(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=TIMEOUT) as client:
        yield client


def log_in(http: httpx.Client) -> dict[str, str]:
    form = {"username": "ann", "password": PASSWORD, "expiration": "36000"}
    token = http.post("/rest-server/api/v1/token", data=form).raise_for_status().json()["token"]
    return {"Authorization": f"Bearer {token}"}


def when(http: httpx.Client, name: str, states: tuple[str, ...]) -> dict[str, Any]:
    began = time.monotonic()
    while time.monotonic() - began < TIMEOUT:
        job = http.get(f"/rest-server/api/v1/user/ann/jobs/{name}").raise_for_status().json()
        if job["jobStatus"]["state"] in states:
            return dict(job)
        time.sleep(0.2)
    raise AssertionError(job)


@pytest.mark.release
def test_vs_code_finds_out_what_the_server_is(http: httpx.Client) -> None:
    assert http.get("/healthz").status_code == 200  # so it uses /rest-server and not a port of its own
    probe = http.get("/rest-server/api/v2/jobs/protocolversion/config")
    assert probe.json()["code"] != "NoApiError"  # so it submits protocol v2
    info = http.get("/rest-server/api/v2/authn/info").raise_for_status().json()
    assert info["authn_type"] == "basic"


def test_vs_code_submits_under_a_name_that_is_free(http: httpx.Client) -> None:
    auth = log_in(http)
    unknown = http.get("/rest-server/api/v1/user/ann/jobs/from-code", headers=auth)
    assert (unknown.status_code, unknown.json()["code"]) == (404, "NoJobError")  # it goes on only then
    text = JOB.format(name="from-code", command="echo hello")
    sent = http.post("/rest-server/api/v2/jobs", content=text, headers={**auth, "Content-Type": "text/yaml"})
    assert sent.status_code == 202
    assert when(http, "from-code", FINAL)["jobStatus"]["state"] == "SUCCEEDED"
    listed = http.get("/rest-server/api/v1/jobs", params={"username": "ann"}, headers=auth).json()
    assert "from-code" in [job["name"] for job in listed]
    assert http.get("/rest-server/api/v2/storages", headers=auth).json() == {"storages": []}


def test_vs_code_submits_protocol_v1_as_a_form(http: httpx.Client) -> None:
    form = {
        "jobName": "from-code-1",
        "image": "host",
        "jobEnvs[WORD]": "a=b&c",
        "taskRoles[0][name]": "main",
        "taskRoles[0][taskNumber]": "1",
        "taskRoles[0][cpuNumber]": "1",
        "taskRoles[0][memoryMB]": "64",
        "taskRoles[0][gpuNumber]": "0",
        "taskRoles[0][command]": 'test "$WORD" = "a=b&c"',
    }
    sent = http.post("/rest-server/api/v1/user/ann/jobs", data=form, headers=log_in(http))
    assert (sent.status_code, sent.json()["message"]) == (202, "update job from-code-1 successfully")
    assert when(http, "from-code-1", FINAL)["jobStatus"]["state"] == "SUCCEEDED"


def test_the_python_sdk_reads_without_login_and_follows_the_log(http: httpx.Client, server: Server) -> None:
    auth = log_in(http)
    me = http.get("/rest-server/api/v1/user/ann", headers=auth).raise_for_status().json()
    assert "default" in me["virtualCluster"]
    text = JOB.format(name="from-python", command="echo one line")
    yaml = {**auth, "Content-Type": "text/yaml"}
    assert http.post("/rest-server/api/v2/jobs", content=text, headers=yaml).status_code in (201, 202)
    job = when(http, "from-python", FINAL)
    assert "from-python" in [each["name"] for each in http.get("/rest-server/api/v1/jobs").json()]
    config = http.get("/rest-server/api/v1/user/ann/jobs/from-python/config").raise_for_status().json()
    assert config["name"] == "from-python"
    (task,) = job["taskRoles"]["main"]["taskStatuses"]
    page = http.get(httpx.URL(server.url).join(f"{task['containerLog']}user.pai.stdout/?start=0"))
    assert page.status_code == 200
    assert re.search(r"<pre>.*one line", page.text, re.DOTALL)


def test_the_debugging_guide_finds_the_host_and_the_port_of_a_running_task(http: httpx.Client) -> None:
    auth = log_in(http)
    text = JOB.format(name="to-debug", command="sleep 3600")
    http.post("/rest-server/api/v2/jobs", content=text, headers={**auth, "Content-Type": "text/yaml"})
    (task,) = when(http, "to-debug", ("RUNNING",))["taskRoles"]["main"]["taskStatuses"]
    assert task["containerIp"]
    assert task["containerPorts"]["debug"].isdigit()
    stop = http.put("/rest-server/api/v1/user/ann/jobs/to-debug/executionType", json={"value": "STOP"}, headers=auth)
    assert stop.status_code == 202
    assert when(http, "to-debug", FINAL)["jobStatus"]["state"] == "STOPPED"


def test_nobody_acts_without_login_where_anyone_may_read(http: httpx.Client) -> None:
    for method, path in [
        ("POST", "/v2/jobs"),
        ("POST", "/v1/user/ann/jobs"),
        ("PUT", "/v1/user/ann/jobs/from-code/executionType"),
        ("DELETE", "/v1/user/ann/jobs/from-code"),
        ("PUT", "/v2/jobs/ann~from-code/tag"),
        ("GET", "/v2/users"),
        ("GET", "/v2/tokens"),
    ]:
        reply = http.request(method, f"/rest-server/api{path}", json={"value": "STOP"})
        assert (reply.status_code, reply.json()) == (401, {"code": "UnauthorizedUserError", "message": GUEST}), path

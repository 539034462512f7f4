"""Slurm's options from settings, groups, SKU types, instance types and jobs, on a real cluster with two partitions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.slurm_cluster import SlurmCluster, run_cluster

from .server import Server

pytestmark = pytest.mark.release

SHOW = 'scontrol show job -o "$SLURM_JOB_ID"'
A100 = {"cpu": 1, "memory": 64 * 2**20, "gpu": 1, "slurm": {"partition": "gpu", "gres": "gpu:a100:1"}}


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    with run_cluster(gpus=True) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, cluster: SlurmCluster) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("options")
    running = Server(
        folder / "home",
        HOLDFAST_ENGINE_KIND="slurm",
        HOLDFAST_SLURM_FOLDER=str(folder / "shared"),
        HOLDFAST_SLURM_CONF=str(cluster.conf),
        HOLDFAST_JOBS_TIME_LIMIT="60",  # the partition short allows 5 minutes
        HOLDFAST_SLURM_PARTITION="short",
        HOLDFAST_SLURM_CONSTRAINT="ib",
        HOLDFAST_SLURM_ISOLATION="none",  # the tasks ask scontrol
        SLURM_CONF=str(cluster.conf),
    )
    running.start()
    try:
        send(running, "post", "/instance-types", {"name": "a100", **A100})
        send(running, "post", "/groups", {"name": "lab", "slurm": {"partition": "main"}})
        send(running, "put", "/groups/lab/members/admin", {"admin": False})
        yield running
    finally:
        running.stop()


def send(server: Server, method: str, path: str, body: Any) -> None:
    with server.client() as client:
        reply = client.request(method, path, json=body)
    assert reply.is_success, (path, reply.text)


def run(server: Server, text: str) -> dict[str, str]:
    """What Slurm knows about the job of its task."""
    ended = server.wait(server.submit(text)["id"])
    log = server.get(f"/jobs/{ended['id']}/log").text
    assert ended["state"] == "Succeeded", (ended["message"], log)
    return dict(word.split("=", 1) for word in log.split() if "=" in word)


def write_job(**more: Any) -> str:
    resources = {} if "instance_type" in more else {"resources": {"cpu": 1, "memory": "64Mi"}}
    return json.dumps({"name": "show", "image": "host", "command": SHOW, **resources, **more})


def test_a_job_gets_the_options_of_the_settings_and_of_its_group(server: Server) -> None:
    seen = run(server, write_job())
    assert (seen["Partition"], seen["Features"], seen["NodeList"]) == ("short", "ib", "n3")
    seen = run(server, write_job(group="lab"))
    assert (seen["Partition"], seen["Features"]) == ("main", "ib")
    assert run(server, write_job(group="lab", slurm={"partition": "gpu"}))["Partition"] == "gpu"


def test_the_capacity_is_that_of_all_partitions(server: Server) -> None:
    (node,) = server.get("/capacity").json()["nodes"]
    assert (node["cpu"], len(node["gpus"])) == (24, 6)


def test_an_openpai_file_runs_where_its_sku_type_is(server: Server) -> None:
    role = {"dockerImage": "img", "resourcePerInstance": {"cpu": 2, "memoryMB": 128, "gpu": 2}, "commands": [SHOW]}
    job = {
        "protocolVersion": 2,
        "name": "sku",
        "type": "job",
        "defaults": {"virtualCluster": "lab"},
        "prerequisites": [{"name": "img", "type": "dockerimage", "uri": "host"}],
        "taskRoles": {"worker": role},
        "extras": {"hivedScheduler": {"taskRoles": {"worker": {"skuType": "a100", "skuNum": 2}}}},
    }
    seen = run(server, json.dumps(job))
    assert (seen["Partition"], seen["NodeList"], seen["TresPerNode"]) == ("gpu", "n2", "gres:gpu:a100:2")


def test_a_form_of_primehub_runs_where_its_instance_type_is(server: Server) -> None:
    form = {"displayName": "form", "instanceType": "a100", "image": "host", "groupId": "lab", "command": SHOW}
    seen = run(server, json.dumps(form))
    assert (seen["Partition"], seen["NodeList"], seen["TresPerNode"]) == ("gpu", "n2", "gres:gpu:a100:1")


def test_a_gang_has_the_options_of_each_role(server: Server) -> None:
    roles = {"a": {"instance_type": "a100"}, "b": {"resources": {"cpu": 1, "memory": "64Mi"}}}
    command = 'squeue -h -j "$SLURM_JOB_ID" -o "%i %P %b"'
    job = server.submit(json.dumps({"name": "gang", "image": "host", "command": command, "roles": roles}))
    assert server.wait(job["id"])["state"] == "Succeeded"
    log = server.get(f"/jobs/{job['id']}/log", task="a-0").text
    listed = sorted(line.split()[1:] for line in log.splitlines())
    assert listed == [["gpu", "gres:gpu:a100:1"], ["short", "N/A"]]


def test_the_options_of_a_job_are_shown_with_their_sources(server: Server) -> None:
    text = write_job(instance_type="a100", group="lab", slurm={"constraint": "ib&ib"})
    with server.client() as client:
        plan = client.post("/jobs/plan", content=text.encode()).json()
    assert plan["verdict"] == "now", plan
    assert [(option["name"], option["value"], option["source"]) for option in plan["slurm"]] == [
        ("partition", "gpu", "instance-type"),
        ("constraint", "ib&ib", "job"),
        ("gres", "gpu:a100:1", "instance-type"),
    ]

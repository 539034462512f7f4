"""Every file of examples/openpai, submitted as OpenPAI's clients submit, does what it says."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.server import TIMEOUT, Server

from .place import Pai, place

SAMPLES = Path(__file__).parents[2] / "examples" / "openpai"
BANNER = "======   The job container failed, so it will be reserved for 1 week   ======\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("samples")
    corpus = folder / "corpus"
    corpus.mkdir()
    (corpus / "hello.txt").write_text("hello\n")
    with place(folder / "home") as running:
        with running.client() as admin:
            dataset = {"name": "corpus", "path": str(corpus), "groups": ["default"]}
            admin.post("/datasets", json=dataset).raise_for_status()
        yield running


@pytest.fixture(scope="module")
def ann(server: Server) -> Iterator[Pai]:
    pai = Pai(server)
    yield pai
    pai.http.close()


def run(ann: Pai, name: str) -> dict[str, Any]:
    """The end of the sample `name`, which is the job's name as well."""
    begin(ann, name)
    return ann.end(name)


def begin(ann: Pai, name: str) -> None:
    path = SAMPLES / f"{name}.yaml"
    if path.exists():
        ann.submit(path.read_text())
    else:
        ann.submit_first((SAMPLES / f"{name}.json").read_text())


def tasks(job: dict[str, Any], role: str) -> list[dict[str, Any]]:
    return list(job["taskRoles"][role]["taskStatuses"])


def state(job: dict[str, Any]) -> str:
    return str(job["jobStatus"]["state"])


def numbers(text: str) -> list[int]:
    return [int(found) for found in re.findall(r"\d+", text)]


def test_every_sample_is_run_here_and_told_of_in_its_readme() -> None:
    told = (SAMPLES / "README.md").read_text()
    source = Path(__file__).read_text()
    names = [path for path in SAMPLES.iterdir() if path.suffix in (".yaml", ".json")]
    assert names
    assert [path.name for path in names if f"[{path.name}]" not in told] == []
    assert [path.name for path in names if f'(ann, "{path.stem}")' not in source] == []


def test_roles_find_each_other_and_the_workers_decide(ann: Pai) -> None:
    job = run(ann, "multi-role")
    assert state(job) == "SUCCEEDED"
    (ps,) = tasks(job, "ps")
    assert (ps["taskState"], ps["containerExitCode"]) == ("STOPPED", -220)
    where = {f"{role}{task['taskIndex']}": _at(task) for role in ("ps", "worker") for task in tasks(job, role)}
    for index in (0, 1):
        said = f"train --ps {where['ps0']} --workers {where['worker0']},{where['worker1']} --index {index} --of 2\n"
        assert ann.log("multi-role", "worker", index) == said
    said = [line for line in ann.log("multi-role", "ps").splitlines() if line != "Terminated"]
    assert said in ([f"serving on {where['ps0']}"], [])  # the workers may be through before it says anything


def _at(task: dict[str, Any]) -> str:
    return f"{task['containerIp']}:{task['containerPorts']['grpc']}"


def test_ports_in_the_task_are_those_of_the_detail(ann: Pai) -> None:
    job = run(ann, "ports")
    (task,) = tasks(job, "web")
    ports = task["containerPorts"]
    api, debug, others, everything = ann.log("ports", "web").splitlines()
    assert api == f"api on {ports['api']}"
    assert debug == f"debug on {ports['debug']}"
    assert others == f"http on {ports['http']}, ssh on {ports['ssh']}"
    assert set(everything.removeprefix("all ").strip(";").split(";")) == {f"{name}:{ports[name]}" for name in ports}
    assert len(set(numbers(everything))) == 5


def test_the_chosen_deployment_is_around_the_commands(ann: Pai) -> None:
    assert state(run(ann, "deployments")) == "SUCCEEDED"
    said = "working in /tmp with 512 samples at a time\ndone in /tmp\n"
    assert ann.log("deployments", "worker") == said


def test_templates_are_filled_in_and_secrets_stay_secret(ann: Pai) -> None:
    assert state(run(ann, "templates")) == "SUCCEEDED"
    assert ann.log("templates", "worker").splitlines() == [
        *(f"epoch {number}" for number in (1, 2, 3)),
        "adam at 0.01",
        "https://example.org/train.py reads /data/train, writes /out/model",
        "a password of 9 characters",
    ]
    config = ann.http.get("/v2/jobs/ann~templates/config").text
    assert "******" in config
    assert "a&b" not in config


def test_a_job_is_tried_again_as_a_whole(ann: Pai) -> None:
    job = run(ann, "job-retry")
    assert state(job) == "SUCCEEDED"
    assert (job["jobStatus"]["retries"], job["jobStatus"]["retryDetails"]["user"]) == (2, 2)
    for attempt, ended in enumerate(("FAILED", "FAILED", "SUCCEEDED")):
        found = ann.job("job-retry", f"/attempts/{attempt}")
        assert found["jobStatus"]["attemptState"] == ended
        assert ann.log("job-retry", "worker", attempt=attempt) == f"attempt {attempt}\n"
    first = ann.job("job-retry", "/attempts/0")["taskRoles"]["worker"]["taskStatuses"][0]
    assert first["containerExitCode"] == 255


def test_one_task_is_tried_again(ann: Pai) -> None:
    job = run(ann, "task-retry")
    assert state(job) == "SUCCEEDED"
    assert job["jobStatus"]["retries"] == 0
    assert [task["retries"] for task in tasks(job, "shard")] == [0, 1]
    tries = ann.job("task-retry", "/attempts/0/taskRoles/shard/taskIndex/1/attempts")["attempts"]
    assert [each["attemptState"] for each in tries] == ["SUCCEEDED", "FAILED"]  # newest first
    assert [ann.log("task-retry", "shard", 1, retry=number) for number in (0, 1)] == [
        "shard 1, try 0\n",
        "shard 1, try 1\n",
    ]


def test_the_first_success_ends_the_job_and_a_failure_does_not(ann: Pai) -> None:
    job = run(ann, "completion")
    assert state(job) == "SUCCEEDED"
    said = "SucceededTaskCount 1 has reached MinSucceededTaskCount 1 in the TaskRole"
    assert job["jobStatus"]["appExitTriggerMessage"] == said
    hopeless, lucky = ((task["taskState"], task["containerExitCode"]) for task in tasks(job, "search"))
    assert hopeless in [("FAILED", 255), ("STOPPED", -220)]  # the second on a machine too busy to let it fail first
    assert lucky == ("SUCCEEDED", 0)
    assert ann.log("completion", "search", 1) == "the answer is 42\n"


def test_plugins_run_around_the_task(ann: Pai) -> None:
    assert state(run(ann, "plugins")) == "SUCCEEDED"
    assert ann.log("plugins", "worker", stream="stdout").splitlines() == [
        "hello from a prerequisite",
        "prepared by a plugin",
        "cleaned up",
        "goodbye from a prerequisite",
    ]


def test_a_storage_is_mounted_where_it_is_wanted(ann: Pai) -> None:
    assert state(run(ann, "storages")) == "SUCCEEDED"
    assert ann.log("storages", "reader") == "hello\nhello\n"


def test_shared_memory_has_the_size_asked_for(ann: Pai) -> None:
    assert state(run(ann, "shared-memory")) == "SUCCEEDED"
    assert ann.log("shared-memory", "loader") == f"32 MiB\nwrote {16 * 1024**2} bytes\n"


def test_priority_is_shown_in_the_list(ann: Pai) -> None:
    assert state(run(ann, "priority")) == "SUCCEEDED"
    assert ann.log("priority", "worker") == "an important job of ann in default\n"
    listed = ann.http.get("/v2/jobs", params={"jobPriority": "prod"}).json()
    assert [job["name"] for job in listed] == ["priority"]


def test_protocol_v1(ann: Pai) -> None:
    job = run(ann, "v1")
    assert state(job) == "SUCCEEDED"
    for task in tasks(job, "worker"):
        index, port = task["taskIndex"], task["containerPorts"]["web"]
        said = f"hello from worker-{index}, data in /data/ann, port {port}\n"
        assert ann.log("v1", "worker", index) == said


def test_protocol_v1_for_debugging(ann: Pai) -> None:
    """It is reserved when it has failed, and ends as failed as it was when it is stopped."""
    begin(ann, "v1-debug")
    began = time.monotonic()
    while "holdfast-held" not in (job := ann.job("v1-debug"))["tags"] or BANNER not in ann.log("v1-debug", "worker"):
        assert time.monotonic() - began < TIMEOUT, job
        time.sleep(0.1)
    assert state(job) == "RUNNING"
    said = "the script goes on after a failure\n\nisDebug is true\njob has finished with exit code 3\n"
    assert ann.log("v1-debug", "worker").startswith(said)
    ann.http.put("/v1/user/ann/jobs/v1-debug/executionType", json={"value": "STOP"}).raise_for_status()
    job = ann.end("v1-debug")
    assert state(job) == "FAILED"
    assert job["jobStatus"]["appExitMessages"]["runtime"]["originUserExitCode"] == 3

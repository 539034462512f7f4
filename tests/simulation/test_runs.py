"""Every dialect, whole or cut down, told from what the tasks themselves say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import UserError
from holdfast.core.job import Job, Resources, Role
from holdfast.simulation import RemarkLevel, RemarkTopic, ServerView

from ..engines.archives import shell_entries, tar
from ..engines.registries import build_image, start_registry
from .simulations import Place

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/jobspec/golden"
SEEDS = sorted(
    path
    for folder in (
        ROOT / "examples",
        GOLDEN / "holdfast",
        GOLDEN / "openpai-v1",
        GOLDEN / "openpai-v2",
        GOLDEN / "primehub",
    )
    for path in folder.rglob("*")
    if path.suffix in (".yaml", ".json") and not path.name.endswith(".expected.json")
)


def test_our_own_with_roles_ports_and_secrets(place: Place) -> None:
    found = place.run(
        {
            "name": "own",
            "secrets": {"password": "hunter22"},
            "roles": {
                "server": {"command": "sleep 600", "ports": {"web": 1}},
                "client": {
                    "command": "echo $HOLDFAST_PORT_WEB\n"
                    "echo $HOLDFAST_TASK of $HOLDFAST_TASK_COUNT says '<% $secrets.password %>'",
                    "ports": {"web": 1},
                    "instances": 3,
                    "completion": {"min_succeeded": 3},
                },
            },
        }
    )
    assert found.alarms == []
    assert "client-0 | client-0 of 1 says ******" in found.lines
    assert any(line.removeprefix("client-0 | ").isdigit() for line in found.lines)
    assert [task.task for task in found.report.tasks] == ["server-0", "client-0"]
    (cut,) = found.remarks(RemarkTopic.INSTANCES, RemarkLevel.NOTE)
    assert (cut.role, cut.text) == ("client", "Runs 1 of 3 instances")


def test_a_real_folder_is_not_changed_unless_allowed(place: Place, tmp_path: Path) -> None:
    mount = {"source": str(tmp_path), "target": "/data", "read_only": False}
    job = {"name": "writes", "image": "host", "command": "echo x >/data/new", "mounts": [mount]}
    found = place.run(job)
    assert list(tmp_path.iterdir()) == []
    assert "read-only in the simulation. To let" in found.lines[0]
    assert (found.report.tasks[0].code, found.report.has_problems) == (1, False)
    (warning,) = found.remarks(RemarkTopic.EXIT, RemarkLevel.WARNING)
    assert "/data is read-only only in a simulation" in warning.text

    found = place.run(job, write_mounts=True)
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert found.lines[0] == f"simulation | Writes to /data change the real folder {tmp_path}."
    assert found.alarms == []


def test_a_relative_write_in_a_protected_folder_is_no_problem_of_the_job(place: Place, tmp_path: Path) -> None:
    mount = {"source": str(tmp_path), "target": "/data", "read_only": False}
    job = {"name": "w", "image": "host", "command": "touch new", "workdir": "/data", "mounts": [mount]}
    assert not place.run(job).report.has_problems
    assert list(tmp_path.iterdir()) == []
    assert place.run({**job, "mounts": [{**mount, "read_only": True}]}).report.has_problems


def test_one_role_knows_of_the_others_and_all_instances_run(place: Place) -> None:
    made = {
        "protocolVersion": 2,
        "name": "two",
        "type": "job",
        "prerequisites": [{"name": "i", "type": "dockerimage", "uri": "host"}],
        "taskRoles": {
            "ps": _openpai_role("sleep 600"),
            "worker": {**_openpai_role("echo $PAI_TASK_INDEX $PAI_PORT_LIST_ps_0_rpc"), "instances": 2},
        },
    }
    alone = place.run({**made, "taskRoles": {**made["taskRoles"], "ps": _openpai_role("true")}}, roles=("ps",))
    assert [each for each in alone.report.remarks if each.role == "worker"] == []
    found = place.run(made, roles=("worker",), instances=None)
    assert found.alarms == []
    assert sorted(line.rpartition(" ")[0] for line in found.lines) == ["worker-0 | 0", "worker-1 | 1"]
    assert all(line.split()[-1].isdigit() for line in found.lines)
    with pytest.raises(UserError, match="no role 'wroker'"):
        place.run(made, roles=("wroker",))


def _openpai_role(command: str) -> dict[str, Any]:
    resources = {"cpu": 1, "memoryMB": 64, "gpu": 0, "ports": {"rpc": 1}}
    return {"instances": 1, "dockerImage": "i", "resourcePerInstance": resources, "commands": [command]}


def test_openpai_v1_runs(place: Place) -> None:
    role = {"name": "main", "taskNumber": 1, "cpuNumber": 1, "memoryMB": 64, "command": "echo v1 as $PAI_USER_NAME"}
    found = place.run({"jobName": "v1", "image": "tiny", "taskRoles": [role]}, view=ServerView(user="ada"))
    assert found.lines == ("main-0 | v1 as ada",)
    assert not found.report.has_problems


def test_openpai_plugins_run_before_and_after(place: Place) -> None:
    found = place.run((ROOT / "examples/openpai/plugins.yaml").read_text())
    said = [line.removeprefix("worker-0 | ") for line in found.lines]
    assert said.index("prepared by a plugin") < said.index("cleaned up") < said.index("goodbye from a prerequisite")
    assert found.alarms == []


def test_a_form_of_primehub_runs_at_home_among_empty_folders(place: Place) -> None:
    form = {"displayName": "form", "instanceType": "not-known-here", "image": "tiny", "groupName": "vision"}
    found = place.run({**form, "command": 'echo "$PWD $GROUP_NAME $INSTANCE_TYPE"; ls'})
    assert "main-0 | /home/jovyan vision not-known-here" in found.lines
    assert {"main-0 | phfs", "main-0 | datasets"} <= set(found.lines)
    notes = " ".join(each.text for each in found.report.remarks if each.level is RemarkLevel.NOTE)
    assert "The instance type not-known-here is unknown to the simulation" in notes
    assert "The group's files at /phfs are an empty folder" in notes


def test_resources_are_cut_to_what_is_here_and_it_is_said(place: Place) -> None:
    asked = {"cpu": 5000, "memory": "900Ti", "gpu": 3000}
    found = place.run({"name": "big", "command": "echo", "resources": asked})
    assert found.report.tasks[0].state == "Succeeded"
    (cut,) = found.remarks(RemarkTopic.RESOURCES, RemarkLevel.NOTE)
    assert "instead of 5000 cores" in cut.text
    assert "instead of 900 TiB" in cut.text
    assert "instead of 3000 GPUs" in cut.text


def test_what_only_the_server_knows_is_taken_from_it(place: Place, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("from the dataset\n")
    theirs = Job(name="asked", roles=(Role(name="main", commands=(), image="alias", image_url="tiny"),), group="team")
    view = ServerView(url="http://127.0.0.1:1", user="ada", job=theirs, verdict="wait", reasons=("the queue is long",))
    found = place.run({"name": "asked", "image": "alias", "command": "cat /etc/issue; echo $HOLDFAST_USER"}, view=view)
    assert found.lines == ("main-0 | tiny image", "main-0 | ada")
    (told,) = found.remarks(RemarkTopic.SERVER, RemarkLevel.NOTE)
    assert "The job would wait: the queue is long" in told.text
    never = ServerView(url="http://127.0.0.1:1", job=theirs, verdict="never", reasons=("no machine has it",))
    assert place.run({"name": "asked", "image": "alias", "command": "echo"}, view=never).report.has_problems
    assert Resources() == theirs.roles[0].resources


@pytest.mark.release_after(4)
@pytest.mark.parametrize("path", SEEDS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_job_file_upsets_the_simulator(place: Place, path: Path) -> None:
    found = place.run(path.read_text(), timeout=5.0)
    fails = {"fail.yaml", "retry.yaml", "job-retry.yaml", "v1-debug.json"}
    images = found.remarks(RemarkTopic.IMAGE, RemarkLevel.PROBLEM)
    assert found.report.has_problems == (path.name in fails or bool(images) or path.parent.name == "openpai-v2")
    json.dumps([each.text for each in found.report.remarks])


def test_an_image_of_a_registry_is_pulled_and_removed(place: Place, tmp_path: Path) -> None:
    with start_registry(tmp_path / "registry") as registry:
        registry.push_image("team/tiny:1", build_image([tar(shell_entries())]))
        settings = {"HOLDFAST_IMAGES_INSECURE_REGISTRIES": registry.host}
        images = {"good": f"{registry.host}/team/tiny:1", "typo": f"{registry.host}/team/tiny:2"}
        roles = {name: {"command": "cat /etc/issue", "image": image} for name, image in images.items()}
        found = place.run({"name": "pulled", "roles": roles}, environment=settings)
    assert "good-0 | tiny image" in found.lines
    (problem,) = found.remarks(RemarkTopic.IMAGE, RemarkLevel.PROBLEM)
    assert problem.text.startswith(f"Image {registry.host}/team/tiny:2 was not found")
    assert len(list(place.state.glob("images/roots/*"))) == 1  # tiny, which was there before

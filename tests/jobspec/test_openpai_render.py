"""Any job as an OpenPAI v2 file: what it says, what it notes, and that it can be submitted again."""

from __future__ import annotations

import json
import string
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.errors import InvalidJob
from holdfast.core.job import MIB, Completion, Hold, Job, JobFormat, Mount, Resources, Role
from holdfast.core.volumes import HostFolder
from holdfast.jobspec import Defaults, job_to_json, parse_job
from holdfast.jobspec.openpai_render import build_openpai_config, render_openpai_yaml
from tests.jobspec.jobs import jobs, json_values, scripts, texts, variables
from tests.jobspec.openpai_files import good_trees
from tests.longer import examples

unhurried = settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def again(config: dict[str, Any]) -> Job:
    """Submitted once more, with secrets filled in where they are masked."""
    if config.get("secrets") == "******":
        config = {**config, "secrets": {"filled": "in"}}
    return parse_job(json.dumps(config), dialect=JobFormat.OPENPAI_V2).job


@unhurried
@given(jobs())
def test_any_job_of_ours_becomes_a_file_that_parses(job: Job) -> None:
    config = build_openpai_config(replace(job, dialect=JobFormat.HOLDFAST))
    parsed = again(config)
    assert parsed.group == job.group
    assert parsed.gang == job.gang
    assert (parsed.hold, parsed.time_limit, parsed.grace) == (job.hold, job.time_limit, job.grace)
    assert len(parsed.roles) == len(job.roles)
    for made, role in zip(parsed.roles, job.roles, strict=True):
        assert (made.image, made.instances, made.completion) == (role.image, role.instances, role.completion)
        assert made.resources.cpu >= role.resources.cpu
        assert made.resources.memory >= role.resources.memory > made.resources.memory - MIB
        assert sum(made.ports.values()) >= sum(role.ports.values())
        own = tuple(line.strip() for line in role.commands)
        assert made.commands[len(made.commands) - len(own) :] == own


@unhurried
@given(jobs())
def test_secrets_are_never_in_it(job: Job) -> None:
    secret = "tell-nobody-5c1f"
    job = replace(job, secrets={"password": {"deep": [secret]}}, dialect=JobFormat.PRIMEHUB)
    text = json.dumps(build_openpai_config(job))
    assert secret not in text
    assert build_openpai_config(job)["secrets"] == "******"


V2 = {
    "protocolVersion": 2,
    "name": "written",
    "type": "job",
    "contributor": "somebody",
    "prerequisites": [{"name": "i", "type": "dockerimage", "uri": "host"}],
    "secrets": {"token": "tell-nobody-5c1f"},
    "parameters": {"lr": 0.1},
    "taskRoles": {
        "worker": {
            "dockerImage": "i",
            "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0},
            "commands": ["echo <% $parameters.lr %> <% $secrets.token %>"],
        }
    },
}


@pytest.mark.parametrize("indent", [None, 2])
def test_a_v2_file_comes_back_as_written_in_every_layout(indent: int | None) -> None:
    job = parse_job(json.dumps(V2, indent=indent)).job
    assert build_openpai_config(job) == {**V2, "secrets": "******"}


def test_a_v2_file_without_secrets_has_no_mask() -> None:
    plain = {key: value for key, value in V2.items() if key != "secrets"}
    assert build_openpai_config(parse_job(json.dumps(plain)).job) == plain


def test_a_registry_password_in_the_open_is_not_shown() -> None:
    auth = {"username": "u", "password": "tell-nobody-5c1f", "registryuri": "r.example"}
    written = {**V2, "prerequisites": [{"name": "i", "type": "dockerimage", "uri": "host", "auth": auth}]}
    text = json.dumps(build_openpai_config(parse_job(json.dumps(written)).job))
    assert "tell-nobody-5c1f" not in text


_v1_words = st.text(string.ascii_letters + string.digits + "._~", min_size=1, max_size=63)
_v1_role = st.fixed_dictionaries(
    {"name": _v1_words.filter(lambda name: name[0] != "."), "command": scripts},
    optional={
        "taskNumber": st.integers(1, 9),
        "memoryMB": st.integers(64, 4096),
        "portList": st.lists(st.fixed_dictionaries({"label": _v1_words, "portNumber": st.integers(0, 3)}), max_size=3),
        "minFailedTaskCount": st.none() | st.just(1),
        "minSucceededTaskCount": st.none() | st.just(1),
    },
)
_v1_files = st.fixed_dictionaries(
    {
        "jobName": st.text(string.ascii_letters + string.digits + "-._~", min_size=1, max_size=255),
        "image": st.just("host"),
        "taskRoles": st.lists(_v1_role, min_size=1, max_size=4, unique_by=lambda role: role["name"]),
    },
    optional={
        "jobEnvs": st.dictionaries(variables, texts | st.booleans() | st.integers(), max_size=3),
        "extras": st.dictionaries(st.sampled_from(["storages", "gangAllocation", "other.one"]), json_values),
        "dataDir": texts,
        "codeDir": texts,
        "authFile": texts,
        "retryCount": st.integers(-2, 9),
    },
)


@unhurried
@given(_v1_files)
def test_any_v1_file_becomes_a_v2_file_that_parses(written: dict[str, Any]) -> None:
    old = parse_job(json.dumps(written), dialect=JobFormat.OPENPAI_V1, defaults=Defaults(user="alice")).job
    new = again(build_openpai_config(old))
    assert new.hold == old.hold
    assert [role.resources for role in new.roles] == [role.resources for role in old.roles]
    assert [role.completion for role in new.roles] == [role.completion for role in old.roles]
    assert [sum(role.ports.values()) for role in new.roles] == [sum(role.ports.values()) for role in old.roles]
    assert [role.commands[-1] for role in new.roles] == [role.commands[-1].strip() for role in old.roles]


V1 = {
    "jobName": "old.one",
    "image": "host",
    "authFile": "hdfs://h/auth",
    "dataDir": "hdfs://h/data",
    "outputDir": "hdfs://h/out",
    "codeDir": "hdfs://h/$PAI_USER_NAME/code",
    "virtualCluster": "vc1",
    "gpuType": "k80",
    "retryCount": 3,
    "killAllOnCompletedTaskNumber": 1,
    "jobEnvs": {"isDebug": True, "LR": 0.1, "WORDS": "it's two"},
    "extras": {"kept": 1},
    "taskRoles": [
        {
            "name": "ps.main",
            "taskNumber": 2,
            "cpuNumber": 3,
            "memoryMB": 200,
            "gpuNumber": 1,
            "portList": [{"label": "web", "beginAt": 8080, "portNumber": 2}],
            "command": "python train.py\necho done",
            "minSucceededTaskCount": 2,
        },
        {"name": "worker", "command": "true", "minFailedTaskCount": None},
    ],
}


@pytest.fixture
def converted() -> dict[str, Any]:
    return build_openpai_config(parse_job(json.dumps(V1), defaults=Defaults(user="alice")).job)


def test_v1_head(converted: dict[str, Any]) -> None:
    assert converted["protocolVersion"] == 2
    assert converted["name"] == "old_one"
    assert converted["jobRetryCount"] == 3
    assert converted["defaults"] == {"virtualCluster": "vc1", "deployment": "default"}


def test_v1_image_with_its_login(converted: dict[str, Any]) -> None:
    image = next(item for item in converted["prerequisites"] if item["type"] == "dockerimage")
    assert (image["name"], image["uri"]) == ("default", "host")
    assert image["auth"] == {
        "username": "<% $secrets.registry.username %>",
        "password": "<% $secrets.registry.password %>",
    }


def test_v1_folders(converted: dict[str, Any]) -> None:
    found = {item["type"]: item["uri"] for item in converted["prerequisites"]}
    assert found["data"] == ["hdfs://h/data"]
    assert found["output"] == "hdfs://h/out"
    assert found["script"] == "hdfs://h/alice/code"
    assert {item["name"] for item in converted["prerequisites"]} == {"default"}
    for role in converted["taskRoles"].values():
        assert (role["data"], role["output"], role["script"]) == ("default",) * 3
    lines = converted["deployments"][0]["taskRoles"]["worker"]["preCommands"]
    assert "export PAI_DATA_DIR=hdfs://h/data" in lines
    assert "export PAI_OUTPUT_DIR=hdfs://h/out" in lines
    assert "export PAI_CODE_DIR=hdfs://h/alice/code" in lines


def test_v1_variables(converted: dict[str, Any]) -> None:
    assert converted["parameters"] == {"isDebug": True, "LR": 0.1, "WORDS": "it's two"}
    lines = converted["deployments"][0]["taskRoles"]["worker"]["preCommands"]
    assert lines[0].startswith("echo ")
    assert "export LR=0.1" in lines
    assert """export WORDS='it'"'"'s two'""" in lines
    assert converted["extras"]["holdfast"] == {"hold": True}


def test_v1_roles(converted: dict[str, Any]) -> None:
    roles = converted["taskRoles"]
    assert list(roles) == ["ps_main", "worker"]
    assert roles["ps_main"]["instances"] == 2
    assert roles["ps_main"]["completion"] == {"minFailedInstances": 1, "minSucceededInstances": 2}
    assert roles["ps_main"]["extraContainerOptions"] == {"shmMB": 64}
    assert roles["ps_main"]["resourcePerInstance"] == {
        "cpu": 3,
        "memoryMB": 200,
        "gpu": 1,
        "ports": {"web": 2, "ssh": 1, "http": 1},
    }
    assert roles["ps_main"]["commands"] == ["python train.py\necho done"]
    assert roles["worker"]["completion"] == {"minFailedInstances": -1, "minSucceededInstances": -1}


def test_v1_extras_and_what_is_lost(converted: dict[str, Any]) -> None:
    assert converted["extras"]["kept"] == 1
    assert converted["extras"]["convertedFrom"] == "openpai-v1"
    assert "k80" not in json.dumps(converted)
    assert "8080" not in json.dumps(converted)


def test_v1_parses_again_to_the_same_work(converted: dict[str, Any]) -> None:
    old = parse_job(json.dumps(V1), defaults=Defaults(user="alice")).job
    new = again(converted)
    assert new.hold == old.hold
    assert [role.completion for role in new.roles] == [role.completion for role in old.roles]
    assert [role.ports for role in new.roles] == [role.ports for role in old.roles]
    assert [role.resources for role in new.roles] == [role.resources for role in old.roles]


def test_shell_options_are_said_in_the_script() -> None:
    role = Role(name="main", commands=("true",), shell_options=("xtrace", "errexit"), workdir="/some where")
    lines = build_openpai_config(Job(name="n", roles=(role,)))["deployments"][0]["taskRoles"]["main"]["preCommands"]
    assert lines == ["set +o nounset", "set +o pipefail", "cd '/some where'", "set -o xtrace"]


def test_names_that_come_out_alike_stay_apart() -> None:
    roles = tuple(Role(name=name, commands=("true",)) for name in ("a.b", "a~b", "1st", "a_b"))
    config = build_openpai_config(Job(name="ä" * 300, roles=roles))
    assert list(config["taskRoles"]) == ["a_b", "a_b_2", "_1st", "a_b_3"]
    assert config["name"] == "_" * 255
    assert len(again(config).roles) == 4


def test_what_is_lost_is_noted() -> None:
    role = Role(
        name="main",
        commands=("true",),
        resources=Resources(cpu=0.5, memory=MIB + 1),
        mounts=(Mount(volume=HostFolder("/data"), target="/data"),),
        completion=Completion(),
    )
    job = Job(name="n", roles=(role,), max_retries=-1, priority=7, hold=Hold(duration=timedelta(hours=1)))
    config = build_openpai_config(job)
    assert config["taskRoles"]["main"]["resourcePerInstance"] == {"cpu": 1, "memoryMB": 2, "gpu": 0}
    assert len(config["extras"]["conversionNotes"]) == 4
    assert config["jobRetryCount"] == 1_000_000


def test_a_job_with_odd_leftovers_is_rendered_all_the_same() -> None:
    job = Job(name="n", roles=(Role(name="main", commands=("true",)),), dialect=JobFormat.OPENPAI_V2)
    for leftovers in ({}, {"openpai": None}, {"openpai": {"config": "text"}}, {"openpai": []}):
        config = build_openpai_config(replace(job, extras=leftovers))
        assert config["taskRoles"]["main"]["commands"] == ["true"]
        assert job_to_json(again(config))["name"] == "n"


# -- clones


def cloned(written: dict[str, Any], **changes: Any) -> str:
    return render_openpai_yaml(replace(parse_job(json.dumps(written)).job, **changes))


def test_a_clone_is_the_same_job_again() -> None:
    plugins = [{"plugin": "cmd", "parameters": {"preCommands": ["echo a\necho b"]}}]
    commands = ["if true; then\n  echo $PAI_JOB_NAME\nfi", "yes: no", "0.10"]
    written = {key: value for key, value in V2.items() if key != "secrets"}
    written["taskRoles"] = {"worker": {**V2["taskRoles"]["worker"], "commands": commands}}
    written["extras"] = {"com.microsoft.pai.runtimeplugin": plugins}
    text = cloned(written)
    assert parse_job(text).job == parse_job(json.dumps(written)).job
    assert list(yaml.safe_load(text)) == list(written)
    assert "    - |-\n      if true; then\n        echo $PAI_JOB_NAME\n      fi\n" in text


@unhurried
@given(good_trees())
def test_any_clone_is_the_same_job_again(written: dict[str, Any]) -> None:
    written.pop("secrets", None)
    job = parse_job(json.dumps(written)).job
    assert parse_job(render_openpai_yaml(job)).job == job


def test_a_clone_names_its_secrets_and_is_refused_until_they_are_filled_in() -> None:
    auth = {"username": "u", "password": "tell-nobody-5c1f", "registryuri": "r.example"}
    images = [{"name": "i", "type": "dockerimage", "uri": "host", "auth": auth}]
    text = cloned({**V2, "prerequisites": images, "secrets": {"token": "tell-nobody-5c1f", "more": ["x"]}})
    assert "tell-nobody" not in text
    with pytest.raises(InvalidJob) as caught:
        parse_job(text)
    (problem,) = caught.value.problems
    assert problem.field == "secrets"
    assert problem.message.endswith("the values of token, more[0], _registry_passwords.i")
    filled = parse_job(text.replace("******", "new")).job
    assert filled.secrets == {"token": "new", "more": ["new"], "_registry_passwords": {"i": "new"}}


def test_a_clone_is_in_the_group_the_job_is_in() -> None:
    assert "defaults" not in cloned(V2)
    assert parse_job(cloned(V2, group="other", secrets={})).job.group == "other"
    written = {**V2, "defaults": {"virtualCluster": "vc1"}}
    assert parse_job(cloned(written, group="default", secrets={})).job.group == "default"


def test_a_v1_job_is_cloned_as_v2() -> None:
    text = cloned(V1)
    assert parse_job(text).job.dialect is JobFormat.OPENPAI_V2
    assert "    - |-\n      python train.py\n      echo done\n" in text

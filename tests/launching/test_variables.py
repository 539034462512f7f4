"""Every variable OpenPAI's tasks know, row by row."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.core import identity
from holdfast.core.attempt import JobSnapshot
from holdfast.core.job import Completion, Job, Resources, Role
from holdfast.launching import AttemptLaunchBuilder, LaunchContext
from holdfast.launching.openpai import variable_limits

from .scene import ADDRESSES, launch_of, parse, placed, v1_job, v2_job


def two_roles() -> JobSnapshot:
    """Workers on 10.0.0.11 and .12 with ports 20000 to 20005, and Ps_2 on 10.0.0.11 with 20006 to 20008."""
    config = {
        "protocolVersion": 2,
        "name": "mnist_5f3a21",
        "type": "job",
        "prerequisites": [{"type": "dockerimage", "name": "image", "uri": "host"}],
        "taskRoles": {
            "worker": {
                "instances": 2,
                "dockerImage": "image",
                "resourcePerInstance": {"cpu": 4, "memoryMB": 8192, "gpu": 1, "ports": {"debug": 1}},
                "commands": ["true"],
            },
            "Ps_2": {
                "dockerImage": "image",
                "completion": {"minFailedInstances": -1, "minSucceededInstances": 1},
                "extraContainerOptions": {"shmMB": 64},
                "resourcePerInstance": {"cpu": 1, "memoryMB": 100, "gpu": 0, "ports": {"grpc": 2, "http": 1}},
                "commands": ["true"],
            },
        },
        "defaults": {"virtualCluster": "vc1"},
    }
    snapshot = placed(parse(config), id="job-id")
    tasks = [replace(task, gpus=(3,)) if task.role == "worker" else task for task in snapshot.tasks]
    return replace(snapshot, tasks=tuple(tasks), attempt=2)


NAME = identity.build_debug_id("alice", "mnist_5f3a21")
FRAMEWORK = identity.build_attempt_uid("job-id", 2)
POD = identity.build_container_uid("job-id.2.worker-1.0")

# As the second worker sees them.
EXPECTED = {
    "PAI_JOB_NAME": "alice~mnist_5f3a21",
    "PAI_FRAMEWORK_NAME": "alice~mnist_5f3a21",
    "PAI_USER_NAME": "alice",
    "PAI_USERNAME": "alice",
    "PAI_DEFAULT_FS_URI": "",
    "PAI_VIRTUAL_CLUSTER": "vc1",
    "PAI_TASK_ROLE_COUNT": "2",
    "PAI_TASK_ROLES_NUM": "2",
    "PAI_JOB_TASK_ROLE_COUNT": "2",
    "PAI_TASK_ROLE_LIST": "worker,Ps_2",
    "PAI_JOB_TASK_ROLE_LIST": "worker,Ps_2",
    "PAI_TASKS_NUM": "3",
    "PAI_JOB_TASK_COUNT": "3",
    "PAI_TASK_ROLE_TASK_COUNT_worker": "2",
    "PAI_TASK_ROLE_TASK_COUNT_Ps_2": "1",
    "PAI_TASK_ROLE_TASK_COUNT_ps2": "1",
    "PAI_RESOURCE_worker": "1,4,8192,0",
    "PAI_RESOURCE_Ps_2": "0,1,100,64",
    "PAI_RESOURCE_ps2": "0,1,100,64",
    "PAI_MIN_FAILED_TASK_COUNT_worker": "1",
    "PAI_MIN_FAILED_TASK_COUNT_Ps_2": "-1",
    "PAI_MIN_FAILED_TASK_COUNT_ps2": "-1",
    "PAI_MIN_SUCCEEDED_TASK_COUNT_worker": "2",
    "PAI_MIN_SUCCEEDED_TASK_COUNT_Ps_2": "1",
    "PAI_MIN_SUCCEEDED_TASK_COUNT_ps2": "1",
    "PAI_CURRENT_TASK_ROLE_NAME": "worker",
    "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": "1",
    "PAI_TASK_INDEX": "1",
    "PAI_TASK_ROLE_INDEX": "1",
    "PAI_HOST_IP_worker_0": "10.0.0.11",
    "PAI_HOST_IP_worker_1": "10.0.0.12",
    "PAI_HOST_IP_Ps_2_0": "10.0.0.11",
    "PAI_HOST_IP_ps2_0": "10.0.0.11",
    "PAI_PORT_LIST_worker_0_debug": "20000",
    "PAI_PORT_LIST_worker_1_debug": "20003",
    "PAI_PORT_LIST_worker_1_ssh": "20004",
    "PAI_PORT_LIST_Ps_2_0_grpc": "20006,20007",
    "PAI_PORT_LIST_ps2_0_grpc": "20006,20007",
    "PAI_worker_0_http_PORT": "20002",
    "PAI_Ps_2_0_grpc_PORT": "20006,20007",
    "PAI_ps2_0_grpc_PORT": "20006,20007",
    "PAI_TASK_ROLE_worker_HOST_LIST": "10.0.0.11:20002,10.0.0.12:20005",
    "PAI_TASK_ROLE_Ps_2_HOST_LIST": "10.0.0.11:20008",
    "PAI_TASK_ROLE_ps2_HOST_LIST": "10.0.0.11:20008",
    "PAI_TASK_ROLE_INSTANCES": "worker:0,worker:1,ps2:0",
    "PAI_CURRENT_CONTAINER_IP": "10.0.0.12",
    "PAI_CONTAINER_HOST_IP": "10.0.0.12",
    "PAI_CURRENT_CONTAINER_PORT": "20005",
    "PAI_CONTAINER_HOST_PORT": "20005",
    "PAI_CONTAINER_SSH_PORT": "20004",
    "PAI_CONTAINER_HOST_debug_PORT_LIST": "20003",
    "PAI_CONTAINER_HOST_http_PORT_LIST": "20005",
    "PAI_CONTAINER_HOST_PORT_LIST": "debug:20003;ssh:20004;http:20005;",
    "FC_FRAMEWORK_NAMESPACE": "default",
    "FC_FRAMEWORK_NAME": NAME,
    "FC_TASKROLE_NAME": "worker",
    "FC_TASK_INDEX": "1",
    "FC_CONFIGMAP_NAME": f"{NAME}-attempt",
    "FC_POD_NAME": f"{NAME}-worker-1",
    "FC_FRAMEWORK_UID": identity.build_framework_uid("job-id"),
    "FC_FRAMEWORK_ATTEMPT_ID": "2",
    "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID": f"2_{FRAMEWORK}",
    "FC_CONFIGMAP_UID": FRAMEWORK,
    "FC_TASKROLE_UID": identity.build_role_uid("job-id", 2, "worker"),
    "FC_TASK_UID": identity.build_task_uid("job-id", 2, "worker", 1),
    "FC_TASK_ATTEMPT_ID": "0",
    "FC_POD_UID": POD,
    "FC_TASK_ATTEMPT_INSTANCE_UID": f"0_{POD}",
    "RUNTIME_LOG_PIPE": "/dev/null",
    "APP_ID": "job-id",
    "FRAMEWORK_NAME": "alice~mnist_5f3a21",
    "HADOOP_USER_NAME": "alice",
    "PAI_CONTAINER_ID": POD,
    "PAI_DATA_DIR": "",
    "PAI_CODE_DIR": "",
    "PAI_OUTPUT_DIR": "",
    "PAI_TASK_ROLE_NAME": "worker",
    "PAI_TASK_ROLE_NUM": "2",
    "PAI_CURRENT_TASK_ROLE_TASK_COUNT": "2",
    "PAI_TASK_CPU_NUM": "4",
    "PAI_CURRENT_TASK_ROLE_CPU_COUNT": "4",
    "PAI_TASK_MEM_MB": "8192",
    "PAI_CURRENT_TASK_ROLE_MEM_MB": "8192",
    "PAI_TASK_GPU_NUM": "1",
    "PAI_CURRENT_TASK_ROLE_GPU_COUNT": "1",
    "PAI_CURRENT_TASK_ROLE_SHM_MB": "0",
    "PAI_CURRENT_TASK_ROLE_MIN_FAILED_TASK_COUNT": "1",
    "PAI_CURRENT_TASK_ROLE_MIN_SUCCEEDED_TASK_COUNT": "2",
    "PAI_RESOURCE": "1,4,8192,0",
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_task_has_the_variable(name: str) -> None:
    assert launch_of(two_roles(), 1).env[name] == EXPECTED[name]


def test_a_task_without_gpu_is_told_so_and_one_with_gpu_by_the_engine() -> None:
    assert launch_of(two_roles(), 2).env["NVIDIA_VISIBLE_DEVICES"] == "none"
    assert "NVIDIA_VISIBLE_DEVICES" not in launch_of(two_roles(), 0).env


def test_tasks_that_are_not_placed_yet_have_no_address() -> None:
    job = v2_job(["true"], role={"instances": 3}, extras={"gangAllocation": False})
    env = launch_of(placed(job, unplaced=1)).env
    assert "PAI_HOST_IP_worker_1" in env
    assert "PAI_HOST_IP_worker_2" not in env
    assert env["PAI_TASK_ROLE_worker_HOST_LIST"] == "10.0.0.11:20001,10.0.0.12:20003"
    assert env["PAI_TASK_ROLE_INSTANCES"] == "worker:0,worker:1,worker:2"


def test_roles_with_the_same_plain_name_do_not_hide_each_other() -> None:
    roles = [{"name": name, "command": "true"} for name in ("ps_a", "psA", "psa")]
    job = parse({"jobName": "job", "image": "host", "taskRoles": roles}, v1_job("true").dialect)
    env = launch_of(job).env
    ports = {name: env[f"PAI_PORT_LIST_{name}_0_http"] for name in ("ps_a", "psA", "psa", "psa2", "psa3")}
    assert ports == {"ps_a": "20001", "psA": "20003", "psa": "20005", "psa2": "20001", "psa3": "20003"}


def test_variables_of_a_first_age_job_win_and_its_folders_are_told() -> None:
    job = v1_job("true", dataDir="hdfs://d", jobEnvs={"PAI_USER_NAME": "mine", "N": 1})
    launch = launch_of(job)
    assert (launch.env["PAI_USER_NAME"], launch.env["N"], launch.env["PAI_DATA_DIR"]) == ("mine", "1", "hdfs://d")
    assert launch.env["PAI_RESOURCE_worker"] == "0,1,512,64"
    said = [line for line in launch.entry.splitlines() if "export PAI_USER_NAME=" in line]
    assert said[-1].endswith("export PAI_USER_NAME=mine")


def test_shared_memory_is_as_asked_for() -> None:
    assert launch_of(v2_job(["true"])).resources.shm == 512 * 2**20
    job = v2_job(["true"], role={"extraContainerOptions": {"shmMB": 7}})
    assert launch_of(job).resources.shm == 7 * 2**20


@pytest.mark.parametrize("dialect", ["holdfast", "primehub"])
def test_other_jobs_have_nothing_of_this(dialect: str) -> None:
    job = Job(name="j", roles=(Role(name="main", commands=("echo $secrets <% $secrets.a %>",)),), secrets={"a": "1"})
    snapshot = placed(replace(job, dialect=type(job.dialect)(dialect)))
    launch = AttemptLaunchBuilder(snapshot).build_launch(snapshot.tasks[0], LaunchContext())
    assert not [name for name in launch.env if name.startswith(("PAI_", "FC_"))]
    assert "PAI_" not in launch.entry
    assert launch.script == "echo $secrets 1\n"


# -- more than fits


def many(instances: int, **more: object) -> JobSnapshot:
    role = Role(name="worker", commands=("true",), instances=instances, ports={"ssh": 1, "http": 1})
    return placed(replace(v2_job(["true"]), roles=(replace(role, **more),)), ports_from=1)  # type: ignore[arg-type]


def test_what_is_too_much_for_the_environment_stands_in_the_file() -> None:
    launch = launch_of(many(1000), 7)
    assert variable_limits.MAX_VARIABLES - 20 < len(launch.env) <= variable_limits.MAX_VARIABLES
    assert launch.env["PAI_HOST_IP_worker_7"] == ADDRESSES["node-b"]
    assert "PAI_HOST_IP_worker_999" not in launch.env
    assert "PAI_HOST_IP_worker_999=10.0.0.12" in launch.entry
    assert "left out" not in launch.entry


def test_where_tasks_are_is_left_out_when_nothing_could_start_with_it() -> None:
    launch = launch_of(many(2001), 2000)
    assert "PAI_HOST_IP_worker_1999" not in launch.entry
    assert "PAI_HOST_IP_worker_2000=10.0.0.11" in launch.entry
    assert "are left out: for 2001 tasks" in launch.entry


def test_a_variable_longer_than_the_machine_takes_is_left_out() -> None:
    launch = launch_of(many(10_000))
    assert "PAI_TASK_ROLE_worker_HOST_LIST" not in launch.env
    assert "PAI_TASK_ROLE_worker_HOST_LIST is left out" in launch.entry
    assert sum(len(name) + len(value) + 1 for name, value in launch.env.items()) < 1_000_000


def test_names_no_shell_can_set_are_in_the_environment_only() -> None:
    job = v1_job("true", role={"name": "a.b~c", "taskNumber": 200, "portList": [{"label": "x.y"}]})
    snapshot = placed(job, ports_from=1)
    launch = launch_of(snapshot)
    assert launch.env["PAI_HOST_IP_a.b~c_199"] == launch.env["PAI_HOST_IP_a.b~c_1"]
    assert "PAI_HOST_IP_abc_199=" in launch.entry
    assert "PAI_HOST_IP_a.b~c" not in launch.entry
    assert "left out" not in launch.entry


def test_a_job_of_many_roles_fits() -> None:
    roles = tuple(
        Role(name=f"R_{number}", commands=("true",), resources=Resources(), completion=Completion())
        for number in range(256)
    )
    launch = launch_of(placed(replace(v2_job(["true"]), roles=roles)))
    assert variable_limits.MAX_VARIABLES - 20 < len(launch.env) <= variable_limits.MAX_VARIABLES
    assert "PAI_RESOURCE_r255=0,1,2048,0" in launch.entry


def test_what_neither_shell_nor_environment_can_hold_is_said() -> None:
    job = v1_job("true", role={"name": "a.b~c", "taskNumber": 400})
    assert "variables are left out: their names are not valid" in launch_of(placed(job, ports_from=1)).entry


def test_every_variable_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "openpai-task.md").read_text()
    for name in (*EXPECTED, "PAI_WORK_DIR", "PAI_RUNTIME_DIR", "NVIDIA_VISIBLE_DEVICES"):
        shown = re.sub(r"(Ps_2|ps2|worker)(_\d)?", lambda found: "<role>" + ("_<i>" if found[2] else ""), name)
        shown = re.sub(r"(?<=<i>_)\w+?(?=_PORT|$)|(?<=HOST_)(debug|http)", "<label>", shown)
        assert f"`{shown}`" in page, shown

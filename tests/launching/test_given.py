"""Variables of datasets and of MLflow, and group volumes, in launches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.core.job import Job, JobFormat, Mount, Role
from holdfast.core.records import Mlflow
from holdfast.core.volumes import HostFolder, SharedFolder
from holdfast.launching import AttemptLaunchBuilder, LaunchContext, make_dataset_variables, make_mlflow_variables

from .scene import launch_of, placed, v2_job


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {}),
        ({"db": {}}, {}),
        ({"db": {"user": "a", "PASS": "b"}}, {"DB_USER": "a", "DB_PASS": "b"}),
        ({"my-db": {"user": "a"}}, {"MY-DB_USER": "a", "MY_DB_USER": "a"}),
        ({"v1.2": {"x": "a"}}, {"V1.2_X": "a", "V1_2_X": "a"}),
        ({"db": {"api-key": "a", "x.y": "b"}}, {"DB_API-KEY": "a", "DB_API_KEY": "a", "DB_X.Y": "b", "DB_X_Y": "b"}),
        ({"db": {"a-b": "dashed", "a_b": "plain"}}, {"DB_A-B": "dashed", "DB_A_B": "plain"}),
    ],
)
def test_names_of_dataset_variables(given: dict[str, dict[str, str]], expected: dict[str, str]) -> None:
    assert make_dataset_variables(given) == expected


def test_a_second_name_takes_the_place_of_no_first_one() -> None:
    found = make_dataset_variables({"my_db": {"x": "underscored"}, "my-db": {"x": "dashed"}})
    assert found == {"MY_DB_X": "underscored", "MY-DB_X": "dashed"}


def test_variables_of_mlflow() -> None:
    mlflow = Mlflow(
        tracking_uri="http://a",
        tracking_envs={"MLFLOW_TRACKING_TOKEN": "t", "MLFLOW_TRACKING_URI": "other"},
        artifact_envs={"AWS_KEY": "k"},
    )
    found = make_mlflow_variables(mlflow)
    assert found == {"MLFLOW_TRACKING_URI": "http://a", "MLFLOW_TRACKING_TOKEN": "t", "AWS_KEY": "k"}


# -- our own jobs


OWN = Job(name="j", roles=(Role(name="main", commands=("true",)),), group="Team_A")
VOLUME = Mount(volume=SharedFolder(folder="/shared/Team_A", path="Team_A"), target="/project/team-a", read_only=False)


def launch_mounts(job: Job, *mounts: Mount, **surroundings: object) -> tuple[Mount, ...]:
    snapshot = placed(replace(job, roles=tuple(replace(role, mounts=mounts) for role in job.roles)))
    given = LaunchContext(**{"volume": VOLUME.volume, **surroundings})  # type: ignore[arg-type]
    return AttemptLaunchBuilder(snapshot).build_launch(snapshot.tasks[0], given).mounts


def test_our_own_jobs_get_their_groups_volume() -> None:
    data = Mount(volume=HostFolder("/data"), target="/data")
    assert launch_mounts(OWN, data) == (data, VOLUME)


@pytest.mark.parametrize("target", ["/project", "/project/team-a", "//project/./team-a/", "/project/team-a/deep"])
def test_what_the_job_mounts_there_itself_goes_first(target: str) -> None:
    own = Mount(volume=HostFolder("/data"), target=target)
    assert launch_mounts(OWN, own) == (own,)


def test_where_there_is_no_volume_no_sandbox_or_the_job_is_of_openpai() -> None:
    assert launch_mounts(OWN, volume=None) == ()
    assert launch_mounts(OWN, isolated=False) == ()
    assert launch_mounts(v2_job(["true"])) == ()


# -- what the group shares


SHARED = Mount(volume=SharedFolder(folder="/shared/files", path="files"), target="/phfs", read_only=False)


def test_our_own_jobs_that_ask_get_their_groups_files() -> None:
    data = Mount(volume=HostFolder("/data"), target="/data")
    assert launch_mounts(OWN, data, files=SHARED.volume) == (data, VOLUME, SHARED)
    assert launch_mounts(OWN, volume=None, files=SHARED.volume) == (SHARED,)
    assert launch_of(OWN, files=SHARED.volume).env["HOLDFAST_FILES"] == "/phfs"


def test_without_a_sandbox_a_variable_leads_to_the_groups_files() -> None:
    launch = launch_of(OWN, files=SHARED.volume, isolated=False)
    assert (launch.mounts, launch.env["HOLDFAST_FILES"]) == ((), "/shared/files")


def test_a_launch_without_surroundings_is_the_plain_one() -> None:
    snapshot = placed(OWN)
    launch = AttemptLaunchBuilder(snapshot).build_launch(snapshot.tasks[0], LaunchContext())
    assert (launch.entry, launch.mounts, launch.scratch, launch.workdir) == ("", (), None, None)
    assert "HOLDFAST_FILES" not in launch.env


def test_variables_do_not_take_the_place_of_the_jobs_own() -> None:
    role = replace(OWN.roles[0], env={"DB_USER": "mine"})
    snapshot = placed(replace(OWN, roles=(role,)))
    given = LaunchContext(variables={"DB_USER": "given", "DB_PASS": "x", "HOLDFAST_USER": "mallory"})
    env = AttemptLaunchBuilder(snapshot).build_launch(snapshot.tasks[0], given).env
    assert (env["DB_USER"], env["DB_PASS"], env["HOLDFAST_USER"]) == ("mine", "x", "alice")


def test_the_engine_is_given_what_an_alias_stands_for() -> None:
    role = replace(OWN.roles[0], image="pytorch", image_url="registry/pytorch:2")
    snapshot = placed(replace(OWN, roles=(role,), dialect=JobFormat.PRIMEHUB))
    launch = AttemptLaunchBuilder(snapshot).build_launch(snapshot.tasks[0], LaunchContext())
    assert (launch.image, launch.env["IMAGE_NAME"]) == ("registry/pytorch:2", "pytorch")


# -- what engines must keep to themselves


def test_variables_with_secrets_are_named() -> None:
    env = {"TOKEN": "Bearer <% $secrets.token %>", "PLAIN": "1"}
    job = replace(OWN, secrets={"token": "hunter2"}, roles=(replace(OWN.roles[0], env=env),))
    launch = launch_of(job, variables={"DB_PASS": "x"})
    assert launch.env["TOKEN"] == "Bearer hunter2"
    assert launch.secret_env == {"TOKEN", "DB_PASS"}
    assert launch_of(OWN).secret_env == frozenset()


def test_variables_with_secrets_are_named_in_openpai_jobs_too() -> None:
    job = v2_job(["true"])
    env = {"TOKEN": "<% $secrets.token %>", "PLAIN": "1"}
    job = replace(job, secrets={"token": "hunter2"}, roles=(replace(job.roles[0], env=env),))
    launch = launch_of(job)
    assert launch.env["TOKEN"] == "hunter2"
    assert launch.secret_env == {"TOKEN"}


def test_a_launch_says_where_its_task_is_placed() -> None:
    snapshot = placed(OWN)
    assert launch_of(snapshot).node == snapshot.tasks[0].node
    waiting = replace(snapshot, tasks=(replace(snapshot.tasks[0], node=None),))
    assert launch_of(waiting).node is None

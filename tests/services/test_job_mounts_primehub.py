"""What jobs in PrimeHub's format are given without asking: datasets at intake, folders and variables at launch."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.controller import launch_context
from holdfast.controller.launch_context import MAX_OTHER_VOLUMES
from holdfast.core.access import Actor
from holdfast.core.job import Mount
from holdfast.core.records import Dataset, Group, Mlflow
from holdfast.core.volumes import HostFolder
from holdfast.engines.base import LaunchSpec
from holdfast.services.datasets import job_mounts as storages
from holdfast.services.datasets.job_mounts import MAX_GROUP_DATASETS
from holdfast.services.datasets.mount_rules import MountRules
from holdfast.services.datasets.service import DatasetChange
from holdfast.services.errors import DatasetNotFound, Unavailable
from holdfast.services.people.groups import GroupChange
from holdfast.store import people

from .house import House

pytestmark = pytest.mark.anyio


@pytest.fixture
async def ann(house: House) -> Actor:
    return await house.user("ann", "default", "red", "blue")


async def add(house: House, name: str, path: Path | None = None, **more: Any) -> None:
    variables: Mapping[str, str] | None = more.pop("variables", None)
    if path is not None:
        path.mkdir(parents=True, exist_ok=True)
    dataset = Dataset(name=name, path=str(path) if path else "", **more)
    await house.services.datasets.create(house.admin, dataset, variables=variables)


def form(group: str = "red", **more: Any) -> str:
    job = {"displayName": "j", "instanceType": "cpu-1", "image": "host", "command": "echo hi", "groupName": group}
    return json.dumps({**job, **more})


async def mounts(house: House, actor: Actor, text: str) -> list[Mount]:
    return list((await house.services.jobs.plan(actor, text)).job.roles[0].mounts)


async def launch(house: House, actor: Actor, text: str) -> LaunchSpec:
    summary = await house.run(text, actor)
    (found,) = [task.launch for id, task in house.engine.machine.tasks.items() if id.startswith(f"{summary.id}.")]
    return found


# -- datasets


async def test_everything_of_the_group_and_of_everyone(house: House, ann: Actor, tmp_path: Path) -> None:
    await add(house, "mine", tmp_path / "a", groups=("red",))
    await add(house, "all", tmp_path / "b", everyone=True, read_only=False)
    await add(house, "made", kind="volume", groups=("red",))
    await add(house, "theirs", tmp_path / "c", groups=("blue",))
    await add(house, "words", kind="env", everyone=True, variables={"a": "b"})
    made = house.services.shared.make_volume(house.services.shared.get_dataset_folder("made"))
    assert made.path == "volumes/made"
    assert await mounts(house, ann, form()) == [
        Mount(volume=HostFolder(str(tmp_path / "b")), target="/mnt/dataset-all", read_only=False, dataset="all"),
        Mount(volume=made, target="/mnt/dataset-made", read_only=True, dataset="made"),
        Mount(volume=HostFolder(str(tmp_path / "a")), target="/mnt/dataset-mine", read_only=True, dataset="mine"),
    ]
    assert [mount.dataset for mount in await mounts(house, ann, form("blue"))] == ["all", "theirs"]
    assert [mount.dataset for mount in await mounts(house, house.admin, form("default"))] == ["all"]


@pytest.mark.parametrize(("read_only", "writable"), [(True, False), (True, True), (False, False), (False, True)])
async def test_who_may_write(house: House, ann: Actor, tmp_path: Path, read_only: bool, writable: bool) -> None:
    await add(house, "d", tmp_path / "d", groups=("red", "blue"), read_only=read_only)
    await house.services.datasets.grant(house.admin, "d", "red", writable)
    assert [mount.read_only for mount in await mounts(house, ann, form("red"))] == [read_only and not writable]
    assert [mount.read_only for mount in await mounts(house, ann, form("blue"))] == [read_only]
    own = "name: j\ncommand: a\ngroup: {}\ndatasets: [d]\n"
    assert [mount.read_only for mount in await mounts(house, ann, own.format("red"))] == [read_only and not writable]
    assert [mount.read_only for mount in await mounts(house, ann, own.format("blue"))] == [read_only]


async def test_one_that_is_gone_is_left_out_with_a_warning(house: House, ann: Actor, tmp_path: Path) -> None:
    await add(house, "there", tmp_path / "a", groups=("red",))
    await add(house, "gone", tmp_path / "b", groups=("red",))
    (tmp_path / "b").rmdir()
    submitted = await house.services.jobs.submit(ann, form())
    assert any("the dataset gone is not mounted" in warning for warning in submitted.warnings)
    job = (await house.services.jobs.get(ann, submitted.summary.id)).record.job
    assert [mount.dataset for mount in job.roles[0].mounts] == ["there"]
    with pytest.raises(Unavailable):  # one that a job asks for by name is another matter
        await house.services.jobs.plan(ann, "name: j\ncommand: a\ngroup: red\ndatasets: [gone]\n")


async def test_one_that_does_not_answer_is_left_out_too(
    house: House, ann: Actor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add(house, "there", tmp_path / "a", groups=("red",))
    await add(house, "silent", tmp_path / "b", groups=("red",))
    answers = MountRules.resolve_dataset_folder

    async def folder(rules: MountRules, path: str) -> Path:
        if path.endswith("b"):
            await asyncio.Event().wait()
        return await answers(rules, path)

    monkeypatch.setattr(MountRules, "resolve_dataset_folder", folder)
    monkeypatch.setattr(storages, "GROUP_DATASET_TIMEOUT", 1.0)  # the other one may need some of it on a busy machine
    planned = await house.services.jobs.plan(ann, form())
    assert [mount.dataset for mount in planned.job.roles[0].mounts] == ["there"]
    assert "the dataset silent is not mounted: it is not responding" in planned.warnings


async def test_too_many_for_one_job(house: House, ann: Actor, tmp_path: Path) -> None:
    for number in range(MAX_GROUP_DATASETS + 2):
        await add(house, f"d{number:02}", tmp_path / str(number), groups=("red",))
    planned = await house.services.jobs.plan(ann, form())
    assert len(planned.job.roles[0].mounts) == MAX_GROUP_DATASETS
    assert any(f"d{MAX_GROUP_DATASETS}, d{MAX_GROUP_DATASETS + 1}" in warning for warning in planned.warnings)


async def test_a_rerun_gets_what_the_group_has_then(house: House, ann: Actor, tmp_path: Path) -> None:
    await add(house, "one", tmp_path / "a", groups=("red",))
    first = await house.submit(form(), ann)
    await add(house, "two", tmp_path / "b", groups=("red",))
    await house.services.datasets.revoke(house.admin, "one", "red")
    again = (await house.services.jobs.rerun(ann, first.id)).summary
    job = (await house.services.jobs.get(ann, again.id)).record.job
    assert [mount.dataset for mount in job.roles[0].mounts] == ["two"]


async def test_each_users_own_folder_and_one_that_cannot_be_made(house: House, ann: Actor, tmp_path: Path) -> None:
    await add(house, "own", tmp_path / "own", groups=("red",), per_user=True)
    (mount,) = (await launch(house, ann, form())).mounts[:1]
    assert mount.source == str(tmp_path / "own/ann")
    assert Path(mount.source).is_dir()
    shutil.rmtree(mount.source)
    Path(mount.source).symlink_to("/etc")
    started = await launch(house, ann, form())
    assert "own" not in [mount.dataset for mount in started.mounts]
    assert "The dataset own is left out" in started.entry


async def test_one_that_goes_while_the_job_waits_is_left_out_when_it_starts(
    house: House, ann: Actor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storages, "CACHE_TTL", float("inf"))
    await add(house, "late", tmp_path / "late", groups=("red",))
    assert [mount.dataset for mount in await mounts(house, ann, form())] == ["late"]
    (tmp_path / "late").rmdir()  # what was seen a moment ago is believed at intake
    started = await launch(house, ann, form())
    assert [mount.target for mount in started.mounts] == ["/phfs"]
    assert "The dataset late is left out" in started.entry


# -- variables


async def test_variables_of_datasets_and_of_mlflow(house: House, ann: Actor) -> None:
    await add(house, "my-db", kind="env", groups=("red",), variables={"user": "u", "PASS": "geheim"})
    await add(house, "site", kind="env", everyone=True, variables={"URL": "x"})
    await add(house, "theirs", kind="env", groups=("blue",), variables={"A": "x"})
    mlflow = Mlflow(tracking_uri="http://m", ui_url="http://ui", tracking_envs={"T": "1"}, artifact_envs={"S3": "2"})
    await house.services.groups.set_mlflow(house.admin, "red", mlflow)
    summary = await house.run(form(), ann)
    (env,) = [task.launch.env for id, task in house.engine.machine.tasks.items() if id.startswith(summary.id)]
    expected = {
        "MY-DB_USER": "u", "MY_DB_USER": "u", "MY-DB_PASS": "geheim", "MY_DB_PASS": "geheim", "SITE_URL": "x",
        "MLFLOW_TRACKING_URI": "http://m", "MLFLOW_UI_URL": "http://ui", "T": "1", "S3": "2",
    }  # fmt: skip
    assert {name: env.get(name) for name in expected} == expected
    assert "THEIRS_A" not in env
    record = (await house.services.jobs.get(ann, summary.id)).record
    assert "geheim" not in repr(record)  # nor is it stored with the job


async def test_our_own_jobs_get_variables_that_they_name(house: House, ann: Actor) -> None:
    await add(house, "db", kind="env", groups=("red",), variables={"PASS": "geheim"})
    named = await launch(house, ann, "name: j\ncommand: echo\ngroup: red\ndatasets: [db]\n")
    assert named.env["DB_PASS"] == "geheim"
    other = await launch(house, ann, "name: j\ncommand: echo\ngroup: red\n")
    assert "DB_PASS" not in other.env
    await house.services.datasets.revoke(house.admin, "db", "red")
    with pytest.raises(DatasetNotFound):
        await house.services.jobs.plan(ann, "name: j\ncommand: echo\ngroup: red\ndatasets: [db]\n")


async def test_variables_are_no_storage(house: House, ann: Actor) -> None:
    await add(house, "db", kind="env", groups=("red",), variables={"A": "x"})
    role = {"dockerImage": "img", "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0}, "commands": ["a"]}
    job = {
        "protocolVersion": 2, "name": "j", "type": "job", "taskRoles": {"r": role},
        "prerequisites": [{"name": "img", "type": "dockerimage", "uri": "host"}],
        "extras": {"storages": [{"name": "db"}]},
    }  # fmt: skip
    with pytest.raises(DatasetNotFound, match="Storage db is not found"):
        await house.services.jobs.plan(ann, json.dumps(job))


# -- groups' folders


async def share(house: House, name: str, **more: Any) -> Path:
    await house.services.groups.change(house.admin, name, GroupChange(shared_volume=True, **more))
    return house.services.shared.get_volume_folder(name)


async def test_the_groups_volume_and_files_are_made_and_mounted(house: House, ann: Actor) -> None:
    volume = await share(house, "red")
    started = await launch(house, ann, form())
    files = house.services.shared.get_files_folder("red")
    assert started.mounts == (
        Mount(volume=house.services.shared.make_volume(volume), target="/project/red", read_only=False),
        Mount(volume=house.services.shared.make_volume(files), target="/phfs", read_only=False),
    )
    for folder in (volume, files):
        assert folder.stat().st_mode & 0o777 == 0o700
    assert started.env["PRIMEHUB_GROUP_VOLUME_PATH"] == "/project/red"


async def test_our_own_jobs_get_the_volume_and_no_more(house: House, ann: Actor) -> None:
    volume = await share(house, "red")
    text = "name: j\ncommand: echo\ngroup: {}\n"
    started = await launch(house, ann, text.format("red"))
    assert started.mounts == (
        Mount(volume=house.services.shared.make_volume(volume), target="/project/red", read_only=False),
    )
    assert (await launch(house, ann, text.format("blue"))).mounts == ()


async def test_our_own_jobs_get_the_groups_files_when_they_ask(house: House, ann: Actor) -> None:
    text = "name: j\ncommand: echo\nfiles: true\ngroup: {}\n"
    files = {group: house.services.shared.get_files_folder(group) for group in ("red", "blue")}
    shared = house.services.shared
    seen = {
        group: Mount(volume=shared.make_volume(folder), target="/phfs", read_only=False)
        for group, folder in files.items()
    }
    assert (await launch(house, ann, text.format("blue"))).mounts == (seen["blue"],)
    assert files["blue"].stat().st_mode & 0o777 == 0o700
    assert house.services.shared.get_removed_folder("blue").is_dir()
    assert not files["red"].exists()
    volume = await share(house, "red")
    started = await launch(house, ann, text.format("red"))
    assert started.mounts == (
        Mount(volume=house.services.shared.make_volume(volume), target="/project/red", read_only=False),
        seen["red"],
    )
    assert (started.entry, started.env["HOLDFAST_FILES"]) == ("", "/phfs")


async def test_volumes_of_other_groups_that_show_them(house: House, ann: Actor) -> None:
    await house.services.groups.create(house.admin, Group(name="far"))
    for name in ("red", "far"):
        await share(house, name, launch_only=False)
    await share(house, "default")
    targets = [mount.target for mount in (await launch(house, ann, form("blue"))).mounts]
    assert targets == ["/project/red", "/phfs"]  # far is not hers, and default keeps its own to its jobs
    await house.services.groups.remove_member(house.admin, "red", "ann")
    assert [mount.target for mount in (await launch(house, ann, form("blue"))).mounts] == ["/phfs"]


async def test_more_volumes_than_a_task_can_have_and_two_groups_at_one_path(house: House, ann: Actor) -> None:
    groups = {name: Group(name=name, shared_volume=True, launch_only=False) for name in ("Red", "a_b", "a-b", "red")}
    groups |= {f"g{n:02}": Group(name=f"g{n:02}", shared_volume=True, launch_only=False) for n in range(20)}
    for name, group in groups.items():
        if name != "red":
            await house.store.write(people.create_group, group=group)
        await house.store.write(people.set_group_member, name, "ann", admin=False)
    house.controller.update_groups(list(groups.values()))
    found = {mount.target: mount.source for mount in (await launch(house, ann, form("red"))).mounts}
    assert len([target for target in found if target.startswith("/project/")]) == MAX_OTHER_VOLUMES + 1
    assert found["/project/red"] == str(house.services.shared.get_volume_folder("red"))
    assert found["/project/a-b"] == str(house.services.shared.get_volume_folder("a-b"))


async def test_no_link_in_the_home_where_the_group_wants_none(house: House, ann: Actor) -> None:
    await share(house, "red")
    assert "__link /project/red" in (await launch(house, ann, form())).entry
    await share(house, "red", home_symlink=False)
    assert "__link /project/red" not in (await launch(house, ann, form())).entry


async def test_a_change_of_the_dataset_is_seen_at_once(house: House, ann: Actor, tmp_path: Path) -> None:
    await add(house, "d", tmp_path / "a", groups=("red",))
    (tmp_path / "b").mkdir()
    assert [mount.source for mount in await mounts(house, ann, form())] == [str(tmp_path / "a")]
    await house.services.datasets.change(house.admin, "d", DatasetChange(path=str(tmp_path / "b")))
    assert [mount.source for mount in await mounts(house, ann, form())] == [str(tmp_path / "b")]


async def test_one_that_stops_answering_holds_up_nothing_but_itself(
    house: House, ann: Actor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder whose file server is down when the job starts, and comes back."""
    for name in ("there", "silent"):
        await add(house, name, tmp_path / name, groups=("red",))
    back, truly = threading.Event(), launch_context._is_real_folder

    def look(path: str) -> bool:
        if path.endswith("silent"):
            back.wait()
        return truly(path)

    monkeypatch.setattr(launch_context, "_is_real_folder", look)
    monkeypatch.setattr(launch_context, "QUICK_FOLDER_TIMEOUT", 0.05)
    monkeypatch.setattr(launch_context, "FOLDER_TIMEOUT", 1.0)
    for _ in range(2):
        started = await launch(house, ann, form())
        assert [mount.dataset for mount in started.mounts if mount.dataset] == ["there"]
        assert "The dataset silent is left out" in started.entry
    back.set()
    monkeypatch.setattr(launch_context, "FOLDER_TIMEOUT", 15.0)
    started = await launch(house, ann, form())
    assert [mount.dataset for mount in started.mounts if mount.dataset] == ["silent", "there"]

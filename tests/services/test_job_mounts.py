"""Datasets in jobs: what they name becomes mounts, and nobody gets what was not granted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.access import Actor
from holdfast.core.errors import InvalidJob, UserError
from holdfast.core.job import Mount
from holdfast.core.records import Dataset
from holdfast.core.states import JobState
from holdfast.core.volumes import LOCAL_KINDS, HostFolder, NfsExport, SharedFolder, VolumeKind
from holdfast.services.datasets.service import DatasetChange
from holdfast.services.errors import DatasetNotFound, Unavailable

from .house import House

pytestmark = pytest.mark.anyio


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        (tmp_path / "data" / name).mkdir(parents=True)
    return tmp_path / "data"


@pytest.fixture
async def ann(house: House, data: Path) -> Actor:
    """With a dataset `a` for her group, and `b` for everyone."""
    user = await house.user("ann", "default", "red")
    await add(house, "a", data / "a", groups=("red",))
    await add(house, "b", data / "b", everyone=True, read_only=False, default=True)
    return user


async def add(house: House, name: str, path: Path, **more: Any) -> None:
    await house.services.datasets.create(house.admin, Dataset(name=name, path=str(path), **more))


def openpai(storages: Any = None, *, roles: int = 1, **more: Any) -> str:
    role = {"dockerImage": "img", "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0}, "commands": ["sleep 60"]}
    job = {
        "protocolVersion": 2,
        "name": "j",
        "type": "job",
        "prerequisites": [{"name": "img", "type": "dockerimage", "uri": "host"}],
        "taskRoles": {f"r{n}": role for n in range(roles)},
        "extras": {} if storages is None else {"storages": storages},
        **more,
    }
    return json.dumps(job)


async def mounts(house: House, actor: Actor, text: str) -> list[Mount]:
    """Of every role the same."""
    job = (await house.services.jobs.plan(actor, text)).job
    (found,) = {role.mounts for role in job.roles}
    return list(found)


async def problems(house: House, actor: Actor, text: str) -> list[str]:
    with pytest.raises(InvalidJob) as caught:
        await house.services.jobs.plan(actor, text)
    return [problem.field for problem in caught.value.problems]


async def test_storages_become_mounts_of_every_role(house: House, ann: Actor, data: Path) -> None:
    found = await mounts(house, ann, openpai([{"name": "a"}, {"name": "b", "mountPath": "/x//y/"}], roles=2))
    assert found == [
        Mount(volume=HostFolder(str(data / "a")), target="/mnt/a", read_only=True, dataset="a"),
        Mount(volume=HostFolder(str(data / "b")), target="/x/y", read_only=False, dataset="b"),
    ]


async def test_an_empty_list_asks_for_the_default_ones(house: House, ann: Actor, data: Path) -> None:
    await add(house, "other", data / "a", default=True)
    found = await mounts(house, ann, openpai([]))
    assert [(mount.dataset, mount.target) for mount in found] == [("b", "/mnt/b")]
    assert await mounts(house, ann, openpai(None)) == []


async def test_datasets_of_our_own_files(house: House, ann: Actor, data: Path) -> None:
    found = await mounts(house, ann, "name: j\ncommand: a\ndatasets: [b, a]\n")
    assert [(mount.dataset, mount.target) for mount in found] == [("b", "/datasets/b"), ("a", "/datasets/a")]


@pytest.mark.parametrize("name", ["a", "none", "../b", "b/../a", "B", " b"])
async def test_what_is_not_granted_is_not_found(house: House, ann: Actor, name: str) -> None:
    bob = await house.user("bob", "default")
    with pytest.raises(DatasetNotFound) as caught:
        await house.services.jobs.plan(bob, openpai([{"name": "b"}, {"name": name, "mountPath": "/m"}]))
    assert caught.value.message == f"Storage {name} is not found."
    assert caught.value.field == "extras.storages[1]"
    assert "holdfast dataset ls" in (caught.value.hint or "")


async def test_our_own_words_for_a_dataset_that_is_not_granted(house: House, ann: Actor) -> None:
    bob = await house.user("bob", "default")
    with pytest.raises(DatasetNotFound, match="Dataset a not found") as caught:
        await house.services.jobs.plan(bob, "name: j\ncommand: a\ndatasets: [b, a]\n")
    assert caught.value.field == "datasets[1]"


@pytest.mark.parametrize(
    "path",
    [
        "",
        "x",
        "/",
        "//",
        "/.",
        "/proc",
        "/proc/self",
        "/sys/",
        "/dev/shm",
        "//dev",
        "/run",
        "/run/holdfast",
        "/a/../b",
        "..",
        "/\n",
        "/x" * 999,
    ],
)
async def test_paths_where_nothing_can_be_mounted(house: House, ann: Actor, path: str) -> None:
    if not path or len(path) > 1024:  # the reader refuses it by itself
        assert await problems(house, ann, openpai([{"name": "b", "mountPath": path}]))
        return
    text = openpai([{"name": "a"}, {"name": "b", "mountPath": path}])
    assert await problems(house, ann, text) == ["extras.storages[1].mountPath"]


@pytest.mark.parametrize(("one", "other"), [("/m", "/m"), ("/m", "/m/"), ("/m/sub", "/m"), ("/m", "/m/a/b")])
async def test_two_storages_do_not_cover_each_other(house: House, ann: Actor, one: str, other: str) -> None:
    text = openpai([{"name": "a", "mountPath": one}, {"name": "b", "mountPath": other}])
    assert await problems(house, ann, text) == ["extras.storages[1].mountPath"]
    assert len(await mounts(house, ann, openpai([{"name": "a", "mountPath": "/m"}, {"name": "b"}]))) == 2


@pytest.mark.parametrize("target", ["/datasets", "//datasets/", "/datasets/b", "/datasets/b/sub"])
async def test_nothing_is_mounted_over_a_mount_of_the_job(house: House, ann: Actor, data: Path, target: str) -> None:
    text = f"name: j\ncommand: a\ndatasets: [b]\nmounts: ['{data}:{target}']\n"
    assert await problems(house, house.admin, text) == ["datasets[0]"]


@pytest.mark.parametrize("storages", [[1], [{"name": 1}], [{}], [{"name": "b", "mountPath": None}], [["b"]]])
async def test_a_clone_may_hold_anything(house: House, ann: Actor, storages: Any) -> None:
    text = json.dumps({"name": "j", "command": "a", "extras": {"openpai": {"storages": storages}}})
    assert await problems(house, ann, text) == ["extras.storages[0]"]


@pytest.mark.parametrize("extras", [{"openpai": 1}, {"openpai": {"storages": "b"}}, {"storages": ["b"]}])
async def test_other_extras_are_not_looked_at(house: House, ann: Actor, extras: Any) -> None:
    assert await mounts(house, ann, json.dumps({"name": "j", "command": "a", "extras": extras})) == []


async def test_too_many_storages(house: House, ann: Actor) -> None:
    text = openpai([{"name": "b", "mountPath": f"/m{n}"} for n in range(33)])
    assert await problems(house, ann, text) == ["extras.storages"]


async def test_a_folder_that_has_gone_or_become_a_link(house: House, ann: Actor, data: Path) -> None:
    (data / "b").rmdir()
    with pytest.raises(Unavailable, match="does not exist"):
        await house.services.jobs.plan(ann, openpai([{"name": "b"}]))
    (data / "b").symlink_to("/etc")
    with pytest.raises(Unavailable, match="is now a symbolic link"):
        await house.services.jobs.plan(ann, openpai([{"name": "b"}]))
    (data / "b").unlink()
    (data / "b").symlink_to(house.home)
    with pytest.raises(Unavailable, match="state folder"):
        await house.services.jobs.plan(ann, openpai([{"name": "b"}]))


# -- folders of each user


async def own(house: House, data: Path) -> Path:
    await add(house, "own", data / "a", everyone=True, read_only=False, per_user=True)
    return data / "a/ann"


async def test_each_user_gets_their_own_folder(house: House, ann: Actor, data: Path) -> None:
    folder = await own(house, data)
    assert [mount.source for mount in await mounts(house, ann, openpai([{"name": "own"}]))] == [str(folder)]
    assert not folder.exists()  # a plan does nothing
    await house.submit(openpai([{"name": "own"}]), ann)
    assert folder.stat().st_mode & 0o7777 == 0o700
    (folder / "kept").touch()
    folder.chmod(0o750)
    await house.submit(openpai([{"name": "own"}]), ann)
    assert (folder / "kept").exists()
    assert folder.stat().st_mode & 0o7777 == 0o750


async def test_a_link_in_place_of_a_users_folder_is_refused(house: House, ann: Actor, data: Path) -> None:
    folder = await own(house, data)
    for target in ("/etc", str(data / "b"), str(data / "nowhere")):
        folder.symlink_to(target)
        with pytest.raises(Unavailable, match="a file with this name already exists"):
            await house.submit(openpai([{"name": "own"}]), ann)
        folder.unlink()
    folder.touch()
    with pytest.raises(Unavailable, match="a file with this name already exists"):
        await house.submit(openpai([{"name": "own"}]), ann)
    assert not (data / "nowhere").exists()


@pytest.mark.parametrize("name", ["..", ".", "a/b", "", "/etc", "@"])
async def test_a_user_whose_name_is_no_folder_gets_none(house: House, ann: Actor, data: Path, name: str) -> None:
    await own(house, data)
    with pytest.raises(Exception, match="is not a valid name for a user"):
        await house.services.jobs.plan(Actor(name=name, groups={"default": False}), openpai([{"name": "own"}]))


# -- again


async def test_a_rerun_gets_what_is_granted_then(house: House, ann: Actor, data: Path) -> None:
    first = await house.submit(openpai([{"name": "a"}, {"name": "b"}]), ann)
    await house.services.datasets.change(house.admin, "b", DatasetChange(read_only=True, path=str(data / "a")))
    again = (await house.services.jobs.rerun(ann, first.id)).summary
    job = (await house.services.jobs.get(ann, again.id)).record.job
    assert list(job.roles[0].mounts) == [
        Mount(volume=HostFolder(str(data / "a")), target="/mnt/a", read_only=True, dataset="a"),
        Mount(volume=HostFolder(str(data / "a")), target="/mnt/b", read_only=True, dataset="b"),
    ]
    await house.services.datasets.revoke(house.admin, "a", "red")
    with pytest.raises(DatasetNotFound, match="Storage a is not found"):
        await house.services.jobs.rerun(ann, first.id)


async def test_a_rerun_of_defaults_drops_those_that_are_none_any_more(house: House, ann: Actor) -> None:
    first = await house.submit(openpai([]), ann)
    await house.services.datasets.change(house.admin, "b", DatasetChange(default=False))
    again = (await house.services.jobs.rerun(ann, first.id)).summary
    assert (await house.services.jobs.get(ann, again.id)).record.job.roles[0].mounts == ()


async def test_a_clone_asks_for_the_same_datasets(house: House, ann: Actor, data: Path) -> None:
    first = await house.submit(openpai([{"name": "a", "mountPath": "/x"}]), ann)
    text = await house.services.jobs.export_yaml(ann, first.id)
    assert str(data) not in text
    assert [(mount.dataset, mount.target) for mount in await mounts(house, ann, text)] == [("a", "/x")]


async def test_jobs_outlive_their_dataset(house: House, ann: Actor, data: Path) -> None:
    first = await house.submit(openpai([{"name": "b"}]), ann)
    await house.services.datasets.delete(house.admin, "b")
    job = (await house.services.jobs.get(ann, first.id)).record.job
    assert [mount.source for mount in job.roles[0].mounts] == [str(data / "b")]


# -- kinds of volumes


NFS_DATA = {"server": "files", "path": "/export/a"}


async def test_an_export_keeps_its_server_and_path(house: House, ann: Actor, data: Path) -> None:
    await add(house, "far", data / "a", kind="nfs", data=NFS_DATA, everyone=True)
    await add(house, "own", data / "b", kind="nfs", data=NFS_DATA, everyone=True, per_user=True)
    found = await mounts(house, ann, "name: j\ncommand: a\ndatasets: [far, own]\n")
    assert [mount.volume for mount in found] == [
        NfsExport(server="files", path="/export/a", folder=str(data / "a")),
        NfsExport(server="files", path="/export/a/ann", folder=str(data / "b/ann")),
    ]
    assert [mount.source for mount in found] == [str(data / "a"), str(data / "b/ann")]


async def test_an_export_that_is_not_mounted_here_needs_an_engine_that_mounts_it(house: House, ann: Actor) -> None:
    export = Dataset(name="far", path="", kind="nfs", data=NFS_DATA, everyone=True)
    with pytest.raises(UserError, match="does not exist"):
        await house.services.datasets.create(house.admin, export)
    house.engine.volume_kinds = frozenset({VolumeKind.NFS})
    assert (await house.services.datasets.create(house.admin, export)).path == ""
    text = "name: j\ncommand: a\ndatasets: [far]\n"
    assert [mount.volume for mount in await mounts(house, ann, text)] == [NfsExport(server="files", path="/export/a")]
    assert (await house.submit(text, ann)).state is JobState.PENDING
    house.engine.volume_kinds = LOCAL_KINDS
    with pytest.raises(Unavailable, match="the engine fake cannot mount an NFS export that is not mounted") as caught:
        await house.submit(text, ann)
    assert "mount it on this server" in str(caught.value.hint)


async def test_a_folder_gone_from_this_machine_does_not_matter_to_an_engine_that_mounts_exports(
    house: House, ann: Actor, data: Path
) -> None:
    await add(house, "far", data / "a", kind="nfs", data=NFS_DATA, everyone=True)
    (data / "a").rmdir()
    text = "name: j\ncommand: a\ndatasets: [far]\n"
    with pytest.raises(Unavailable, match="does not exist"):
        await mounts(house, ann, text)
    house.engine.volume_kinds |= {VolumeKind.NFS}
    assert [mount.dataset for mount in await mounts(house, ann, text)] == ["far"]


async def test_folders_of_users_need_the_export_on_this_machine(house: House, ann: Actor) -> None:
    house.engine.volume_kinds = frozenset({VolumeKind.NFS})
    own = Dataset(name="own", path="", kind="nfs", data=NFS_DATA, everyone=True, per_user=True)
    await house.services.datasets.create(house.admin, own)
    with pytest.raises(Unavailable, match="folders of users need it mounted on this server"):
        await house.submit("name: j\ncommand: a\ndatasets: [own]\n", ann)


async def test_a_dataset_without_a_folder_does_not_become_one_of_a_folder(house: House) -> None:
    house.engine.volume_kinds = frozenset({VolumeKind.NFS})
    await house.services.datasets.create(house.admin, Dataset(name="far", path="", kind="nfs", data=NFS_DATA))
    with pytest.raises(UserError, match="need a path"):
        await house.services.datasets.change(house.admin, "far", DatasetChange(kind="folder"))


async def test_what_the_engine_cannot_mount_is_refused_at_submission(house: House, ann: Actor, data: Path) -> None:
    house.engine.volume_kinds = frozenset({VolumeKind.NFS, VolumeKind.CLAIM})
    text = f"name: j\ncommand: a\nfiles: true\nmounts: ['{data}']\n"
    assert await problems(house, house.admin, text) == ["mounts[0].source", "files"]
    with pytest.raises(Unavailable, match="the engine fake cannot mount folders of this server"):
        await mounts(house, ann, openpai([{"name": "b"}]))


async def test_managed_datasets_are_shared_folders(house: House, ann: Actor) -> None:
    await house.services.datasets.create(house.admin, Dataset(name="made", path="", kind="volume", everyone=True))
    (mount,) = await mounts(house, ann, "name: j\ncommand: a\ndatasets: [made]\n")
    folder = house.services.shared.get_dataset_folder("made")
    assert mount.volume == SharedFolder(folder=str(folder), path="volumes/made")

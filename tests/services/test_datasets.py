from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.core.errors import Conflict, Forbidden, NotFound, UserError
from holdfast.core.records import Dataset
from holdfast.services.datasets import DatasetChange
from holdfast.services.refusals import NoDataset

from .house import House

pytestmark = pytest.mark.anyio


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


async def add(house: House, name: str, path: Path, **more: object) -> Dataset:
    return await house.services.datasets.create(house.admin, Dataset(name=name, path=str(path), **more))  # type: ignore[arg-type]


async def test_one_sees_what_is_granted(house: House, data: Path) -> None:
    ann = await house.user("ann", "red")
    for name, more in {"all": {"everyone": True}, "reds": {"groups": ("red",)}, "none": {}}.items():
        await add(house, name, data, **more)
    listed = house.services.datasets.list
    assert [dataset.name for dataset in await listed(ann)] == ["all", "reds"]
    assert [dataset.name for dataset in await listed(house.admin)] == ["all", "none", "reds"]
    assert (await house.services.datasets.get(ann, "reds")).groups == ("red",)
    assert (await house.services.datasets.get(house.admin, "none")).everyone is False
    for name in ("none", "missing"):
        with pytest.raises(NoDataset, match=f"There is no dataset {name}"):
            await house.services.datasets.get(ann, name)


async def test_only_admins_manage_them(house: House, data: Path) -> None:
    ann = await house.user("ann", "red")
    await add(house, "a", data, everyone=True)
    datasets = house.services.datasets
    for attempt in (
        datasets.create(ann, Dataset(name="b", path=str(data))),
        datasets.change(ann, "a", DatasetChange(read_only=False)),
        datasets.delete(ann, "a"),
        datasets.grant(ann, "a", "red"),
        datasets.revoke(ann, "a", "red"),
    ):
        with pytest.raises(Forbidden):
            await attempt


async def test_the_real_path_is_kept(house: House, data: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(data)
    assert (await add(house, "a", tmp_path / "link")).path == str(data)
    (data / "b").mkdir()
    changed = await house.services.datasets.change(house.admin, "a", DatasetChange(path=f"{tmp_path}/link/b"))
    assert changed.path == str(data / "b")


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("relative", "not an absolute path"),
        ("/no/such/folder", "does not exist"),
        ("/nul\0", "control characters"),
        ("/etc/hostname", "not a folder"),
        ("HOME", "in the server's own state folder"),
        ("HOME/logs/x", "in the server's own state folder"),
        ("PARENT", "holds the server's own state folder"),
        ("/", "holds the server's own state folder"),
    ],
)
async def test_folders_that_cannot_be_given(house: House, path: str, says: str) -> None:
    (house.home / "logs/x").mkdir(parents=True)
    path = path.replace("HOME", str(house.home)).replace("PARENT", str(house.home.parent))
    with pytest.raises(UserError, match=says) as caught:
        await house.services.datasets.create(house.admin, Dataset(name="a", path=path))
    assert caught.value.field == "path"
    assert await house.services.datasets.list(house.admin) == []


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "-a", "a b", "a\0", "ä", "a" * 64, "me"])
async def test_names_that_cannot_be(house: House, data: Path, name: str) -> None:
    with pytest.raises(UserError) as caught:
        await add(house, name, data)
    assert caught.value.field == "name"


async def test_a_name_is_taken_once(house: House, data: Path) -> None:
    await add(house, "a", data)
    with pytest.raises(Conflict):
        await add(house, "a", data)


async def test_what_is_given_changes(house: House, data: Path) -> None:
    before = await add(house, "a", data, groups=("default",))
    change = DatasetChange(description="new", read_only=False, everyone=True, per_user=True, default=True)
    after = await house.services.datasets.change(house.admin, "a", change)
    expected = replace(before, description="new", read_only=False, everyone=True, per_user=True, default=True)
    assert after == expected == await house.services.datasets.get(house.admin, "a")
    with pytest.raises(NoDataset):
        await house.services.datasets.change(house.admin, "b", change)


async def test_nfs_has_a_server_and_a_path(house: House, data: Path) -> None:
    await add(house, "a", data, kind="nfs", data={"server": "files", "path": "/export"})
    for kind, values in (
        ("nfs", {}),
        ("nfs", {"server": "files"}),
        ("nfs", {"server": "", "path": "/x"}),
        ("nfs", {"server": "a\nb", "path": "/x"}),
        ("nfs", {"server": "a", "path": "/x", "more": "y"}),
        ("folder", {"server": "a", "path": "/x"}),
        ("samba", {}),
    ):
        with pytest.raises(UserError):
            await house.services.datasets.change(house.admin, "a", DatasetChange(kind=kind, data=values))
    changed = await house.services.datasets.change(house.admin, "a", DatasetChange(kind="folder"))
    assert (changed.kind, changed.data) == ("folder", {})


async def test_grants_come_and_go(house: House, data: Path) -> None:
    ann = await house.user("ann", "red")
    await add(house, "a", data)
    datasets = house.services.datasets
    assert (await datasets.grant(house.admin, "a", "red")).groups == ("red",)
    assert await datasets.list(ann)
    assert (await datasets.revoke(house.admin, "a", "red")).groups == ()
    assert not await datasets.list(ann)
    for attempt in (
        datasets.grant(house.admin, "a", "none"),
        datasets.grant(house.admin, "b", "red"),
        datasets.revoke(house.admin, "a", "red"),
        datasets.revoke(house.admin, "b", "red"),
    ):
        with pytest.raises(NotFound):
            await attempt


async def test_a_removed_dataset_leaves_its_folder(house: House, data: Path) -> None:
    await add(house, "a", data)
    await house.services.datasets.delete(house.admin, "a")
    assert data.is_dir()
    with pytest.raises(NoDataset):
        await house.services.datasets.delete(house.admin, "a")

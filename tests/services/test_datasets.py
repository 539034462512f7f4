from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.core.catalogue import Secret
from holdfast.core.errors import Conflict, Forbidden, NotFound, UserError
from holdfast.core.records import Dataset
from holdfast.services.datasets.service import DatasetChange
from holdfast.services.errors import DatasetNotFound

from .house import House, open_house

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
        with pytest.raises(DatasetNotFound, match=f"Dataset {name} not found"):
            await house.services.datasets.get(ann, name)


async def test_jobs_of_a_group_name_its_own_and_everyones(house: House, data: Path) -> None:
    ann = await house.user("ann", "red")
    await house.user("bob", "blue")
    for name, more in {"all": {"everyone": True}, "reds": {"groups": ("red",)}, "blues": {"groups": ("blue",)}}.items():
        await add(house, name, data, **more)
    usable = house.services.datasets.list_usable_datasets
    assert [dataset.name for dataset in await usable(ann, "red")] == ["all", "reds"]
    assert await usable(ann, "blue") == []
    assert [dataset.name for dataset in await usable(house.admin, "blue")] == ["all", "blues"]


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
        ("HOME", "in the server's state folder"),
        ("HOME/logs/x", "in the server's state folder"),
        ("PARENT", "contains the server's state folder"),
        ("/", "contains the server's state folder"),
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
    with pytest.raises(DatasetNotFound):
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
    with pytest.raises(DatasetNotFound):
        await house.services.datasets.delete(house.admin, "a")


# -- volumes


async def volume(house: House, name: str = "vol", **more: object) -> Dataset:
    made = Dataset(name=name, path="", kind="volume", **more)  # type: ignore[arg-type]
    return await house.services.datasets.create(house.admin, made)


async def test_a_volume_is_made_and_kept(house: House) -> None:
    made = await volume(house, read_only=False, data={"size": "10"})
    folder = house.home / "shared/volumes/vol"
    assert made.path == str(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    (folder / "note").write_text("precious")
    await house.services.datasets.delete(house.admin, "vol")
    assert (folder / "note").read_text() == "precious"


async def test_data_that_was_left_is_not_given_away_silently(house: House) -> None:
    made = await volume(house)
    Path(made.path, "note").write_text("precious")
    await house.services.datasets.delete(house.admin, "vol")
    with pytest.raises(Conflict, match="contains data of an earlier volume vol") as caught:
        await volume(house)
    assert "adopt" in str(caught.value.hint)
    assert await house.services.datasets.list(house.admin) == []
    again = await house.services.datasets.create(house.admin, replace(made, path=""), adopt=True)
    assert Path(again.path, "note").read_text() == "precious"


async def test_purging_removes_a_volumes_data_and_nothing_else(house: House, data: Path) -> None:
    made = await volume(house)
    Path(made.path, "deep").mkdir()
    Path(made.path, "out").symlink_to(data)
    (data / "mine").write_text("x")
    Path(made.path).chmod(0)
    await house.services.datasets.delete(house.admin, "vol", purge=True)
    assert not Path(made.path).exists()
    await house.services.datasets.remove_purged_data()
    assert list((house.home / "shared/volumes").iterdir()) == []
    assert (data / "mine").exists()
    await add(house, "a", data)
    with pytest.raises(UserError, match="Holdfast did not create the folder of a"):
        await house.services.datasets.delete(house.admin, "a", purge=True)
    assert await house.services.datasets.exists("a")
    assert (data / "mine").exists()


async def test_a_volume_follows_the_setting(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        settings = {"files": {"folder": str(tmp_path / folder)}}
        async with open_house(tmp_path / f"home-{folder}", settings=settings) as house:
            assert (await volume(house)).path == str(tmp_path / folder / "volumes/vol")


async def test_no_folder_of_ours_becomes_somebodys(house: House) -> None:
    """Neither by the path of a volume, nor by that of what holds it."""
    made = await volume(house)
    for path in (made.path, str(house.home / "shared"), str(house.home / "shared/volumes")):
        with pytest.raises(UserError, match="state folder"):
            await add(house, "thief", Path(path))


async def test_nor_where_groups_files_lie_elsewhere(tmp_path: Path) -> None:
    root = tmp_path / "disk/shared"
    root.mkdir(parents=True)
    async with open_house(tmp_path / "home", settings={"files": {"folder": str(root)}}) as house:
        made = await volume(house)
        for path in (made.path, str(root), str(root.parent)):
            with pytest.raises(UserError, match="overlaps with the folder of shared files"):
                await add(house, "thief", Path(path))


async def test_a_group_may_write_where_others_read(house: House) -> None:
    await house.add_group("red")
    await house.add_group("blue")
    made = await volume(house, groups=("blue",), writable_groups=("red",))
    assert (made.groups, made.writable_groups) == (("blue", "red"), ("red",))
    datasets = house.services.datasets
    assert (await datasets.grant(house.admin, "vol", "blue", writable=True)).writable_groups == ("blue", "red")
    assert (await datasets.grant(house.admin, "vol", "red")).writable_groups == ("blue",)
    assert (await datasets.get(house.admin, "vol")).groups == ("blue", "red")


# -- variables


async def env(house: House, variables: dict[str, str] | None = None, name: str = "env") -> Dataset:
    made = Dataset(name=name, path="", kind="env", everyone=True)
    return await house.services.datasets.create(house.admin, made, variables=variables)


async def test_variables_are_shown_when_an_admin_asks(house: House) -> None:
    ann = await house.user("ann", "red")
    given = {"TOKEN": "hush\nhush", "_x1": "", "api-key": "k", "v1.2": "v"}
    await env(house, given)
    datasets = house.services.datasets
    assert await datasets.get_variables(house.admin, "env") == given
    assert "hush" not in str(await datasets.get(house.admin, "env"))
    with pytest.raises(Forbidden):
        await datasets.get_variables(ann, "env")
    await datasets.change(house.admin, "env", DatasetChange(variables={"NEW": "1"}))
    assert await datasets.get_variables(house.admin, "env") == {"NEW": "1"}
    await datasets.change(house.admin, "env", DatasetChange(description="x"))
    assert await datasets.get_variables(house.admin, "env") == {"NEW": "1"}


@pytest.mark.parametrize("name", ["", "1A", "-A", ".A", "A B", "A=B", "Ä", "A\0", "A\n"])
async def test_names_that_no_variable_has(house: House, name: str) -> None:
    with pytest.raises(UserError) as caught:
        await env(house, {name: "hush"})
    assert caught.value.field == "variables"
    assert "hush" not in caught.value.message


async def test_variables_that_cannot_be(house: House, data: Path) -> None:
    for variables in ({"A": "x\0y"}, {"A": "x" * 70_000}, {f"A{n}": "" for n in range(300)}):
        with pytest.raises(UserError):
            await env(house, variables)
    with pytest.raises(UserError, match="Only datasets of kind env have variables"):
        await house.services.datasets.create(house.admin, Dataset(name="a", path=str(data)), variables={"A": "1"})
    await add(house, "a", data)
    with pytest.raises(UserError, match="Only datasets of kind env have variables"):
        await house.services.datasets.change(house.admin, "a", DatasetChange(variables={"A": "1"}))
    with pytest.raises(UserError, match="no variables"):
        await house.services.datasets.get_variables(house.admin, "a")


async def test_what_the_platform_asks(house: House, data: Path) -> None:
    for group in ("red", "blue"):
        await house.add_group(group)
    await env(house, {"A": "1"})
    await add(house, "reds", data, groups=("red",))
    await add(house, "nobodys", data)
    datasets = house.services.datasets
    assert [dataset.name for dataset in await datasets.list_group_datasets("red")] == ["env", "reds"]
    assert [dataset.name for dataset in await datasets.list_group_datasets("blue")] == ["env"]
    assert await datasets.load_variables(["env", "reds", "missing"]) == {"env": {"A": "1"}}
    assert await datasets.load_variables([]) == {}


# -- kinds


async def test_nfs_is_found_below_its_folder(tmp_path: Path) -> None:
    (tmp_path / "net/files.example/export/wiki").mkdir(parents=True)
    async with open_house(tmp_path / "home", settings={"mounts": {"nfs_folder": str(tmp_path / "net")}}) as house:
        made = Dataset(name="a", path="", kind="nfs", data={"server": "files.example", "path": "/export/wiki"})
        found = await house.services.datasets.create(house.admin, made)
        assert found.path == str(tmp_path / "net/files.example/export/wiki")
        missing = replace(made, name="b", data={"server": "files.example", "path": "/none"})
        with pytest.raises(UserError, match="does not exist"):
            await house.services.datasets.create(house.admin, missing)
        for values in (
            {"server": "..", "path": "/x"},
            {"server": "a/b", "path": "/x"},
            {"server": "a", "path": "/../x"},
        ):
            with pytest.raises(UserError):
                await house.services.datasets.create(house.admin, replace(made, name="c", data=values))


@pytest.mark.parametrize(
    "made",
    [
        Dataset(name="a", path="/tmp", kind="volume"),
        Dataset(name="a", path="/tmp", kind="env"),
        Dataset(name="a", path="/tmp", kind="git", data={"url": "file:///x"}),
        Dataset(name="a", path="", kind="git"),
        Dataset(name="a", path="", kind="git", data={"url": "file:///x", "more": "y"}),
        Dataset(name="a", path="", kind="git", data={"url": "file:///x"}, per_user=True),
        Dataset(name="a", path="", kind="volume", data={"size": "ten"}),
        Dataset(name="a", path="", kind="env", data={"url": "x"}),
        Dataset(name="a", path="", kind="env", default=True),
        Dataset(name="a", path="", kind="env", per_user=True),
        Dataset(name="a", path="", kind="volume", display_name="a\nb"),
        Dataset(name="a", path="", kind="git", data={"url": 5}),
    ],
)
async def test_what_does_not_go_together(house: House, made: Dataset) -> None:
    with pytest.raises(UserError):
        await house.services.datasets.create(house.admin, made)
    assert await house.services.datasets.list(house.admin) == []


async def test_a_dataset_keeps_its_kind(house: House, data: Path) -> None:
    await volume(house)
    await add(house, "a", data)
    for name, kind in (("vol", "folder"), ("vol", "env"), ("a", "volume"), ("a", "env")):
        with pytest.raises(UserError, match=r"cannot be changed to|do not accept a path"):
            await house.services.datasets.change(house.admin, name, DatasetChange(kind=kind))


async def test_which_secret_git_goes_by_is_for_admins(house: House) -> None:
    ann = await house.user("ann", "red")
    await house.services.secrets.create(house.admin, Secret(name="key"), "hush")
    given = {"url": "file:///nowhere", "secret": "key"}
    made = Dataset(name="code", path="", kind="git", data=given, everyone=True)
    await house.services.datasets.create(house.admin, made)
    assert (await house.services.datasets.get(house.admin, "code")).data == given
    assert (await house.services.datasets.get(ann, "code")).data == {"url": "file:///nowhere"}
    (listed,) = await house.services.datasets.list(ann)
    assert "secret" not in listed.data


async def test_one_write_sets_all_groups_and_which_may_write(house: House, data: Path) -> None:
    for group in ("red", "blue", "green"):
        await house.add_group(group)
    given = Dataset(name="images", path=str(data), groups=("red", "blue"), writable_groups=("red",))
    await house.services.datasets.create(house.admin, given)
    change = DatasetChange(grants={"blue": True, "green": False})
    changed = await house.services.datasets.change(house.admin, "images", change)
    assert (changed.groups, changed.writable_groups) == (("blue", "green"), ("blue",))
    with pytest.raises(NotFound):
        await house.services.datasets.change(house.admin, "images", DatasetChange(grants={"gone": False}))
    kept = await house.services.datasets.get(house.admin, "images")
    assert (kept.groups, kept.writable_groups) == (("blue", "green"), ("blue",))

"""Admin pages of the catalogue: instance types, images, datasets, secrets and usage."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast.core.catalogue import ImageAlias, ImageKind, Secret, SecretKind
from holdfast.core.job import GIB
from holdfast.core.records import Dataset
from tests.server.rig import Rig

from .form_parser import fill, problem_at, send, values_in
from .page_client import open_desk, text_of

pytestmark = pytest.mark.anyio

# -- instance types


async def test_an_instance_type_comes_changes_and_goes(rig: Rig) -> None:
    types = rig.house.services.instance_types
    await rig.house.add_group("red")
    async with open_desk(rig) as desk:
        answer = await fill(
            desk,
            "/admin/instance-types/new",
            name="big",
            cpu="8",
            memory="64 GiB",
            gpu="1",
            everyone=None,
            groups=["red"],
            tolerations="dedicated=gpu:NoSchedule\nspot",
            node_selector="disk=ssd",
        )
        assert answer.status_code == 303, text_of(answer.text)
        made = await types.get(rig.house.admin, "big")
        assert (made.cpu, made.memory, made.gpu, made.groups, made.everyone) == (8, 64 * GIB, 1, ("red",), False)
        assert [dict(each) for each in made.tolerations] == [
            {"operator": "Equal", "key": "dedicated", "effect": "NoSchedule", "value": "gpu"},
            {"operator": "Exists", "key": "spot"},
        ]
        opened = values_in((await desk.get("/admin/instance-types/big/edit")).text)
        assert opened["tolerations"] == ["dedicated=gpu:NoSchedule\nspot"]
        assert opened["node_selector"] == ["disk=ssd"]
        assert "big" in text_of((await desk.get("/admin/instance-types?text=big")).text)
        assert (await fill(desk, "/admin/instance-types/big/edit", memory="32 GiB")).status_code == 303
        changed = await types.get(rig.house.admin, "big")
        assert (changed.memory, changed.tolerations, changed.groups) == (32 * GIB, made.tolerations, ("red",))
        asked = text_of((await desk.get("/admin/instance-types/big/delete")).text)
        assert "cannot be rerun" in asked
        assert (await fill(desk, "/admin/instance-types/big/delete")).status_code == 303
        assert (await desk.get("/admin/instance-types/big/edit")).status_code == 404


@pytest.mark.parametrize(
    ("typed", "field", "says"),
    [
        ({"name": "Big"}, "name", "is not a valid name for an instance type"),
        ({"name": "cpu-1"}, "name", "already"),
        ({"cpu": ""}, "cpu", "Enter the number of CPU cores"),
        ({"cpu": "0"}, "cpu", "cpu must be between 0.01"),
        ({"memory": "64"}, "memory", "Did you mean 64 GiB?"),
        ({"gpu": "-1"}, "gpu", "gpu must be an integer between 0"),
        ({"cpu_request": "5"}, "cpu_request", "exceeds the limit of 2 cores"),
        ({"gpu_resource": "x"}, "gpu_resource", "gpu_resource must be"),
        ({"tolerations": "x:Never"}, "tolerations", "has an invalid effect; use one of"),
        ({"node_selector": "disk"}, "node_selector", "is not in the format NAME=VALUE"),
        ({"groups": ["gone"]}, "groups", "Group gone not found"),
    ],
)
async def test_what_no_size_can_be_is_told_at_its_field(rig: Rig, typed: dict[str, str], field: str, says: str) -> None:
    async with open_desk(rig) as desk:
        answer = await fill(desk, "/admin/instance-types/new", **{"name": "big", "cpu": "2", **typed})
        assert answer.status_code == 400
        assert says in text_of(problem_at(answer.text, field))


# -- images


async def test_an_image_gets_a_name_that_jobs_choose(rig: Rig) -> None:
    aliases = rig.house.services.image_aliases
    await rig.house.add_group("red")
    async with open_desk(rig) as desk:
        page = text_of((await desk.get("/admin/images")).text)
        assert "At most 1 MiB." in page  # the bound is told before anything is sent
        answer = await fill(
            desk, "/admin/images/aliases/new?url=host", name="base", kind="gpu", everyone=None, groups=["red"]
        )
        assert answer.status_code == 303
        made = await aliases.get(rig.house.admin, "base")
        assert (made.url, made.kind, made.groups, made.owner) == ("host", ImageKind.GPU, ("red",), None)
        assert "Ready" in text_of((await desk.get("/admin/images?text=base")).text)
        assert (await fill(desk, "/admin/images/aliases/base/edit", url="not/here:1", kind="both")).status_code == 303
        assert "Not imported: not/here:1" in text_of((await desk.get("/admin/images")).text)
        wrong = await fill(desk, "/admin/images/aliases/base/edit", url="a b")
        assert wrong.status_code == 400
        assert "without spaces" in problem_at(wrong.text, "url")
        wrong = await fill(desk, "/admin/images/aliases/base/edit", kind="odd")
        assert "Unknown image kind" in text_of(problem_at(wrong.text, "kind"))
        taken = await fill(desk, "/admin/images/aliases/new", name="base", url="host")
        assert "already" in problem_at(taken.text, "name")
        assert (await fill(desk, "/admin/images/aliases/base/delete")).status_code == 303
        assert (await desk.get("/admin/images/aliases/base/edit")).status_code == 404


async def test_an_image_of_a_strange_name_is_not_found(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        assert (await desk.get("/admin/images/remove?name=<script>")).status_code == 404
        assert (await desk.post("/admin/images/remove", {"name": "../etc"})).status_code == 404


# -- datasets


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


async def test_a_folder_becomes_a_dataset(rig: Rig, data: Path) -> None:
    datasets = rig.house.services.datasets
    await rig.house.add_group("red")
    await rig.house.add_group("blue")
    async with open_desk(rig) as desk:
        missing = await fill(desk, "/admin/datasets/new?kind=folder", name="data", path="/no/such/folder")
        assert missing.status_code == 400
        assert problem_at(missing.text, "path")
        answer = await fill(
            desk, "/admin/datasets/new?kind=folder", name="data", path=str(data), groups=["red"], groups__flag=["blue"]
        )
        assert answer.status_code == 303, text_of(answer.text)
        made = await datasets.get(rig.house.admin, "data")
        assert (made.groups, made.writable_groups, made.read_only) == (("blue", "red"), ("blue",), True)
        answer = await fill(
            desk, "/admin/datasets/data/edit", everyone="on", read_only=None, groups=["red"], groups__flag=["red"]
        )
        assert answer.status_code == 303
        made = await datasets.get(rig.house.admin, "data")
        assert (made.groups, made.writable_groups, made.everyone, made.read_only) == (("red",), ("red",), True, False)
        listed = text_of((await desk.get("/admin/datasets")).text)
        assert "red · can write" in listed
        assert str(data) in listed
        assert "is not changed." in text_of((await desk.get("/admin/datasets/data/delete")).text)
        assert (await fill(desk, "/admin/datasets/data/delete", purge="on")).status_code == 303
    assert data.exists()
    assert not await datasets.exists("data")


async def test_variables_are_kept_exactly(rig: Rig) -> None:
    datasets = rig.house.services.datasets
    typed = 'USER=reader\nKEY="two\\nlines"\nEMPTY=\n\nURL=a=b'
    async with open_desk(rig) as desk:
        assert (await fill(desk, "/admin/datasets/new?kind=env", name="db", variables=typed)).status_code == 303
        kept = await datasets.get_variables(rig.house.admin, "db")
        assert kept == {"USER": "reader", "KEY": "two\nlines", "EMPTY": "", "URL": "a=b"}
        assert (await fill(desk, "/admin/datasets/db/edit", description="x")).status_code == 303
        assert await datasets.get_variables(rig.house.admin, "db") == kept
        assert "reader" not in (await desk.get("/admin/datasets")).text
        for bad, says in (
            ("1X=2", "is not a valid variable name"),
            ("X", "is not in the format NAME=VALUE"),
            ("X=1\nX=2", "is set twice"),
        ):
            answer = await fill(desk, "/admin/datasets/db/edit", variables=bad)
            assert answer.status_code == 400
            assert says in text_of(problem_at(answer.text, "variables"))
            assert values_in(answer.text)["variables"] == [bad]


async def test_volumes_git_and_nfs(rig: Rig) -> None:
    datasets = rig.house.services.datasets
    await rig.house.services.secrets.create(rig.house.admin, Secret(name="key"), "a good secret")
    async with open_desk(rig) as desk:
        assert (await desk.get("/admin/datasets/new?kind=odd")).status_code == 404
        assert (await fill(desk, "/admin/datasets/new?kind=volume", name="vol", data__size="5")).status_code == 303
        volume = await datasets.get(rig.house.admin, "vol")
        (Path(volume.path) / "file").write_text("x")
        assert (await fill(desk, "/admin/datasets/vol/delete")).status_code == 303
        again = await fill(desk, "/admin/datasets/new?kind=volume", name="vol")
        assert "contains data of an earlier volume" in problem_at(again.text, "name")
        assert (await fill(desk, "/admin/datasets/new?kind=volume", name="vol", adopt="on")).status_code == 303
        assert (await fill(desk, "/admin/datasets/vol/delete", purge="on")).status_code == 303
        assert not Path(volume.path).exists()
        bad = await fill(desk, "/admin/datasets/new?kind=git", name="code", data__url="ext::sh -c id")
        assert "is not a supported git address" in problem_at(bad.text, "data.url")
        bad = await fill(desk, "/admin/datasets/new?kind=nfs", name="nas", data__server="a/b", data__path="/x")
        assert "is not a valid address of an NFS server" in text_of(problem_at(bad.text, "data.server"))
        url = "file:///nowhere/at/all.git"
        assert (
            await fill(desk, "/admin/datasets/new?kind=git", name="code", data__url=url, data__secret="key")
        ).is_redirect
        answer = await desk.post("/admin/datasets/code/sync")
        assert answer.status_code == 303
        assert "Syncing" in text_of((await desk.get("/admin/datasets")).text)
        assert "code" in text_of((await desk.get("/admin/secrets")).text)


# -- secrets


async def test_the_value_of_a_secret_is_never_shown(rig: Rig) -> None:
    secrets = rig.house.services.secrets
    async with open_desk(rig) as desk:
        answer = await fill(desk, "/admin/secrets/new?kind=opaque", name="key", value="hunter-two")
        assert answer.status_code == 303
        for path in ("/admin/secrets", "/admin/secrets/key/edit", "/admin/secrets/key/delete"):
            assert "hunter-two" not in (await desk.get(path)).text
        assert (await fill(desk, "/admin/secrets/key/edit", display_name="Ours")).status_code == 303
        assert await secrets.load_value("key") == "hunter-two"
        assert (await fill(desk, "/admin/secrets/key/edit", value="hunter-three")).status_code == 303
        assert await secrets.load_value("key") == "hunter-three"
        wrong = await fill(desk, "/admin/secrets/new?kind=opaque", name="two", value="line\nline")
        assert "has several lines" in problem_at(wrong.text, "value")
        assert "line\nline" not in wrong.text
        assert (await desk.get("/admin/secrets/new?kind=odd")).status_code == 404
        wrong = await fill(desk, "/admin/secrets/new?kind=registry", name="reg", value="x", username="u")
        assert "requires a host" in problem_at(wrong.text, "registry_host")


async def test_a_secret_in_use_stays(rig: Rig) -> None:
    admin = rig.house.admin
    registry = Secret(name="reg", kind=SecretKind.REGISTRY, registry_host="r.io", username="u")
    await rig.house.services.secrets.create(admin, registry, "x")
    await rig.house.services.image_aliases.create(admin, ImageAlias(name="base", url="host", pull_secret="reg"))
    async with open_desk(rig) as desk:
        assert "need another secret first: base" in text_of((await desk.get("/admin/secrets/reg/delete")).text)
        refused = await fill(desk, "/admin/secrets/reg/delete")
        assert refused.status_code == 409
        assert "is in use by" in text_of(refused.text)
        await rig.house.services.image_aliases.delete(admin, "base")
        assert (await fill(desk, "/admin/secrets/reg/delete")).status_code == 303


# -- usage


async def test_usage_is_told_by_month(rig: Rig) -> None:
    job = "name: x\nimage: host\nresources: {cpu: 2, memory: 1Gi}\ncommand: 'true'\n"
    rig.house.clock.at = datetime.now(UTC)  # tasks run by the machine's own clock
    async with open_desk(rig) as desk:
        assert "No usage yet" in text_of((await desk.get("/admin/usage")).text)
        await rig.house.run(job)
        rig.house.clock.forward(60)
        page = (await desk.get("/admin/usage")).text
        assert "default admin 1" in text_of(page)  # of the newest month
        month = page.split('href="/admin/usage/', 1)[1].split('"', 1)[0]
        shown = await desk.get(f"/admin/usage/{month}")
        assert f'href="/api/v1/usage/{month}"' in shown.text
        assert "default admin 1" in text_of(shown.text)
        assert (await desk.get(f"/api/v1/usage/{month}")).text.startswith("group,user")
        assert "No tasks ran in this month." in text_of((await desk.get("/admin/usage/1999/1")).text)
        assert (await desk.get("/admin/usage/2026/13")).status_code == 400
        assert (await desk.get("/admin/usage/x/1")).status_code == 404


async def test_names_that_look_like_pages_do_no_harm(rig: Rig, data: Path) -> None:
    """`new` is an address of ours, and a name that somebody may choose."""
    await rig.house.user("new")
    await rig.house.services.datasets.create(rig.house.admin, Dataset(name="new", path=str(data)))
    await rig.house.services.secrets.create(rig.house.admin, Secret(name="new"), "a good secret")
    async with open_desk(rig) as desk:
        assert values_in((await desk.get("/admin/users/new/edit")).text)["enabled"] == ["on"]
        opened = (await desk.get("/admin/datasets/new/edit")).text
        assert (await send(desk, "/admin/datasets/new/edit", opened, description="x")).status_code == 303
        assert (await fill(desk, "/admin/secrets/new/edit", display_name="x")).status_code == 303

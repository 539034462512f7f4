"""What admins change: what is not given stays, what is wrong changes nothing, what is done twice does no harm."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.catalogue import ImageAlias
from holdfast.core.records import Dataset

from .hub import Hub, open_hub

pytestmark = pytest.mark.anyio


def update(noun: str, fields: str = "id") -> str:
    return f"""
    mutation ($data: {noun}UpdateInput!, $where: {noun}WhereUniqueInput!) {{
      update{noun}(data: $data, where: $where) {{ {fields} }}
    }}
    """


def create(noun: str, fields: str = "id") -> str:
    return f"mutation ($data: {noun}CreateInput!) {{ create{noun}(data: $data) {{ {fields} }} }}"


# -- groups a thing is for


async def test_many_connect_at_once_and_none_is_lost(hub: Hub) -> None:
    names = [f"g{number}" for number in range(8)]
    for name in names:
        await hub.admin.data(create("Group"), data={"name": name})
    await hub.admin.data(create("InstanceType"), data={"name": "small"})

    async def connect(name: str) -> None:
        data = {"description": name, "groups": {"connect": [{"id": name}]}}
        await hub.admin.data(update("InstanceType"), where={"id": "small"}, data=data)

    await asyncio.gather(*map(connect, names))
    found = await hub.house.services.instance_types.get(hub.house.admin, "small")
    assert list(found.groups) == names


@pytest.mark.parametrize("noun", ["InstanceType", "Image", "Dataset"])
async def test_everyone_is_a_group_to_connect(hub: Hub, noun: str) -> None:
    more = {"InstanceType": {}, "Image": {"url": "x:1"}, "Dataset": {"type": "env", "variables": {}}}[noun]
    fields = "id global groups { id }"
    made = await hub.admin.data(create(noun, fields), data={"name": "thing", **more})
    assert made == {"id": "thing", "global": False, "groups": []}

    async def change(**relation: Any) -> tuple[bool, list[str]]:
        found = await hub.admin.data(update(noun, fields), where={"id": "thing"}, data=relation)
        return found["global"], [group["id"] for group in found["groups"]]

    assert await change(groups={"connect": [{"id": "everyone"}, {"id": "red"}]}) == (True, ["red"])
    assert await change(groups={"disconnect": [{"id": "everyone"}]}) == (False, ["red"])
    assert await change(groups={"disconnect": [{"id": "everyone"}, {"id": "blue"}]}) == (False, ["red"])  # as it was
    assert await change(**{"global": True}) == (True, ["red"])
    assert await change(**{"global": None}, groups=None) == (True, ["red"])
    assert await change(groups={"disconnect": [{"id": "red"}], "connect": []}) == (True, [])
    both = {"connect": [{"id": "red"}], "disconnect": [{"id": "red"}]}
    assert await change(groups=both) == (True, ["red"])  # to have the link made anew
    made = await hub.admin.data(create(noun, fields), data={"name": "other", "global": True, **more})
    assert made["global"] is True


@pytest.mark.parametrize("noun", ["InstanceType", "Image", "Dataset"])
async def test_an_unknown_group_stops_the_whole_change(hub: Hub, noun: str) -> None:
    more = {"InstanceType": {}, "Image": {"url": "x:1"}, "Dataset": {"type": "env", "variables": {}}}[noun]
    await hub.admin.data(create(noun), data={"name": "thing", "description": "before", **more})
    data = {"description": "after", "groups": {"connect": [{"id": "red"}, {"id": "nowhere"}]}}
    refused = await hub.admin.refused(update(noun), where={"id": "thing"}, data=data)
    assert refused == ("RESOURCE_NOT_FOUND", "Group nowhere not found")
    found = await hub.admin.data(update(noun, "description groups { id }"), where={"id": "thing"}, data={})
    assert found == {"description": "before", "groups": []}
    refused = await hub.admin.refused(create(noun), data={"name": "half", **more, **data})
    assert refused[0] == "RESOURCE_NOT_FOUND"
    refused = await hub.admin.refused(update(noun), where={"id": "half"}, data={})
    plural = {"InstanceType": "instancetypes", "Image": "images", "Dataset": "datasets"}[noun]
    assert refused == ("RESOURCE_NOT_FOUND", f'{plural}.primehub.io "half" not found')
    refused = await hub.admin.refused(update(noun), where={"id": "thing"}, data={"name": "new"})
    assert refused == ("REQUEST_BODY_INVALID", "The name of thing cannot be changed")
    taken = await hub.admin.refused(create(noun), data={"name": "thing", **more})
    assert taken == ("RESOURCE_CONFLICT", "Resource already exist")


# -- images


async def test_urls_of_images(hub: Hub) -> None:
    fields = "type url urlForGpu spec useImagePullSecret"
    made = await hub.admin.data(create("Image", fields), data={"name": "tf", "url": "tf:1", "urlForGpu": "tf:1-gpu"})
    assert (made["type"], made["url"], made["urlForGpu"]) == ("both", "tf:1", "tf:1-gpu")
    where = {"id": "tf"}
    changed = await hub.admin.data(update("Image", fields), where=where, data={"url": "tf:2"})
    assert (changed["url"], changed["urlForGpu"]) == ("tf:2", "tf:1-gpu")
    changed = await hub.admin.data(update("Image", fields), where=where, data={"type": "cpu", "urlForGpu": None})
    assert (changed["type"], changed["urlForGpu"]) == ("cpu", "tf:2")
    assert (await hub.admin.refused(update("Image"), where=where, data={"type": "tpu"}))[0] == "REQUEST_BODY_INVALID"
    refused = await hub.admin.refused(update("Image"), where=where, data={"imageSpec": {"baseImage": "x"}})
    assert refused[0] == "REQUEST_BODY_INVALID"
    assert "Building images is not supported" in refused[1]
    for secret in ("image-none", "gitsync-secret-none", "none"):
        refused = await hub.admin.refused(update("Image"), where=where, data={"useImagePullSecret": secret})
        assert refused[0] == "RESOURCE_NOT_FOUND", secret


async def test_an_image_stays_with_its_group(hub: Hub) -> None:
    await hub.house.services.image_aliases.create(hub.house.admin, ImageAlias(name="ours", url="o:1", owner="red"))
    where = {"id": "ours"}
    assert await hub.admin.data(update("Image"), where=where, data={"groupName": "red"}) == where
    assert (await hub.admin.refused(update("Image"), where=where, data={"groupName": "blue"}))[
        0
    ] == "REQUEST_BODY_INVALID"
    leaving = {"groups": {"disconnect": [{"id": "red"}]}}
    assert (await hub.admin.refused(update("Image"), where=where, data=leaving))[0] == "REQUEST_BODY_INVALID"


# -- instance types


async def test_sizes_are_in_gigabytes_and_requests_can_be_taken_back(hub: Hub) -> None:
    fields = "cpuLimit memoryLimit gpuLimit cpuRequest memoryRequest tolerations { operator key value effect }"
    toleration = {"key": "team", "value": "red"}
    data = {
        "name": "s", "cpuLimit": 1.5, "memoryLimit": 0.5, "cpuRequest": 1, "memoryRequest": 0.25,
        "tolerations": {"set": [toleration]},
    }  # fmt: skip
    made = await hub.admin.data(create("InstanceType", fields), data=data)
    assert made == {
        "cpuLimit": 1.5, "memoryLimit": 0.5, "gpuLimit": 0, "cpuRequest": 1, "memoryRequest": 0.25,
        "tolerations": [{"operator": "Equal", **toleration, "effect": None}],
    }  # fmt: skip
    found = await hub.house.services.instance_types.get(hub.house.admin, "s")
    assert (found.memory, found.memory_request) == (2**29, 2**28)
    taken = {"cpuRequest": None, "memoryRequest": None, "cpuLimit": None, "tolerations": None}
    changed = await hub.admin.data(update("InstanceType", fields), where={"id": "s"}, data=taken)
    assert (changed["cpuRequest"], changed["memoryRequest"], changed["cpuLimit"]) == (None, None, 1.5)
    assert len(changed["tolerations"]) == 1


async def test_sizes_that_cannot_be(hub: Hub) -> None:
    for wrong in (
        {"cpuLimit": 0},
        {"cpuLimit": -1},
        {"memoryLimit": 1e300},
        {"memoryLimit": 0},
        {"gpuLimit": -1},
        {"cpuRequest": 2},
        {"gpuResourceName": "tpu"},
        {"nodeSelector": "zone"},
        {"nodeSelector": {"zone": 1}},
        {"tolerations": {"set": [{"operator": "Maybe", "key": "abc", "value": "def"}]}},
        {"displayName": "x" * 300},
    ):
        refused = await hub.admin.refused(create("InstanceType"), data={"name": "s", **wrong})
        assert refused[0] == "REQUEST_BODY_INVALID", wrong
        refused = await hub.admin.refused(update("InstanceType"), where={"id": "cpu-1"}, data=wrong)
        assert refused[0] == "REQUEST_BODY_INVALID", wrong


# -- volumes


async def test_who_may_write_a_volume(hub: Hub, tmp_path: Path) -> None:
    fields = "global groups { id writable }"
    (tmp_path / "v").mkdir()
    connect = {"connect": [{"id": "red", "writable": True}, {"id": "blue"}]}
    form = {"name": "v", "type": "hostPath", "hostPath": str(tmp_path / "v"), "groups": connect}
    made = await hub.admin.data(create("Dataset", fields), data=form)
    assert made["groups"] == [{"id": "blue", "writable": False}, {"id": "red", "writable": True}]

    async def change(*links: dict[str, Any], verb: str = "connect") -> Dataset:
        await hub.admin.data(update("Dataset"), where={"id": "v"}, data={"groups": {verb: links}})
        return await hub.house.services.datasets.get(hub.house.admin, "v")

    assert (await change({"id": "red"}, {"id": "blue"})).writable_groups == ("red",)  # nothing said of writing
    anew = {"connect": [{"id": "blue", "writable": True}, {"id": "red"}], "disconnect": [{"id": "blue"}, {"id": "red"}]}
    await hub.admin.data(update("Dataset"), where={"id": "v"}, data={"groups": anew})
    assert (await change()).writable_groups == ("blue",)
    assert (await change({"id": "blue", "writable": False})).writable_groups == ()
    assert (await change({"id": "everyone", "writable": True})).read_only is False
    found = await change({"id": "everyone"}, verb="disconnect")
    assert (found.read_only, found.everyone, found.groups) == (True, False, ("blue", "red"))


async def test_nothing_can_be_written_to_variables(hub: Hub) -> None:
    form = {"name": "v", "type": "env", "groups": {"connect": [{"id": "red", "writable": True}]}}
    fields = "variables groups { id writable }"
    made = await hub.admin.data(create("Dataset", fields), data=form)
    assert made == {"variables": {}, "groups": [{"id": "red", "writable": False}]}
    data = {"groups": {"connect": [{"id": "blue", "writable": True}]}}
    changed = await hub.admin.data(update("Dataset", fields), where={"id": "v"}, data=data)
    assert [group["writable"] for group in changed["groups"]] == [False, False]
    for wrong in ("text", ["a"], {"1": "x"}, {"A": 1}):
        refused = await hub.admin.refused(update("Dataset"), where={"id": "v"}, data={"variables": wrong})
        assert refused[0] == "REQUEST_BODY_INVALID"


async def test_a_folder_on_a_file_server(tmp_path: Path) -> None:
    for folder in ("nas/data", "nas/more"):
        (tmp_path / "net" / folder).mkdir(parents=True)
    async with open_hub(tmp_path / "home", settings={"mounts": {"nfs_folder": str(tmp_path / "net")}}) as hub:
        fields = "type nfsServer nfsPath hostPath"
        form = {"name": "v", "type": "nfs", "nfsServer": "nas", "nfsPath": "/data"}
        made = await hub.admin.data(create("Dataset", fields), data=form)
        assert made == {"type": "nfs", "nfsServer": "nas", "nfsPath": "/data", "hostPath": None}
        changed = await hub.admin.data(update("Dataset", fields), where={"id": "v"}, data={"nfsPath": "/more"})
        assert (changed["nfsServer"], changed["nfsPath"]) == ("nas", "/more")
        found = await hub.house.services.datasets.get(hub.house.admin, "v")
        assert found.path == str(tmp_path / "net/nas/more")
        for wrong in ({"nfsPath": "/none"}, {"nfsPath": "/../../etc"}, {"nfsServer": ".."}):
            refused = await hub.admin.refused(update("Dataset"), where={"id": "v"}, data=wrong)
            assert refused[0] in ("REQUEST_BODY_INVALID", "RESOURCE_NOT_FOUND")
        assert (await hub.house.services.datasets.get(hub.house.admin, "v")).path == str(tmp_path / "net/nas/more")
        as_folder = {"type": "hostPath", "hostPath": str(tmp_path / "net/nas/data")}
        changed = await hub.admin.data(update("Dataset", fields), where={"id": "v"}, data=as_folder)
        assert changed == {"type": "hostPath", "nfsServer": None, "nfsPath": None, "hostPath": as_folder["hostPath"]}
        refused = await hub.admin.refused(update("Dataset"), where={"id": "v"}, data={"type": "env"})
        assert refused[0] == "REQUEST_BODY_INVALID"


async def test_secrets_of_checkouts(hub: Hub) -> None:
    for name in ("one", "two"):
        await hub.admin.data(create("Secret"), data={"name": name, "type": "opaque", "secret": "geheim"})
    fields = "url secret { id }"
    form = {"name": "code", "type": "git", "url": "https://git.invalid/a.git"}
    secret = {"connect": {"id": "gitsync-secret-one"}}
    made = await hub.admin.data(create("Dataset", fields), data={**form, "secret": secret})
    assert made == {"url": form["url"], "secret": {"id": "gitsync-secret-one"}}
    where = {"id": "code"}
    changed = await hub.admin.data(update("Dataset", fields), where=where, data={"url": "https://git.invalid/b.git"})
    assert changed == {"url": "https://git.invalid/b.git", "secret": {"id": "gitsync-secret-one"}}
    data = {"secret": {"connect": {"id": "gitsync-secret-two"}}}
    assert (await hub.admin.data(update("Dataset", fields), where=where, data=data))["secret"]["id"].endswith("two")
    data = {"secret": {"disconnect": True}}
    assert (await hub.admin.data(update("Dataset", fields), where=where, data=data))["secret"] is None
    data = {"secret": {"connect": {"id": "gitsync-secret-three"}}}
    assert (await hub.admin.refused(update("Dataset"), where=where, data=data))[0] == "RESOURCE_NOT_FOUND"


# -- people


async def test_an_empty_secret_is_refused_by_the_name_of_its_field(hub: Hub) -> None:
    registry = {"type": "kubernetes", "registryHost": "ghcr.io", "username": "x", "password": ""}
    for data, field in (
        ({"type": "opaque"}, "secret"),
        ({"type": "opaque", "secret": " "}, "secret"),
        (registry, "password"),
    ):
        refused = await hub.admin.refused(create("Secret"), data={"name": "key", **data})
        assert refused[0] == "REQUEST_BODY_INVALID"
        assert refused[1].startswith(f"`{field}` is empty")
    await hub.admin.data(create("Secret"), data={"name": "key", "type": "opaque", "secret": "geheim"})
    where = {"id": "gitsync-secret-key"}
    assert "`secret` is empty" in (await hub.admin.refused(update("Secret"), where=where, data={"secret": ""}))[1]


async def test_users_keep_what_is_not_mentioned(hub: Hub) -> None:
    await hub.house.services.users.update_extension(hub.house.admin, "ann", {"other": 1})
    fields = "email firstName lastName volumeCapacity enabled isAdmin groups { id }"

    async def change(**data: Any) -> Any:
        return await hub.admin.data(update("User", fields), where={"id": "ann"}, data=data)

    changed = await change(firstName="Ann", lastName="Lee", email="a@b.example", volumeCapacity=3, username="ann")
    assert changed == {
        "email": "a@b.example", "firstName": "Ann", "lastName": "Lee", "volumeCapacity": 3, "enabled": True,
        "isAdmin": False, "groups": [{"id": "everyone"}, {"id": "red"}],
    }  # fmt: skip
    assert await change() == changed
    assert (await change(firstName=None))["lastName"] == "Lee"
    found = await hub.house.services.users.get(hub.house.admin, "ann")
    assert found.extension == {"other": 1, "primehub": {"lastName": "Lee", "volumeCapacity": 3}}
    wish = {"groups": {"connect": [{"id": "everyone"}, {"id": "blue"}]}}
    assert [group["id"] for group in (await change(**wish))["groups"]] == ["everyone", "blue", "red"]
    data = {"lastName": "New", "groups": {"connect": [{"id": "nowhere"}]}}
    refused = await hub.admin.refused(update("User"), where={"id": "ann"}, data=data)
    assert refused == ("RESOURCE_NOT_FOUND", "Group nowhere not found")
    assert (await change())["lastName"] == "Lee"
    for wrong in ({"username": "anna"}, {"firstName": "x" * 300}, {"lastName": "a\nb"}):
        refused = await hub.admin.refused(update("User"), where={"id": "ann"}, data=wrong)
        assert refused[0] == "REQUEST_BODY_INVALID"


async def test_admins_of_groups_stay_so_when_connected_again(hub: Hub) -> None:
    await hub.house.services.groups.set_member(hub.house.admin, "red", "ann", admin=True)
    wish = {"groups": {"connect": [{"id": "red"}]}}
    await hub.admin.data(update("User"), where={"id": "ann"}, data=wish)
    group = await hub.house.services.groups.get(hub.house.admin, "red")
    assert group.members == {"ann": True}


async def test_who_is_let_go_and_taken_in_again_stays(hub: Hub) -> None:
    for noun, id, key in (("User", "ann", "groups"), ("Group", "red", "users")):
        other = "red" if noun == "User" else "ann"
        data = {key: {"connect": [{"id": other}], "disconnect": [{"id": other}]}}
        found = await hub.admin.data(update(noun, f"{key} {{ id }}"), where={"id": id}, data=data)
        assert other in [each["id"] for each in found[key]]


async def test_a_user_who_would_be_sent_a_mail(hub: Hub) -> None:
    """There is none to be had, as from a PrimeHub without a mail server."""
    actions = {"set": ["VERIFY_EMAIL", "UPDATE_PASSWORD"]}
    data = {"username": "eve", "sendEmail": True, "resetActions": actions, "expiresIn": 86400}
    assert await hub.admin.data(create("User"), data=data) == {"id": "eve"}


async def test_a_disabled_user_is_made_disabled(hub: Hub) -> None:
    made = await hub.admin.data(create("User", "id enabled"), data={"username": "eve", "enabled": False})
    assert made == {"id": "eve", "enabled": False}


async def test_the_last_admin_stays(hub: Hub) -> None:
    for query in (
        'mutation { deleteUser(where: {id: "admin"}) { id } }',
        'mutation { updateUser(where: {id: "admin"}, data: {isAdmin: false}) { id } }',
        'mutation { updateUser(where: {id: "admin"}, data: {enabled: false}) { id } }',
    ):
        assert (await hub.admin.refused(query))[0] == "RESOURCE_CONFLICT"


async def test_quotas_that_cannot_be(hub: Hub) -> None:
    for wrong in (
        {"quotaCpu": -1},
        {"quotaMemory": 1e300},
        {"projectQuotaGpu": -1},
        {"quotaCpu": 4, "projectQuotaCpu": 2},
        {"jobDefaultActiveDeadlineSeconds": -5},
        {"name": "other"},
        {"sharedVolumeCapacity": -1},
    ):
        refused = await hub.admin.refused(update("Group"), where={"id": "red"}, data=wrong)
        assert refused[0] == "REQUEST_BODY_INVALID", wrong
        if "name" not in wrong:
            assert (await hub.admin.refused(create("Group"), data={"name": "new", **wrong}))[
                0
            ] == "REQUEST_BODY_INVALID"


async def test_a_group_with_its_admins_at_once(hub: Hub) -> None:
    data = {"name": "green", "users": {"connect": [{"id": "ann"}, {"id": "bob"}]}, "admins": "bob"}
    made = await hub.admin.data(create("Group", "id admins users { id }"), data=data)
    assert made == {"id": "green", "admins": "bob", "users": [{"id": "ann"}, {"id": "bob"}]}
    for wrong, code in (
        ({"users": {"connect": [{"id": "nobody"}]}}, "RESOURCE_NOT_FOUND"),
        ({"admins": "ann"}, "REQUEST_BODY_INVALID"),
        ({"name": "GREEN"}, "GROUP_CONFLICT_NAME"),  # too much alike
    ):
        assert (await hub.admin.refused(create("Group"), data={"name": "pink", **wrong}))[0] == code


async def test_mlflow_that_cannot_be_changes_nothing(hub: Hub) -> None:
    data = {"displayName": "half", "trackingUri": "http://m", "trackingEnvs": [{"name": "1 x", "value": ""}]}
    assert (await hub.admin.refused(update("Group"), where={"id": "red"}, data=data))[0] == "REQUEST_BODY_INVALID"
    assert (await hub.house.services.groups.get(hub.house.admin, "red")).display_name == ""

"""Who may look at what admins look after, and who may change it."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.catalogue import ImageAlias, Secret, SecretKind

from .hub import Caller, Hub

pytestmark = pytest.mark.anyio

NOT_AUTH = ("NOT_AUTH", "user not auth")
NOT_AUTHORISE = ("NOT_AUTH", "Not authorise")

ADMINS_ALONE = [
    "{ users { id } }",
    "{ usersConnection(first: 10) { edges { cursor } } }",
    "{ groups { id } }",
    "{ groupsConnection { edges { cursor } } }",
    '{ instanceType(where: {id: "cpu-1"}) { id } }',
    "{ instanceTypes { id } }",
    "{ instanceTypesConnection { edges { cursor } } }",
    '{ dataset(where: {id: "any"}) { id } }',
    "{ datasets { id } }",
    "{ datasetsConnection { edges { cursor } } }",
    "{ secretsConnection { edges { cursor } } }",
    'mutation { createUser(data: {username: "eve"}) { id } }',
    'mutation { updateUser(data: {isAdmin: true}, where: {id: "ann"}) { id } }',
    'mutation { deleteUser(where: {id: "bob"}) { id } }',
    'mutation { resetPassword(id: "ann", password: "a-good-Pass-1") { id } }',
    'mutation { createGroup(data: {name: "mine"}) { id } }',
    'mutation { deleteGroup(where: {id: "red"}) { id } }',
    'mutation { createInstanceType(data: {name: "mine"}) { id } }',
    'mutation { updateInstanceType(data: {cpuLimit: 100}, where: {id: "cpu-1"}) { id } }',
    'mutation { deleteInstanceType(where: {id: "cpu-1"}) { id } }',
    'mutation { createDataset(data: {name: "root", type: "hostPath", hostPath: "/"}) { id } }',
    'mutation { updateDataset(data: {hostPath: "/"}, where: {id: "any"}) { id } }',
    'mutation { deleteDataset(where: {id: "any"}) { id } }',
    'mutation { regenerateUploadServerSecret(where: {id: "any"}) { id } }',
    'mutation { createSecret(data: {name: "mine", type: opaque, secret: "x"}) { id } }',
    'mutation { updateSecret(data: {secret: "x"}, where: {id: "gitsync-secret-key"}) { id } }',
    'mutation { deleteSecret(where: {id: "gitsync-secret-key"}) { id } }',
]


async def test_admins_alone(hub: Hub) -> None:
    """Also not those who look after a group."""
    await hub.house.services.groups.set_member(hub.house.admin, "red", "ann", admin=True)
    for query in ADMINS_ALONE:
        assert await hub.ann.refused(query) == NOT_AUTH, query
    everything = await hub.admin.data("{ users { username isAdmin groups { id } } }")
    assert {user["username"] for user in everything} == {"admin", "ann", "bob"}
    assert [user["username"] for user in everything if user["isAdmin"]] == ["admin"]


async def test_anyone_sees_images_they_may_use_and_secrets_to_pull_with(hub: Hub) -> None:
    aliases, secrets, admin = hub.house.services.image_aliases, hub.house.services.secrets, hub.house.admin
    await aliases.create(admin, ImageAlias(name="blues", url="b:1", groups=("blue",)))
    pull = Secret(name="pull", kind=SecretKind.REGISTRY, registry_host="r.example", username="me")
    await secrets.create(admin, pull, "geheim")
    await secrets.create(admin, Secret(name="key"), "geheim")

    async def sees(caller: Caller) -> tuple[list[str], bool]:
        listed = await caller.data("{ imagesConnection { edges { node { id } } } }")
        one = await caller.data('{ image(where: {id: "blues"}) { id url } }')
        return [edge["node"]["id"] for edge in listed["edges"]], one is not None

    assert await sees(hub.ann) == (["host"], False)
    assert await sees(hub.bob) == (["blues", "host"], True)
    assert await sees(hub.admin) == (["blues", "host"], True)
    secret = "query ($where: SecretWhereUniqueInput!) { secret(where: $where) { name username password secret } }"
    shown = {"name": "pull", "username": "me", "password": None, "secret": None}
    assert await hub.ann.data(secret, where={"id": "image-pull"}) == shown
    assert (await hub.ann.refused(secret, where={"id": "gitsync-secret-key"}))[0] == "RESOURCE_NOT_FOUND"
    assert (await hub.admin.data(secret, where={"id": "gitsync-secret-key"}))["name"] == "key"


CREATE_IMAGE = "mutation ($data: ImageCreateInput!) { createImage(data: $data) { id groupName groups { id } } }"
UPDATE_IMAGE = """
mutation ($data: ImageUpdateInput!, $where: ImageWhereUniqueInput!) {
  updateImage(data: $data, where: $where) { id url global groups { id } }
}
"""
DELETE_IMAGE = "mutation ($where: ImageWhereUniqueInput!) { deleteImage(where: $where) { id } }"


async def test_images_of_a_group_are_its_admins(hub: Hub) -> None:
    await hub.house.services.groups.set_member(hub.house.admin, "red", "ann", admin=True)
    eve = await hub.caller(await hub.house.user("eve", "red"))
    ours: dict[str, Any] = {"name": "ours", "url": "o:1", "groupName": "red"}
    connected = {**ours, "groups": {"connect": [{"id": "red"}]}}
    for refused in (eve, hub.bob):
        assert await refused.refused(CREATE_IMAGE, data=ours) == NOT_AUTHORISE
    assert await hub.ann.refused(CREATE_IMAGE, data={"name": "all", "url": "a:1"}) == NOT_AUTHORISE
    assert await hub.ann.refused(CREATE_IMAGE, data={**ours, "groupName": "blue"}) == NOT_AUTHORISE
    assert (await hub.ann.refused(CREATE_IMAGE, data={**ours, "global": True}))[0] == "NOT_AUTH"
    made = await hub.ann.data(CREATE_IMAGE, data=connected)
    assert made == {"id": "ours", "groupName": "red", "groups": [{"id": "red"}]}

    where = {"id": "ours"}
    again = {"url": "o:2", "groups": {"connect": [{"id": "red"}]}}
    assert (await hub.ann.data(UPDATE_IMAGE, where=where, data=again))["url"] == "o:2"
    assert await eve.refused(UPDATE_IMAGE, where=where, data={"url": "evil"}) == NOT_AUTHORISE
    said = ("RESOURCE_NOT_FOUND", 'images.primehub.io "ours" not found')
    assert await hub.bob.refused(UPDATE_IMAGE, where=where, data={"url": "evil"}) == said
    assert (await hub.ann.refused(UPDATE_IMAGE, where=where, data={"global": True}))[0] == "NOT_AUTH"
    assert await hub.ann.refused(UPDATE_IMAGE, where={"id": "host"}, data={"url": "evil"}) == NOT_AUTHORISE
    assert await eve.refused(DELETE_IMAGE, where=where) == NOT_AUTHORISE
    assert await hub.ann.refused(DELETE_IMAGE, where={"id": "host"}) == NOT_AUTHORISE
    assert await hub.ann.data(DELETE_IMAGE, where=where) == {"id": "ours"}
    assert await hub.bob.refused(DELETE_IMAGE, where=where) == said


async def test_admins_of_a_group_change_who_is_in_it_and_not_what_it_has(hub: Hub) -> None:
    await hub.house.services.groups.set_member(hub.house.admin, "red", "ann", admin=True)
    update = """
    mutation ($data: GroupUpdateInput!) { updateGroup(data: $data, where: {id: "red"}) { id quotaCpu admins } }
    """
    for wish in ({"projectQuotaCpu": 100}, {"quotaGpu": 8}, {"enabledSharedVolume": True}, {"displayName": "Reds"}):
        assert (await hub.ann.refused(update, data=wish))[0] == "NOT_AUTH", wish
    same = {"quotaCpu": None, "displayName": "red", "jobDefaultActiveDeadlineSeconds": 60}
    assert (await hub.admin.data(update, data={"displayName": "red"}))["id"] == "red"
    assert (await hub.ann.data(update, data=same))["admins"] == "ann"


async def test_variables_are_told_to_admins_alone(hub: Hub) -> None:
    create = "mutation ($data: DatasetCreateInput!) { createDataset(data: $data) { variables } }"
    form = {"name": "db", "type": "env", "variables": {"KEY": "geheim"}, "groups": {"connect": [{"id": "red"}]}}
    assert await hub.admin.data(create, data=form) == {"variables": {"KEY": "geheim"}}
    found = await hub.ann.data("{ me { effectiveGroups { datasets { name variables } } } }")
    assert found["effectiveGroups"][0]["datasets"] == [{"name": "db", "variables": None}]

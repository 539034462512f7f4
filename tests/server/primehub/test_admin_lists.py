"""Lists for admins: pages, conditions, order."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.catalogue import ImageAlias, InstanceType, Secret
from holdfast.core.job import GIB

from .hub import Hub

pytestmark = pytest.mark.anyio


def ids(connection: Any) -> list[str]:
    return [edge["node"]["id"] for edge in connection["edges"]]


async def test_pages_of_users_are_numbered_from_0_and_end(hub: Hub) -> None:
    for number in range(12):
        await hub.house.services.users.create(hub.house.admin, name=f"u{number:02}")
    query = """
    query ($after: String, $first: Int, $where: UserWhereInput, $order: UsersOrderBy) {
      usersConnection(after: $after, first: $first, where: $where, userOrderBy: $order) {
        edges { cursor node { id } }
        pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
      }
    }
    """
    pages = [await hub.admin.data(query, after=str(number), first=10) for number in range(3)]
    assert [len(page["edges"]) for page in pages] == [10, 5, 0]
    assert ids(pages[0]) + ids(pages[1]) == ["admin", "ann", "bob", *(f"u{number:02}" for number in range(12))]
    assert pages[0]["pageInfo"] == {"hasNextPage": True, "hasPreviousPage": False, "startCursor": "0", "endCursor": "1"}
    assert await hub.admin.data(query, after=pages[0]["pageInfo"]["endCursor"], first=10) == pages[1]
    assert pages[1]["pageInfo"]["hasNextPage"] is False
    assert ids(await hub.admin.data(query, first=2)) == ["admin", "ann"]
    assert ids(await hub.admin.data(query, after="ann", first=2)) == ["bob", "u00"]  # a row to begin behind
    assert ids(await hub.admin.data(query, first=5, where={"search": "NN"})) == ["ann"]
    assert ids(await hub.admin.data(query, first=2, order={"username": "desc"})) == ["u11", "u10"]
    assert (await hub.admin.refused(query, after="0", first=-1))[0] == "REQUEST_BODY_INVALID"
    assert ids(await hub.admin.data(query, after="999999999", first=100)) == []


async def test_instance_types_by_page_condition_and_order(hub: Hub) -> None:
    query = """
    query ($page: Int, $where: InstanceTypeWhereInput, $order: InstanceTypeOrderByInput) {
      instanceTypesConnection(page: $page, where: $where, orderBy: $order) {
        edges { node { id } }
        pageInfo { currentPage totalPage }
      }
    }
    """
    for number in range(8):
        made = InstanceType(name=f"size-{number}", description="Odd" if number % 2 else "", memory=(9 - number) * GIB)
        await hub.house.services.instance_types.create(hub.house.admin, made)
    first = await hub.admin.data(query)
    assert (len(first["edges"]), first["pageInfo"]) == (10, {"currentPage": 1, "totalPage": 2})
    assert ids(await hub.admin.data(query, page=2)) == ["size-6", "size-7"]
    assert ids(await hub.admin.data(query, page=3)) == []
    assert ids(await hub.admin.data(query, where={"search": "odd"})) == ["size-1", "size-3", "size-5", "size-7"]
    assert ids(await hub.admin.data(query, where={"name_contains": "gpu"})) == ["gpu-1", "gpu-2"]
    assert ids(await hub.admin.data(query, where={"id": "cpu-2"})) == ["cpu-2"]
    assert (
        ids(await hub.admin.data(query, where={"name_contains": "size"}, order={"memoryLimit": "asc"}))[0] == "size-7"
    )
    assert (await hub.admin.refused(query, order={"name": "up"}))[0] == "REQUEST_BODY_INVALID"
    listed = await hub.admin.data('{ instanceTypes(where: {name_contains: "cpu"}) { id } }')
    assert [each["id"] for each in listed] == ["cpu-1", "cpu-2"]


async def test_images_of_the_place_and_of_groups(hub: Hub) -> None:
    aliases = hub.house.services.image_aliases
    await aliases.create(hub.house.admin, ImageAlias(name="ours", url="o:1", owner="red"))
    await aliases.create(hub.house.admin, ImageAlias(name="theirs", url="t:1", owner="blue"))

    async def listed(arguments: str) -> list[str]:
        return ids(await hub.admin.data(f"{{ imagesConnection({arguments}) {{ edges {{ node {{ id }} }} }} }}"))

    assert await listed("mode: SYSTEM_ONLY") == ["host"]
    assert await listed("mode: GROUP_ONLY") == ["ours", "theirs"]
    assert await listed("mode: ALL") == await listed("page: 1") == ["host", "ours", "theirs"]
    assert await listed('where: {groupName_in: ["blue"]}') == ["theirs"]
    assert [each["id"] for each in await hub.admin.data("{ images(mode: GROUP_ONLY) { id } }")] == ["ours", "theirs"]


async def test_groups_and_volumes(hub: Hub) -> None:
    async def listed(field: str) -> list[str]:
        return ids(await hub.admin.data(f"{{ {field} {{ edges {{ node {{ id }} }} }} }}"))

    assert await listed("groupsConnection(page: 1)") == ["blue", "default", "red"]
    assert await listed('groupsConnection(where: {search: "RE"}, orderBy: {name: "desc"})') == ["red"]
    assert [each["id"] for each in await hub.admin.data("{ groups { id } }")] == ["blue", "default", "red"]
    create = "mutation ($data: DatasetCreateInput!) { createDataset(data: $data) { id } }"
    for name in ("b", "a"):
        await hub.admin.data(create, data={"name": name, "type": "env", "variables": {}})
    assert await listed("datasetsConnection") == ["a", "b"]
    assert [each["id"] for each in await hub.admin.data('{ datasets(orderBy: {name: "desc"}) { id } }')] == ["b", "a"]


async def test_secrets_without_a_page_are_all_there(hub: Hub) -> None:
    for number in range(12):
        await hub.house.services.secrets.create(hub.house.admin, Secret(name=f"s{number:02}"), "geheim")
    assert len(ids(await hub.admin.data("{ secretsConnection { edges { node { id } } } }"))) == 12
    assert len(ids(await hub.admin.data("{ secretsConnection(page: 2) { edges { node { id } } } }"))) == 2

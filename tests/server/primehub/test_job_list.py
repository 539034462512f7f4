"""Lists of jobs: pages that end, conditions, orders, cursors."""

from __future__ import annotations

from typing import Any

import pytest

from .hub import Caller, Hub

pytestmark = pytest.mark.anyio

LIST = """
query ($where: PhJobWhereInput, $orderBy: PhJobOrderByInput, $page: Int, $first: Int, $last: Int, $after: String,
       $before: String) {
  phJobsConnection(where: $where, orderBy: $orderBy, page: $page, first: $first, last: $last, after: $after,
                   before: $before) {
    pageInfo { totalPage currentPage hasNextPage hasPreviousPage startCursor endCursor }
    edges { cursor node { id displayName } }
  }
}
"""


async def names(caller: Caller, **variables: Any) -> list[str]:
    found = await caller.data(LIST, **variables)
    assert all(edge["cursor"] == edge["node"]["id"] for edge in found["edges"])
    return [edge["node"]["displayName"] for edge in found["edges"]]


async def submit(hub: Hub, caller: Caller, *given: str, **more: Any) -> dict[str, str]:
    return {name: await caller.submit(displayName=name, **more) for name in given}


async def test_pages_have_ten_rows_and_end_with_an_empty_one(hub: Hub) -> None:
    made = [f"n{number:02}" for number in range(23)]
    await submit(hub, hub.ann, *made)
    newest = made[::-1]
    pages = []
    for page in (1, 2, 3, 4):
        found = await hub.ann.data(LIST, page=page)
        info = found["pageInfo"]
        assert (info["totalPage"], info["currentPage"]) == (3, page)
        pages.append([edge["node"]["displayName"] for edge in found["edges"]])
    assert pages == [newest[:10], newest[10:20], newest[20:], []]
    assert await names(hub.ann, page=10**9) == []
    assert await names(hub.ann) == newest[:10]
    assert await names(hub.ann, page=-5) == newest[:10]


async def test_an_empty_list_is_one_empty_page(hub: Hub) -> None:
    found = await hub.ann.data(LIST, page=1)
    assert found["edges"] == []
    assert found["pageInfo"] == {
        "totalPage": 1,
        "currentPage": 1,
        "hasNextPage": False,
        "hasPreviousPage": False,
        "startCursor": None,
        "endCursor": None,
    }


async def test_one_sees_the_jobs_of_ones_groups(hub: Hub) -> None:
    await submit(hub, hub.ann, "a")
    await submit(hub, hub.bob, "b", groupId="blue")
    for where in (None, {}, {"groupId_in": []}, {"groupId_in": ["red", "blue"]}, {"groupId_in": ["red", None]}):
        assert await names(hub.ann, where=where) == ["a"], where
    assert await names(hub.ann, where={"groupId_in": ["blue"]}) == []
    assert await names(hub.admin, where={}) == ["b", "a"]
    assert await names(hub.admin, where={"groupId_in": ["blue"]}) == ["b"]
    assert await names(hub.admin, where={"userId_in": ["ann"]}) == ["a"]


async def test_conditions(hub: Hub) -> None:
    eve = await hub.caller(await hub.house.user("eve", "red"))
    ids = await submit(hub, hub.ann, "Train Ärger", "train it", "other")
    await submit(hub, eve, "eves")
    conditions: list[tuple[dict[str, Any], list[str]]] = [
        ({"mine": True}, ["other", "train it", "Train Ärger"]),
        ({"mine": False}, ["eves", "other", "train it", "Train Ärger"]),
        ({"search": "TRAIN"}, ["train it", "Train Ärger"]),
        ({"search": "äRG"}, ["Train Ärger"]),
        ({"search": ids["other"][-6:]}, ["other"]),
        ({"search": "ann"}, []),
        ({"search": ""}, ["eves", "other", "train it", "Train Ärger"]),
        ({"displayName_contains": "Train"}, ["Train Ärger"]),
        ({"displayName_contains": "rain"}, ["train it", "Train Ärger"]),
        ({"displayName_contains": "rain", "search": "it", "mine": True}, ["train it"]),
        ({"id": ids["other"]}, ["other"]),
        ({"search": "%"}, []),
    ]
    for where, expected in conditions:
        assert await names(hub.ann, where=where) == expected, where
    assert await names(hub.ann, where={"id": ids["other"]}, page=2) == []
    assert (await hub.bob.refused(LIST, where={"id": ids["other"]}))[0] == "RESOURCE_NOT_FOUND"


async def test_orders(hub: Hub) -> None:
    eve = await hub.caller(await hub.house.user("eve", "red", "blue"))
    await submit(hub, hub.ann, "b")
    await submit(hub, eve, "a", groupId="blue")
    await submit(hub, eve, "c")
    await hub.house.until((await hub.ann.data(LIST))["edges"][-1]["node"]["id"])
    orders: list[tuple[dict[str, str], list[str]]] = [
        ({}, ["c", "a", "b"]),
        ({"createTime": "asc"}, ["b", "a", "c"]),
        ({"createTime": "desc"}, ["c", "a", "b"]),
        ({"displayName": "asc"}, ["a", "b", "c"]),
        ({"displayName": "desc"}, ["c", "b", "a"]),
        ({"userName": "asc"}, ["b", "a", "c"]),
        ({"groupName": "asc"}, ["a", "b", "c"]),
        ({"displayName": "asc", "createTime": "desc"}, ["a", "b", "c"]),  # the first counts
    ]
    for order, expected in orders:
        assert await names(hub.admin, orderBy=order) == expected, order
    for key in ("schedule", "phase"):
        assert sorted(await names(hub.admin, orderBy={key: "asc"})) == ["a", "b", "c"]
    code, message = await hub.ann.refused(LIST, orderBy={"displayName": "up"})
    assert code == "REQUEST_BODY_INVALID"
    assert "asc or desc" in message
    assert (await hub.ann.refused(LIST, orderBy={"colour": "asc"}))[0] == "GRAPHQL_VALIDATION_FAILED"


async def test_rows_around_a_cursor(hub: Hub) -> None:
    ids = await submit(hub, hub.ann, "a", "b", "c", "d", "e")  # listed as e d c b a
    found = await hub.ann.data(LIST, first=2)
    assert [edge["node"]["displayName"] for edge in found["edges"]] == ["e", "d"]
    info = found["pageInfo"]
    assert (info["startCursor"], info["endCursor"]) == (ids["e"], ids["d"])
    assert (info["hasNextPage"], info["hasPreviousPage"], info["totalPage"]) == (True, False, None)
    assert await names(hub.ann, first=2, after=ids["d"]) == ["c", "b"]
    assert await names(hub.ann, first=2, after=ids["b"]) == ["a"]
    assert not (await hub.ann.data(LIST, first=2, after=ids["b"]))["pageInfo"]["hasNextPage"]
    assert await names(hub.ann, last=2, before=ids["b"]) == ["d", "c"]
    assert (await hub.ann.data(LIST, last=2, before=ids["b"]))["pageInfo"]["hasPreviousPage"]
    assert await names(hub.ann, last=2) == ["b", "a"]
    assert await names(hub.ann, first=9, after=ids["e"], before=ids["a"]) == ["d", "c", "b"]
    assert await names(hub.ann, first=2, after=ids["a"], orderBy={"createTime": "asc"}) == ["b", "c"]
    assert await names(hub.ann, first=0) == []
    for wrong in ({"first": -1}, {"first": 101}, {"after": "nope"}, {"first": 1, "orderBy": {"displayName": "asc"}}):
        assert (await hub.ann.refused(LIST, **wrong))[0] == "REQUEST_BODY_INVALID", wrong


async def test_all_at_once(hub: Hub) -> None:
    ids = await submit(hub, hub.ann, "a", "b")
    assert await hub.ann.data("{ phJobs { id } }") == [{"id": ids["b"]}, {"id": ids["a"]}]
    found = await hub.ann.data("query ($id: ID) { phJobs(where: {id: $id}) { displayName } }", id=ids["a"])
    assert found == [{"displayName": "a"}]


async def test_jobs_with_too_much_text_are_not_all_given_at_once(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.services.jobs.service.MAX_DETAIL_BYTES", 1000)
    await submit(hub, hub.ann, *(f"n{number}" for number in range(12)), command="# " + "x" * 1000)
    assert len(await names(hub.ann, page=1)) == 10
    code, message = await hub.ann.refused(LIST, first=12)
    assert code == "REQUEST_BODY_INVALID"
    assert "fewer rows" in message

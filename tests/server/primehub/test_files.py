"""Shared files and datasets as GraphQL tells them, and usage reports."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from .hub import Caller, Hub

pytestmark = pytest.mark.anyio

LIST = """query ($where: StoreFileWhereInput!, $options: StoreFileListOptionInput) {
  files(where: $where, options: $options) { prefix phfsPrefix items { name size lastModified } } }"""
DELETE = """mutation ($where: StoreFileWhereInput!, $options: StoreFileDeleteOptionInput) {
  deleteFiles(where: $where, options: $options) }"""
DV2 = "id name createdBy createdAt updatedAt tags size"


async def put(caller: Caller, *paths: str) -> None:
    for path in paths:
        answered = await caller.http.post(f"/api/files/groups/red/{path}", content=path.encode())
        assert answered.json() == {"success": True}


async def listed(caller: Caller, prefix: str, **options: Any) -> tuple[str, list[str]]:
    found = await caller.data(LIST, where={"groupName": "red", "phfsPrefix": prefix}, options=options)
    return found["phfsPrefix"], [item["name"] for item in found["items"]]


async def test_a_folder_is_listed_with_its_folders(hub: Hub) -> None:
    await put(hub.ann, "a/x.txt", "a/sub/y.txt", "ab.txt")
    assert await listed(hub.ann, "/a", recursive=False) == ("/a/", ["sub/", "x.txt"])
    assert await listed(hub.ann, "/", recursive=False) == ("/", ["a/", "ab.txt"])
    assert await listed(hub.ann, "/a/none", recursive=False) == ("/a/none/", [])
    found = await hub.ann.data(LIST, where={"groupName": "red", "phfsPrefix": "/a"}, options={})
    assert found["prefix"] == "groups/red/a/"
    assert found["items"][0] == {"name": "sub/", "size": 0, "lastModified": None}
    assert found["items"][1]["size"] == 7


async def test_recursive_takes_the_prefix_off(hub: Hub) -> None:
    await put(hub.ann, "a/x.txt", "a/sub/y.txt", "ab.txt")
    assert await listed(hub.ann, "/a/", recursive=True) == ("/a/", ["sub/y.txt", "x.txt"])
    assert await listed(hub.ann, "/a", recursive=True) == ("/a", ["/sub/y.txt", "/x.txt", "b.txt"])
    assert await listed(hub.ann, "/a/x.txt", recursive=True, limit=1) == ("/a/x.txt", [""])
    assert await listed(hub.ann, "/", recursive=True, limit=2) == ("/", ["a/sub/y.txt", "a/x.txt"])
    assert len((await listed(hub.ann, "/", recursive=True, limit=0))[1]) == 3


async def test_files_are_deleted_by_name_or_by_prefix(hub: Hub) -> None:
    await put(hub.ann, "a/x.txt", "a/sub/y.txt", "b.txt")
    where = {"groupName": "red", "phfsPrefix": "a/"}
    assert await hub.ann.data(DELETE, where=where, options={"recursive": False}) == 0
    assert await hub.ann.data(DELETE, where={**where, "phfsPrefix": "b.txt"}) == 1
    assert await hub.ann.data(DELETE, where=where, options={"recursive": True}) == 2
    assert await listed(hub.ann, "/", recursive=True) == ("/", [])


async def test_others_have_no_business_there(hub: Hub) -> None:
    await put(hub.ann, "a")
    where = {"groupName": "red", "phfsPrefix": "/"}
    assert await hub.bob.refused(LIST, where=where) == ("NOT_AUTH", "user not auth")
    assert await hub.bob.refused(DELETE, where=where) == ("NOT_AUTH", "user not auth")
    assert (await hub.admin.data(LIST, where=where))["items"]


# -- datasets


async def make(caller: Caller, id: str, tags: list[str] | None = None) -> Any:
    return await caller.data(
        f"mutation ($payload: DatasetV2CreateInput!) {{ createDatasetV2(data: $payload) {{ {DV2} }} }}",
        payload={"id": id, "groupName": "red", **({"tags": tags} if tags is not None else {})},
    )


async def test_a_dataset_is_made_changed_and_deleted(hub: Hub) -> None:
    made = await make(hub.ann, "mnist", ["a"])
    assert (made["id"], made["name"], made["createdBy"], made["tags"]) == ("mnist", "mnist", "ann", ["a"])
    await put(hub.ann, "datasets/mnist/x.bin")
    where = {"id": "mnist", "groupName": "red"}
    one = f"query ($where: DatasetV2WhereUniqueInput!) {{ datasetV2(where: $where) {{ {DV2} }} }}"
    assert (await hub.ann.data(one, where=where))["size"] == len("datasets/mnist/x.bin")
    change = """mutation ($payload: DatasetV2UpdateInput!, $where: DatasetV2WhereUniqueInput!) {
      updateDatasetV2(data: $payload, where: $where) { tags } }"""
    assert await hub.ann.data(change, where=where, payload={"tags": ["b", "c"]}) == {"tags": ["b", "c"]}
    assert await hub.ann.data(change, where=where, payload={}) == {"tags": ["b", "c"]}
    drop = "mutation ($where: DatasetV2WhereUniqueInput!) { deleteDatasetV2(where: $where) { id } }"
    assert await hub.ann.data(drop, where=where) == {"id": "mnist"}
    for asked in (one, drop):
        assert await hub.ann.refused(asked, where=where) == ("RESOURCE_NOT_FOUND", "Dataset mnist not found")
    assert await listed(hub.ann, "/datasets/", recursive=True) == ("/datasets/", [])


async def test_datasets_are_listed_until_a_page_is_empty(hub: Hub) -> None:
    for number in range(12):
        await make(hub.ann, f"set-{number:02}")
    asked = """query ($where: DatasetV2WhereInput, $page: Int) { datasetV2Connection(where: $where, page: $page) {
      edges { cursor node { id size } } pageInfo { currentPage totalPage } } }"""
    pages = [await hub.ann.data(asked, where={"groupName": "red"}, page=page) for page in (1, 2, 3)]
    assert [len(page["edges"]) for page in pages] == [10, 2, 0]
    assert pages[2]["pageInfo"] == {"currentPage": 3, "totalPage": 2}
    assert pages[0]["edges"][0] == {"cursor": "set-00", "node": {"id": "set-00", "size": None}}
    found = await hub.ann.data(asked, where={"groupName": "red", "search": "SET-1"}, page=1)
    assert [edge["cursor"] for edge in found["edges"]] == ["set-10", "set-11"]
    assert (await hub.bob.refused(asked, where={"groupName": "red"}))[0] == "NOT_AUTH"


async def test_the_same_dataset_twice_is_refused(hub: Hub) -> None:
    await make(hub.ann, "mnist")
    answered = await hub.ann.refused(
        "mutation ($payload: DatasetV2CreateInput!) { createDatasetV2(data: $payload) { id } }",
        payload={"id": "mnist", "groupName": "red"},
    )
    assert answered == ("RESOURCE_CONFLICT", "Resource already exist")


# -- reports


async def test_reports_are_for_admins_and_lead_to_csv(hub: Hub) -> None:
    id = await hub.ann.run(hub)
    (task,) = (await hub.house.services.jobs.list_attempts(hub.house.admin, id))[0].tasks
    assert task.task.started_at
    hub.house.clock.at = task.task.started_at + timedelta(minutes=1)
    month = f"{task.task.started_at:%Y/%m}"
    asked = """query ($page: Int) { usageReport: usageReportsConnection(page: $page) {
      edges { cursor node { id summaryUrl detailedUrl } } pageInfo { currentPage totalPage } } }"""
    (edge,) = (await hub.admin.data(asked, page=1))["edges"]
    assert edge["node"] == {
        "id": month,
        "summaryUrl": f"http://hub.example/api/report/monthly/{month}",
        "detailedUrl": f"http://hub.example/api/report/monthly/details/{month}",
    }
    assert (await hub.admin.data(asked, page=2))["edges"] == []
    for url in (edge["node"]["summaryUrl"], edge["node"]["detailedUrl"]):
        answered = await hub.admin.http.get(url)
        assert answered.headers["content-type"].startswith("text/csv")
        assert "red,ann,job," in answered.text
        assert (await hub.ann.http.get(url)).status_code == 403
    assert (await hub.admin.http.get("/api/report/monthly/2026/13")).status_code == 404
    assert (await hub.ann.refused(asked, page=1))[0] == "NOT_AUTH"

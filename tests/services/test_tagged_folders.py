from __future__ import annotations

import asyncio
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import Conflict, Forbidden, NotFound, UserError

from .folder_trees import around, place, sent
from .house import House

pytestmark = pytest.mark.anyio


def note_of(house: House, id: str) -> Path:
    folder = place(house) / "datasets" / id
    folder.mkdir(parents=True, exist_ok=True)
    return folder / ".dataset"


async def test_a_folder_is_made_tagged_measured_and_removed(house: House) -> None:
    folders, files = house.services.folders, house.services.files
    made = await folders.create(house.admin, "default", "images", ["cats", "dogs", "cats"])
    assert (made.id, made.created_by, made.tags, made.size) == ("images", "admin", ("cats", "dogs"), 0)
    assert made.created_at == made.updated_at == house.clock.at
    await files.upload(house.admin, "default", "datasets/images/a/1.png", sent(b"12345"))
    await files.upload(house.admin, "default", "datasets/images/2.png", sent(b"123"))
    house.clock.forward(60)
    changed = await folders.update(house.admin, "default", "images", ["birds"])
    assert (changed.tags, changed.size, changed.created_at) == (("birds",), 8, made.created_at)
    assert changed.updated_at == house.clock.at
    assert await folders.get(house.admin, "default", "images") == changed
    assert await folders.delete(house.admin, "default", "images") == 3
    with pytest.raises(NotFound):
        await folders.get(house.admin, "default", "images")
    assert around(house) == []


async def test_folders_are_listed_by_name_in_pages(house: House) -> None:
    folders = house.services.folders
    for number in range(12):
        await folders.create(house.admin, "default", f"set-{number:02}")
    (place(house) / "datasets/untold").mkdir()
    (place(house) / "datasets/file").write_text("x")
    first = await folders.list(house.admin, "default")
    assert [folder.id for folder in first.items] == [f"set-{number:02}" for number in range(10)]
    assert (first.total, first.items[0].size) == (12, None)
    second = await folders.list(house.admin, "default", page=2)
    assert [folder.id for folder in second.items] == ["set-10", "set-11"]
    assert (await folders.list(house.admin, "default", page=3)).items == ()
    found = await folders.list(house.admin, "default", search="T-1")
    assert ([folder.id for folder in found.items], found.total) == (["set-10", "set-11"], 2)


async def test_no_two_are_made_of_one_name(house: House) -> None:
    folders = house.services.folders
    tries = [folders.create(house.admin, "default", "one", [str(number)]) for number in range(5)]
    results = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(isinstance(result, Conflict) for result in results) == 4


async def test_changes_of_one_group_wait_for_no_other_group(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    ann, folders = await house.user("ann", "vision"), house.services.folders
    receive, begun, goes_on = house.services.files.receive_upload, asyncio.Event(), asyncio.Event()

    async def slowly(*args: Any) -> Any:
        begun.set()
        await goes_on.wait()
        return await receive(*args)

    monkeypatch.setattr(house.services.files, "receive_upload", slowly)
    making = asyncio.create_task(folders.create(house.admin, "default", "slow"))
    await begun.wait()
    monkeypatch.setattr(house.services.files, "receive_upload", receive)
    async with asyncio.timeout(60):
        await folders.create(ann, "vision", "one")
    goes_on.set()
    await making


async def test_a_folder_that_is_there_can_be_given_tags(house: House) -> None:
    await house.services.files.upload(house.admin, "default", "datasets/old/a", sent(b"x"))
    made = await house.services.folders.create(house.admin, "default", "old", ["kept"])
    assert made.tags == ("kept",)
    assert (await house.services.folders.get(house.admin, "default", "old")).size == 1


@pytest.mark.parametrize("id", ["", ".", "..", "a/b", "a b", "x" * 64, "a\0", "é"])
async def test_names_that_cannot_be(house: House, id: str) -> None:
    with pytest.raises(UserError):
        await house.services.folders.create(house.admin, "default", id)
    with pytest.raises(NotFound):
        await house.services.folders.get(house.admin, "default", id)


async def test_tags_have_bounds(house: House) -> None:
    for tags in (["x" * 256], ["a\nb"], [str(number) for number in range(101)]):
        with pytest.raises(UserError) as refusal:
            await house.services.folders.create(house.admin, "default", "a", tags)
        assert refusal.value.field == "tags"
    assert (await house.services.folders.list(house.admin, "default")).total == 0


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"not json",
        b"[1]",
        b"[" * 60_000,
        b'{"tags": {"a": 1}, "createdBy": 7, "createdAt": "yesterday", "updatedAt": "9999-12-31T23:59:59-12:00"}',
        b'{"tags": [1, null, "", "ok\\u0000"], "createdBy": "a\\u001b[31m"}',
        b'{"createdBy": "' + b"x" * 100_000 + b'"}',
        b"\xff\xfe",
    ],
)
async def test_a_note_that_makes_no_sense_is_a_folder_without_tags(house: House, text: bytes) -> None:
    note_of(house, "odd").write_bytes(text)
    folder = await house.services.folders.get(house.admin, "default", "odd")
    assert (folder.tags, folder.created_by) == ((), "")
    assert folder.created_at is not None
    assert folder.updated_at is not None
    [listed] = (await house.services.folders.list(house.admin, "default")).items
    assert listed.id == "odd"


async def test_a_note_is_read_only_as_far_as_it_makes_sense(house: House) -> None:
    tags = [f"tag-{number}" for number in range(500)]
    said = {"tags": [*tags, "x" * 5000], "createdBy": "ann", "createdAt": "2026-01-02T03:04:05+01:00"}
    note_of(house, "odd").write_text(json.dumps(said))
    folder = await house.services.folders.get(house.admin, "default", "odd")
    assert folder.tags == tuple(tags[:100])
    assert folder.created_at == datetime(2026, 1, 2, 2, 4, 5, tzinfo=UTC)


async def test_a_note_that_is_no_file_is_none(house: House, tmp_path: Path) -> None:
    (tmp_path / "note").write_text('{"tags": ["theirs"]}')
    note_of(house, "link").symlink_to(tmp_path / "note")
    os.mkfifo(note_of(house, "fifo"))
    note_of(house, "folder").mkdir()
    (place(house) / "datasets/elsewhere").symlink_to(tmp_path)
    assert (await house.services.folders.list(house.admin, "default")).total == 0
    for id in ("link", "fifo", "folder", "elsewhere"):
        with pytest.raises(NotFound):
            await house.services.folders.get(house.admin, "default", id)


async def test_only_members_see_them(house: House) -> None:
    ann = await house.user("ann", "vision")
    for attempt in (
        house.services.folders.list(ann, "default"),
        house.services.folders.get(ann, "default", "a"),
        house.services.folders.create(ann, "default", "a"),
        house.services.folders.update(ann, "default", "a", ()),
        house.services.folders.delete(ann, "default", "a"),
    ):
        with pytest.raises(Forbidden):
            await attempt
    assert (await house.services.folders.create(ann, "vision", "a")).created_by == "ann"

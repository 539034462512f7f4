"""Tagged folders in a group's shared files: what PrimeHub calls datasets, version 2.

Each is a folder below `datasets` with a file of ours that says who made it, when, and its tags. The group's jobs can
write there too, so what that file says is taken with care.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from weakref import WeakValueDictionary

from holdfast.core.access import Actor
from holdfast.core.errors import Conflict, NotFound, UserError
from holdfast.core.messages import msg

from ..disk_work import DiskWork
from ..names import check_text
from .paths import DATASETS, TAGS_FILE
from .service import Files
from .tree import Tree
from .walk import LookedEnough, Walk, closing_fd, modified

MAX_TAGS = 100
MAX_TAG_LENGTH = 255
MAX_NOTE_LENGTH = 64 * 1024  # bytes of the file with the tags
MAX_FOLDERS = 10_000
_ID = re.compile(r"[A-Za-z0-9_.-]{1,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedFolder:
    id: str
    group: str
    created_by: str
    created_at: datetime | None
    updated_at: datetime | None
    tags: tuple[str, ...]
    size: int | None = None  # bytes; None: not asked for, or too many files to count


@dataclass(frozen=True, slots=True)
class FolderPage:
    items: tuple[TaggedFolder, ...]
    total: int


class TaggedFolders:
    def __init__(self, files: Files, work: DiskWork, *, clock: Callable[[], datetime]) -> None:
        self._files = files
        self._work = work
        self._clock = clock
        self._changing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by group

    async def list(
        self, actor: Actor, group: str, *, search: str | None = None, page: int = 1, page_size: int = 10
    ) -> FolderPage:
        """By name; sizes are left out. `search` is a part of the name."""
        tree = await self._files.tree(actor, group)
        first = (max(page, 1) - 1) * page_size

        def work(stop: threading.Event) -> FolderPage:
            ids = [id for id in _ids(tree, stop) if not search or search.lower() in id.lower()]
            found = (_read(tree, group, id) for id in ids[first : first + page_size])
            return FolderPage(tuple(folder for folder in found if folder is not None), len(ids))

        return await self._work.long(work, group)

    async def get(self, actor: Actor, group: str, id: str) -> TaggedFolder:
        """With its size."""
        tree = await self._files.tree(actor, group)

        def work(stop: threading.Event) -> TaggedFolder:
            folder = _need(tree, group, id)
            return replace(folder, size=_size(tree, id, stop))

        return await self._work.long(work, group)

    async def create(self, actor: Actor, group: str, id: str, tags: Sequence[str] = ()) -> TaggedFolder:
        tree = await self._files.tree(actor, group)
        _check_id(id)
        now = self._clock()
        folder = TaggedFolder(
            id=id, group=group, created_by=actor.name, created_at=now, updated_at=now, tags=_checked(tags), size=0
        )
        async with self._turn(group):
            if await self._work.short(lambda: _read(tree, group, id)) is not None:
                raise Conflict(
                    msg("There is a dataset {id} already", id=id), field="id", hint=msg("Choose another name.")
                )
            await self._note(tree, folder)
        return folder

    async def change(self, actor: Actor, group: str, id: str, tags: Sequence[str]) -> TaggedFolder:
        """All tags that it is to have from now on."""
        tree = await self._files.tree(actor, group)
        wanted = _checked(tags)
        async with self._turn(group):
            before = await self._work.short(lambda: _need(tree, group, id))
            await self._note(tree, replace(before, tags=wanted, updated_at=self._clock()))
        return await self.get(actor, group, id)

    async def delete(self, actor: Actor, group: str, id: str) -> int:
        """With every file in it; how many there were."""
        tree = await self._files.tree(actor, group)
        async with self._turn(group):
            await self._work.short(lambda: _need(tree, group, id))
            return await self._files.delete_objects(actor, group, f"{DATASETS}/{id}/", recursive=True)

    def _turn(self, group: str) -> asyncio.Lock:
        """Changes of one group's wait for each other, and for no others'."""
        turn = self._changing.get(group)
        if turn is None:
            turn = self._changing[group] = asyncio.Lock()
        return turn

    async def _note(self, tree: Tree, folder: TaggedFolder) -> None:
        text = json.dumps(_to_json(folder)).encode()
        parts = (DATASETS, folder.id, TAGS_FILE)
        await self._files.receive(tree, parts, _once(text))


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


def _check_id(id: str) -> None:
    if not _ID.fullmatch(id) or id in (".", ".."):
        raise UserError(
            msg("{id} cannot be the name of a dataset", id=repr(id[:80])),
            field="id",
            hint=msg("Use up to 63 letters, digits, dots, dashes and underscores."),
        )


def _checked(tags: Sequence[str]) -> tuple[str, ...]:
    if len(tags) > MAX_TAGS:
        raise UserError(msg("A dataset has at most {most_tags} tags", most_tags=MAX_TAGS), field="tags")
    for tag in tags:
        check_text(tag, "tags", longest=MAX_TAG_LENGTH)
    return tuple(dict.fromkeys(tag for tag in tags if tag))


# -- on disk


def _ids(tree: Tree, stop: threading.Event) -> list[str]:
    """Folders that have the file with the tags, in order."""
    try:
        fd = tree.folder((DATASETS,))
    except OSError:
        return []
    found: list[str] = []
    with closing_fd(fd), suppress(LookedEnough):
        for item in Walk(stop, recursive=False).items(fd, f"{DATASETS}/"):
            id = item.name.removeprefix(f"{DATASETS}/").removesuffix("/")
            if item.name.endswith("/") and _ID.fullmatch(id) and tree.is_file((DATASETS, id, TAGS_FILE)):
                found.append(id)
            if len(found) == MAX_FOLDERS:
                break
    return found


def _need(tree: Tree, group: str, id: str) -> TaggedFolder:
    folder = _read(tree, group, id)
    if folder is None:
        raise NotFound(msg("There is no dataset {id}", id=id[:100]), field="id")
    return folder


def _read(tree: Tree, group: str, id: str) -> TaggedFolder | None:
    """None when there is none. A file that makes no sense is a folder without tags."""
    if not _ID.fullmatch(id) or id in (".", ".."):
        return None
    try:
        fd, status = tree.file((DATASETS, id, TAGS_FILE))
    except NotFound:
        return None
    with closing_fd(fd):
        data = _parse(os.read(fd, MAX_NOTE_LENGTH + 1))
    return TaggedFolder(
        id=id,
        group=group,
        created_by=_text(data.get("createdBy")),
        created_at=_instant(data.get("createdAt")) or modified(status),
        updated_at=_instant(data.get("updatedAt")) or modified(status),
        tags=_tags(data.get("tags")),
    )


def _size(tree: Tree, id: str, stop: threading.Event) -> int | None:
    walk = Walk(stop, recursive=True)
    path = f"{DATASETS}/{id}/"
    try:
        with closing_fd(tree.folder((DATASETS, id))) as fd:
            return sum(item.size for item in walk.items(fd, path))
    except (LookedEnough, OSError):
        return None


def _to_json(folder: TaggedFolder) -> dict[str, Any]:
    return {
        "createdBy": folder.created_by,
        "createdAt": folder.created_at and folder.created_at.isoformat(),
        "updatedAt": folder.updated_at and folder.updated_at.isoformat(),
        "tags": list(folder.tags),
    }


def _parse(raw: bytes) -> dict[str, Any]:
    if len(raw) > MAX_NOTE_LENGTH:
        return {}
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _text(value: Any) -> str:
    return value[:MAX_TAG_LENGTH] if isinstance(value, str) and value.isprintable() else ""


def _tags(value: Any) -> tuple[str, ...]:
    texts = [_text(tag) for tag in value[:MAX_TAGS]] if isinstance(value, list) else []
    return tuple(dict.fromkeys(tag for tag in texts if tag))


def _instant(value: Any) -> datetime | None:
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
        return at.astimezone(UTC) if at is not None and at.tzinfo else None
    except (ValueError, OverflowError):
        return None

"""Tagged folders in a group's shared files, which PrimeHub calls datasets v2.

Each is a folder in `datasets` with a metadata file: creator, times and tags. The group's jobs can write to it, so it
is not trusted.
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

from ..disk_work import DiskExecutor
from ..names import check_text
from .file_tree import FileTree
from .folder_scan import FolderScan, ScanLimitReached, closing_fd, get_modified_time
from .paths import DATASETS_FOLDER, TAGS_FILE
from .service import Files

MAX_TAGS = 100
MAX_TAG_LENGTH = 255
MAX_TAGS_FILE_SIZE = 64 * 1024  # bytes of the file with the tags
MAX_FOLDERS = 10_000
_ID_PATTERN = re.compile(r"[A-Za-z0-9_.-]{1,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedFolder:
    id: str
    group: str
    created_by: str
    created_at: datetime | None
    updated_at: datetime | None
    tags: tuple[str, ...]
    size: int | None = None  # bytes; None: not requested, or too many files to count


@dataclass(frozen=True, slots=True)
class FolderPage:
    items: tuple[TaggedFolder, ...]
    total: int


class TaggedFolders:
    def __init__(self, files: Files, work: DiskExecutor, *, clock: Callable[[], datetime]) -> None:
        self._files = files
        self._work = work
        self._clock = clock
        self._group_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by group

    async def list(
        self, actor: Actor, group: str, *, search: str | None = None, page: int = 1, page_size: int = 10
    ) -> FolderPage:
        """List by name, without sizes. `search`: a substring of the name."""
        tree = await self._files.get_tree(actor, group)
        first = (max(page, 1) - 1) * page_size

        def load_page(stop: threading.Event) -> FolderPage:
            ids = [id for id in _list_ids(tree, stop) if not search or search.lower() in id.lower()]
            found = (_load_folder(tree, group, id) for id in ids[first : first + page_size])
            return FolderPage(tuple(folder for folder in found if folder is not None), len(ids))

        return await self._work.run_long(load_page, group)

    async def get(self, actor: Actor, group: str, id: str) -> TaggedFolder:
        tree = await self._files.get_tree(actor, group)

        def load_with_size(stop: threading.Event) -> TaggedFolder:
            folder = _require_folder(tree, group, id)
            return replace(folder, size=_measure_size(tree, id, stop))

        return await self._work.run_long(load_with_size, group)

    async def create(self, actor: Actor, group: str, id: str, tags: Sequence[str] = ()) -> TaggedFolder:
        tree = await self._files.get_tree(actor, group)
        _validate_id(id)
        now = self._clock()
        folder = TaggedFolder(
            id=id, group=group, created_by=actor.name, created_at=now, updated_at=now, tags=_validate_tags(tags), size=0
        )
        async with self._get_group_lock(group):
            if await self._work.run_short(lambda: _load_folder(tree, group, id)) is not None:
                raise Conflict(msg("Dataset {id} already exists", id=id), field="id", hint=msg("Choose another name."))
            await self._write_tags_file(tree, folder)
        return folder

    async def update(self, actor: Actor, group: str, id: str, tags: Sequence[str]) -> TaggedFolder:
        """Replace all tags."""
        tree = await self._files.get_tree(actor, group)
        wanted = _validate_tags(tags)
        async with self._get_group_lock(group):
            before = await self._work.run_short(lambda: _require_folder(tree, group, id))
            await self._write_tags_file(tree, replace(before, tags=wanted, updated_at=self._clock()))
        return await self.get(actor, group, id)

    async def delete(self, actor: Actor, group: str, id: str) -> int:
        """Delete a folder with its files. Return their number."""
        tree = await self._files.get_tree(actor, group)
        async with self._get_group_lock(group):
            await self._work.run_short(lambda: _require_folder(tree, group, id))
            return await self._files.delete_objects(actor, group, f"{DATASETS_FOLDER}/{id}/", recursive=True)

    def _get_group_lock(self, group: str) -> asyncio.Lock:
        """Return the lock that serializes changes of one group."""
        turn = self._group_locks.get(group)
        if turn is None:
            turn = self._group_locks[group] = asyncio.Lock()
        return turn

    async def _write_tags_file(self, tree: FileTree, folder: TaggedFolder) -> None:
        text = json.dumps(_to_json(folder)).encode()
        parts = (DATASETS_FOLDER, folder.id, TAGS_FILE)
        await self._files.receive_upload(tree, parts, _iter_single_chunk(text))


async def _iter_single_chunk(data: bytes) -> AsyncIterator[bytes]:
    yield data


def _validate_id(id: str) -> None:
    if not _ID_PATTERN.fullmatch(id) or id in (".", ".."):
        raise UserError(
            msg("{id} is not a valid dataset name", id=repr(id[:80])),
            field="id",
            hint=msg("Use up to 63 letters, digits, dots, dashes and underscores."),
        )


def _validate_tags(tags: Sequence[str]) -> tuple[str, ...]:
    if len(tags) > MAX_TAGS:
        raise UserError(msg("A dataset can have at most {max_tags} tags", max_tags=MAX_TAGS), field="tags")
    for tag in tags:
        check_text(tag, "tags", longest=MAX_TAG_LENGTH)
    return tuple(dict.fromkeys(tag for tag in tags if tag))


# -- on disk


def _list_ids(tree: FileTree, stop: threading.Event) -> list[str]:
    """Return the folders that have a metadata file, sorted."""
    try:
        fd = tree.open_folder((DATASETS_FOLDER,))
    except OSError:
        return []
    found: list[str] = []
    with closing_fd(fd), suppress(ScanLimitReached):
        for item in FolderScan(stop, recursive=False).iter_entries(fd, f"{DATASETS_FOLDER}/"):
            id = item.name.removeprefix(f"{DATASETS_FOLDER}/").removesuffix("/")
            if item.name.endswith("/") and _ID_PATTERN.fullmatch(id) and tree.is_file((DATASETS_FOLDER, id, TAGS_FILE)):
                found.append(id)
            if len(found) == MAX_FOLDERS:
                break
    return found


def _require_folder(tree: FileTree, group: str, id: str) -> TaggedFolder:
    folder = _load_folder(tree, group, id)
    if folder is None:
        raise NotFound(msg("Dataset {id} not found", id=id[:100]), field="id")
    return folder


def _load_folder(tree: FileTree, group: str, id: str) -> TaggedFolder | None:
    """Load a folder; None if there is none. With a damaged metadata file, it has no tags."""
    if not _ID_PATTERN.fullmatch(id) or id in (".", ".."):
        return None
    try:
        fd, status = tree.open_file((DATASETS_FOLDER, id, TAGS_FILE))
    except NotFound:
        return None
    with closing_fd(fd):
        data = _parse_tags_file(os.read(fd, MAX_TAGS_FILE_SIZE + 1))
    return TaggedFolder(
        id=id,
        group=group,
        created_by=_clean_text(data.get("createdBy")),
        created_at=_parse_timestamp(data.get("createdAt")) or get_modified_time(status),
        updated_at=_parse_timestamp(data.get("updatedAt")) or get_modified_time(status),
        tags=_clean_tags(data.get("tags")),
    )


def _measure_size(tree: FileTree, id: str, stop: threading.Event) -> int | None:
    walk = FolderScan(stop, recursive=True)
    path = f"{DATASETS_FOLDER}/{id}/"
    try:
        with closing_fd(tree.open_folder((DATASETS_FOLDER, id))) as fd:
            return sum(item.size for item in walk.iter_entries(fd, path))
    except (ScanLimitReached, OSError):
        return None


def _to_json(folder: TaggedFolder) -> dict[str, Any]:
    return {
        "createdBy": folder.created_by,
        "createdAt": folder.created_at and folder.created_at.isoformat(),
        "updatedAt": folder.updated_at and folder.updated_at.isoformat(),
        "tags": list(folder.tags),
    }


def _parse_tags_file(raw: bytes) -> dict[str, Any]:
    if len(raw) > MAX_TAGS_FILE_SIZE:
        return {}
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _clean_text(value: Any) -> str:
    return value[:MAX_TAG_LENGTH] if isinstance(value, str) and value.isprintable() else ""


def _clean_tags(value: Any) -> tuple[str, ...]:
    texts = [_clean_text(tag) for tag in value[:MAX_TAGS]] if isinstance(value, list) else []
    return tuple(dict.fromkeys(tag for tag in texts if tag))


def _parse_timestamp(value: Any) -> datetime | None:
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
        return at.astimezone(UTC) if at is not None and at.tzinfo else None
    except (ValueError, OverflowError):
        return None

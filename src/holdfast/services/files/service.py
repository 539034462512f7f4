"""Shared files of a group: operations for its members. Its jobs mount them as a folder."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from holdfast.core.access import Actor, Permission, has_permission
from holdfast.core.errors import Conflict, NotFound, TooLarge
from holdfast.core.identity import format_group_path
from holdfast.core.messages import msg
from holdfast.disk_space import DiskThresholds
from holdfast.shared_folders import SharedFolders
from holdfast.store import people
from holdfast.store.database import Store

from ..disk_work import DiskExecutor
from ..errors import NotInGroup, Unavailable
from ..name_suggestions import build_group_not_found_error
from .file_tree import FileTree, build_write_error, delete_partial_uploads, empty_trash, format_path
from .folder_scan import FileEntry, FileListing, FolderScan, build_listing, closing_fd, get_modified_time
from .incoming_file import FileUpload
from .open_file import OpenFile, open_file
from .paths import TAGS_FILE, check_writable_path, is_valid_path, parse_folder_path, parse_path
from .uploads import build_upload_limiter, enforce_chunk_timeout

T = TypeVar("T")

MAX_LISTED_ENTRIES = 10_000  # in one listing
BUFFER_SIZE = 256 * 1024  # bytes written at a time
EMPTY_LISTING = FileListing((), True, 0)


class Files:
    def __init__(
        self, store: Store, shared: SharedFolders, work: DiskExecutor, *, max_bytes: int, marks: DiskThresholds
    ) -> None:
        self._store = store
        self._shared = shared
        self._work = work
        self._max_bytes = max_bytes
        self._disk_thresholds = marks
        self._upload_limiter = build_upload_limiter()

    # -- reading

    async def list(
        self, actor: Actor, group: str, folder: str = "", *, recursive: bool = False, limit: int = 1000, after: str = ""
    ) -> FileListing:
        """Names are relative to the folder. Recursive: only files, at any depth. `after`: continue after this name."""
        tree = await self.get_tree(actor, group)
        parts = parse_folder_path(folder)
        path = "".join(f"{part}/" for part in parts)

        def read_folder(stop: threading.Event) -> FileListing:
            try:
                fd = tree.open_folder(parts)
            except OSError:
                if not parts:
                    return EMPTY_LISTING  # created by the first upload
                raise NotFound(msg("Folder {path} not found", path=format_path(parts)), field="path") from None
            walk = FolderScan(stop, recursive=recursive, after=path + after if after else "")
            with closing_fd(fd):
                return _make_names_relative(build_listing(walk, walk.iter_entries(fd, path), _clamp_limit(limit)), path)

        return await self._run_listing(group, read_folder)

    async def list_objects(
        self, actor: Actor, group: str, prefix: str, *, recursive: bool = False, limit: int = 1000
    ) -> FileListing:
        """List like an object store: all files whose path starts with the text `prefix`, with the prefix removed. Not
        recursive: the contents of the folder `prefix`. Empty if there is none."""
        tree = await self.get_tree(actor, group)
        prefix = prefix.lstrip("/")
        if not recursive and prefix and not prefix.endswith("/"):
            prefix += "/"
        place = _split_prefix(prefix)
        if place is None:
            return EMPTY_LISTING
        folder, starts = place

        def read_objects(stop: threading.Event) -> FileListing:
            walk = FolderScan(stop, recursive=recursive, show_own=frozenset({TAGS_FILE}))
            path = prefix.removesuffix(starts) if starts else prefix
            try:
                fd = tree.open_folder(folder)
            except OSError:
                return EMPTY_LISTING
            with closing_fd(fd):
                return _make_names_relative(
                    build_listing(walk, walk.iter_entries(fd, path, starts), _clamp_limit(limit)), prefix
                )

        return await self._run_listing(group, read_objects)

    async def _run_listing(self, group: str, work: Callable[[threading.Event], FileListing]) -> FileListing:
        try:
            return await self._work.run_long(work, group)
        except OSError as error:
            raise Unavailable(msg("The shared files cannot be read: {error}", error=error.strerror)) from error

    async def open(self, actor: Actor, group: str, path: str) -> OpenFile:
        """Open a regular file. NotFound if there is none."""
        tree = await self.get_tree(actor, group)
        return await open_file(tree, parse_path(path), self._work)

    # -- changing

    async def check_upload(self, actor: Actor, group: str, path: str) -> tuple[FileTree, tuple[str, ...]]:
        """Run all checks that need no data. Return the tree and the path."""
        tree = await self.get_tree(actor, group)
        parts = parse_path(path)
        check_writable_path(parts)
        await self._run_write(parts, lambda: tree.check_path(parts))
        return tree, parts

    async def upload(self, actor: Actor, group: str, path: str, chunks: AsyncIterator[bytes]) -> FileEntry:
        """Upload a file atomically: it replaces an earlier file only when all of it is on disk. Creates folders."""
        async with self._upload_limiter.use_slot(actor.name):
            tree, parts = await self.check_upload(actor, group, path)
            return await self.receive_upload(tree, parts, enforce_chunk_timeout(chunks))

    async def receive_upload(self, tree: FileTree, parts: tuple[str, ...], chunks: AsyncIterator[bytes]) -> FileEntry:
        """Upload to a path that was already checked."""
        incoming = FileUpload(tree, parts, self._disk_thresholds)
        try:
            await self._run_write(parts, incoming.create_upload)
            size = await self._write_chunks(incoming, parts, chunks)
            status = await self._run_write(parts, incoming.commit)
        finally:
            with suppress(Unavailable):  # any earlier error is already raised
                await asyncio.shield(self._work.run_short(incoming.discard))
        return FileEntry("/".join(parts), size, get_modified_time(status))

    async def _write_chunks(self, incoming: FileUpload, parts: tuple[str, ...], chunks: AsyncIterator[bytes]) -> int:
        size, waiting = 0, bytearray()
        async for chunk in chunks:
            size += len(chunk)
            if size > self._max_bytes:
                raise TooLarge(
                    msg(
                        "The file is too large: a shared file can have at most {max_bytes} bytes",
                        max_bytes=self._max_bytes,
                    ),
                    hint=msg("Ask an admin to raise files.max_upload_bytes, or write the file from a job."),
                )
            waiting += chunk
            if len(waiting) >= BUFFER_SIZE:
                await self._run_write(parts, partial(incoming.write, bytes(waiting)))
                waiting.clear()
        await self._run_write(parts, partial(incoming.write, bytes(waiting)))
        return size

    async def _run_write(self, parts: tuple[str, ...], work: Callable[[], T]) -> T:
        try:
            return await self._work.run_short(work)
        except OSError as error:
            if error.errno == errno.EXDEV:
                raise Unavailable(
                    msg("Cannot save the upload: the group's files and its upload folder are on different filesystems")
                ) from error
            raise build_write_error(parts, error) from error

    async def delete(self, actor: Actor, group: str, path: str, *, recursive: bool = False) -> int:
        """Delete a file, or a folder if `recursive`; "" is the root folder. Return the number of files deleted."""
        tree = await self.get_tree(actor, group)
        parts = parse_folder_path(path)
        check_writable_path(parts)
        if not parts and not recursive:
            raise _build_recursive_required_error("This")

        def delete_path(stop: threading.Event) -> int:
            if not parts:
                return tree.remove_matching_files((), "", stop)
            if tree.remove_file(parts):
                return 1
            if not tree.is_folder(parts):
                raise NotFound(msg("File or folder {path} not found", path=format_path(parts)), field="path")
            if not recursive:
                raise _build_recursive_required_error(format_path(parts))
            return tree.remove_folder(parts, stop)

        return await _run_removal(self._work.run_long(delete_path, group))

    async def delete_objects(self, actor: Actor, group: str, prefix: str, *, recursive: bool = False) -> int:
        """Delete like an object store: the file with exactly this path, or if `recursive` all that start with it."""
        tree = await self.get_tree(actor, group)
        prefix = prefix.lstrip("/")
        place = _split_prefix(prefix)
        if place is None:
            return 0
        folder, starts = place
        if starts:
            check_writable_path((*folder, starts))

        def delete_and_prune(stop: threading.Event) -> int:
            count = _delete_objects(tree, folder, starts, recursive, stop)
            tree.remove_empty_parents(folder)
            return count

        return await _run_removal(self._work.run_long(delete_and_prune, group))

    # -- permissions

    async def get_tree(self, actor: Actor, group: str) -> FileTree:
        """Return the file tree of a group. Only for members and admins."""
        if not has_permission(actor, Permission.USE_FILES, group):
            raise NotInGroup(
                msg("Only members of {group} can use its shared files", group=group[:100]), group=group, field="group"
            )
        if await self._store.read(people.get_group, group) is None:
            raise build_group_not_found_error(
                group, [known.name for known in await self._store.read(people.list_groups)], "group"
            )
        return FileTree(self._shared, group)

    async def find_group_by_path(self, actor: Actor, path: str) -> str:
        """Find the actor's group by the spelling of PrimeHub's clients. An exact name has priority."""
        names = [group.name for group in await self._store.read(people.list_groups)] if actor.admin else actor.groups
        if path in names:
            return path
        found = [name for name in names if format_group_path(name) == path]
        if len(found) > 1:
            shown = " and ".join(sorted(found)[:2])
            raise Conflict(
                msg("{path} is ambiguous: it matches {shown}", path=path, shown=shown),
                field="group",
                hint=msg("Use the exact name of the group."),
            )
        if not found:
            raise NotInGroup(msg("You are not a member of group {path}", path=path[:100]), group=path, field="group")
        return found[0]

    # -- cleanup after a crash

    def delete_partial_uploads(self) -> None:
        """Delete partial uploads. Call before the first request."""
        delete_partial_uploads(self._shared)

    async def empty_trash(self) -> None:
        await self._work.run_long(lambda stop: empty_trash(self._shared, stop))


def _split_prefix(prefix: str) -> tuple[tuple[str, ...], str] | None:
    """Split a prefix into a folder and a name prefix. None if no file can have this path."""
    folder, _, starts = prefix.rpartition("/")
    if (folder and not is_valid_path(folder)) or (starts and not is_valid_path(starts)):
        return None
    return (tuple(folder.split("/")) if folder else ()), starts


def _clamp_limit(limit: int) -> int:
    return max(1, min(limit or 1000, MAX_LISTED_ENTRIES))


def _make_names_relative(listing: FileListing, path: str) -> FileListing:
    cut = len(path)
    return replace(listing, items=tuple(replace(item, name=item.name[cut:]) for item in listing.items))


def _build_recursive_required_error(what: str) -> Conflict:
    return Conflict(
        msg("{what} is a folder", what=what),
        field="path",
        hint=msg("Use -r (CLI) or `recursive` (API) to delete the folder with its contents."),
    )


def _delete_objects(
    tree: FileTree, folder: tuple[str, ...], starts: str, recursive: bool, stop: threading.Event
) -> int:
    if not recursive:
        return int(bool(starts) and tree.remove_file((*folder, starts)))
    if starts or not folder:
        return tree.remove_matching_files(folder, starts, stop)
    return tree.remove_folder(folder, stop) if tree.is_folder(folder) else 0


async def _run_removal(work: Awaitable[int]) -> int:
    try:
        return await work
    except OSError as error:
        raise Unavailable(msg("Some files could not be deleted: {error}", error=error.strerror)) from error

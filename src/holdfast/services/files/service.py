"""Files that a group shares: its members' by these verbs, and its jobs' as a folder."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from holdfast.core.access import Actor, Verb, may
from holdfast.core.errors import Conflict, NotFound, TooLarge
from holdfast.core.identity import group_path
from holdfast.core.messages import msg
from holdfast.disk_space import DiskMarks
from holdfast.shared_folders import SharedFolders
from holdfast.store import people
from holdfast.store.database import Store

from ..disk_work import DiskWork
from ..name_suggestions import no_group
from ..refusals import NotInGroup, Unavailable
from .incoming_file import Incoming
from .open_file import OpenFile, open_file
from .paths import TAGS_FILE, can_be, need_changeable, parse_folder, parse_path
from .tree import Tree, clear_removed, clear_uploads, not_kept, show_path
from .uploads import limit_uploads, not_silent
from .walk import Item, Listing, Walk, closing_fd, collect, modified

T = TypeVar("T")

MAX_ITEMS = 10_000  # in one listing
BUFFER = 256 * 1024  # bytes written at one time
NOTHING = Listing((), True, 0)


class Files:
    def __init__(
        self, store: Store, shared: SharedFolders, work: DiskWork, *, max_bytes: int, marks: DiskMarks
    ) -> None:
        self._store = store
        self._shared = shared
        self._work = work
        self._max_bytes = max_bytes
        self._marks = marks
        self._uploads = limit_uploads()

    # -- reading

    async def list(
        self, actor: Actor, group: str, folder: str = "", *, recursive: bool = False, limit: int = 1000, after: str = ""
    ) -> Listing:
        """What lies in a folder, by names within it; recursive: files only, wherever they lie below. `after` goes on
        behind that name."""
        tree = await self.tree(actor, group)
        parts = parse_folder(folder)
        path = "".join(f"{part}/" for part in parts)

        def work(stop: threading.Event) -> Listing:
            try:
                fd = tree.folder(parts)
            except OSError:
                if not parts:
                    return NOTHING  # nobody has put anything there yet
                raise NotFound(msg("There is no folder {parts}", parts=show_path(parts)), field="path") from None
            walk = Walk(stop, recursive=recursive, after=path + after if after else "")
            with closing_fd(fd):
                return _within(collect(walk, walk.items(fd, path), _most(limit)), path)

        return await self._read(group, work)

    async def objects(
        self, actor: Actor, group: str, prefix: str, *, recursive: bool = False, limit: int = 1000
    ) -> Listing:
        """As object stores list: the names of all files that begin with `prefix`, a text and not a folder, less that
        prefix. Not recursive: what lies in the folder of that name. Nothing there is an empty answer."""
        tree = await self.tree(actor, group)
        prefix = prefix.lstrip("/")
        if not recursive and prefix and not prefix.endswith("/"):
            prefix += "/"
        place = _place(prefix)
        if place is None:
            return NOTHING
        folder, starts = place

        def work(stop: threading.Event) -> Listing:
            walk = Walk(stop, recursive=recursive, show_own=frozenset({TAGS_FILE}))
            path = prefix.removesuffix(starts) if starts else prefix
            try:
                fd = tree.folder(folder)
            except OSError:
                return NOTHING
            with closing_fd(fd):
                return _within(collect(walk, walk.items(fd, path, starts), _most(limit)), prefix)

        return await self._read(group, work)

    async def _read(self, group: str, work: Callable[[threading.Event], Listing]) -> Listing:
        try:
            return await self._work.long(work, group)
        except OSError as error:
            raise Unavailable(msg("The shared files cannot be read: {strerror}", strerror=error.strerror)) from error

    async def open(self, actor: Actor, group: str, path: str) -> OpenFile:
        """NotFound when there is no plain file of that path."""
        tree = await self.tree(actor, group)
        return await open_file(tree, parse_path(path), self._work)

    # -- changing

    async def check_put(self, actor: Actor, group: str, path: str) -> tuple[Tree, tuple[str, ...]]:
        """Everything that can be refused before the first byte is read."""
        tree = await self.tree(actor, group)
        parts = parse_path(path)
        need_changeable(parts)
        await self._kept(parts, lambda: tree.check_place(parts))
        return tree, parts

    async def put(self, actor: Actor, group: str, path: str, chunks: AsyncIterator[bytes]) -> Item:
        """The file is there when all of it is on disk; until then the one before it is. Folders are made."""
        async with self._uploads.slot(actor.name):
            tree, parts = await self.check_put(actor, group, path)
            return await self.receive(tree, parts, not_silent(chunks))

    async def receive(self, tree: Tree, parts: tuple[str, ...], chunks: AsyncIterator[bytes]) -> Item:
        """Of a path that was checked before."""
        incoming = Incoming(tree, parts, self._marks)
        try:
            await self._kept(parts, incoming.begin)
            size = await self._write_all(incoming, parts, chunks)
            status = await self._kept(parts, incoming.settle)
        finally:
            with suppress(Unavailable):  # what went wrong is told already, or nothing did
                await asyncio.shield(self._work.short(incoming.drop))
        return Item("/".join(parts), size, modified(status))

    async def _write_all(self, incoming: Incoming, parts: tuple[str, ...], chunks: AsyncIterator[bytes]) -> int:
        size, waiting = 0, bytearray()
        async for chunk in chunks:
            size += len(chunk)
            if size > self._max_bytes:
                raise TooLarge(
                    msg("A shared file may have at most {max_bytes} bytes", max_bytes=self._max_bytes),
                    hint=msg("An admin may raise files.max_upload_bytes; a job can write larger ones by itself."),
                )
            waiting += chunk
            if len(waiting) >= BUFFER:
                await self._kept(parts, partial(incoming.write, bytes(waiting)))
                waiting.clear()
        await self._kept(parts, partial(incoming.write, bytes(waiting)))
        return size

    async def _kept(self, parts: tuple[str, ...], work: Callable[[], T]) -> T:
        try:
            return await self._work.short(work)
        except OSError as error:
            if error.errno == errno.EXDEV:
                raise Unavailable(msg("The group's files lie on another disk than what comes in for them")) from error
            raise not_kept(parts, error) from error

    async def delete(self, actor: Actor, group: str, path: str, *, recursive: bool = False) -> int:
        """How many files were removed. A folder goes only when that is asked for; "" is all of them."""
        tree = await self.tree(actor, group)
        parts = parse_folder(path)
        need_changeable(parts)
        if not parts and not recursive:
            raise _needs_recursive("This")

        def work(stop: threading.Event) -> int:
            if not parts:
                return tree.remove_all((), "", stop)
            if tree.remove_file(parts):
                return 1
            if not tree.is_folder(parts):
                raise NotFound(msg("There is no file or folder {parts}", parts=show_path(parts)), field="path")
            if not recursive:
                raise _needs_recursive(show_path(parts))
            return tree.remove_folder(parts, stop)

        return await _removed(self._work.long(work, group))

    async def delete_objects(self, actor: Actor, group: str, prefix: str, *, recursive: bool = False) -> int:
        """As object stores delete: the file of exactly this name, or all whose names begin with it. 0 when there is
        none."""
        tree = await self.tree(actor, group)
        prefix = prefix.lstrip("/")
        place = _place(prefix)
        if place is None:
            return 0
        folder, starts = place
        if starts:
            need_changeable((*folder, starts))

        def work(stop: threading.Event) -> int:
            count = _delete_objects(tree, folder, starts, recursive, stop)
            tree.prune(folder)
            return count

        return await _removed(self._work.long(work, group))

    # -- who

    async def tree(self, actor: Actor, group: str) -> Tree:
        """Of a group that the actor is a member of; admins, of any."""
        if not may(actor, Verb.USE_FILES, group):
            raise NotInGroup(
                msg("Only members of {group} use its shared files", group=group[:100]), group=group, field="group"
            )
        if await self._store.read(people.get_group, group) is None:
            raise no_group(group, [known.name for known in await self._store.read(people.list_groups)], "group")
        return Tree(self._shared, group)

    async def group_of_path(self, actor: Actor, path: str) -> str:
        """The group whose name PrimeHub's clients write like this, among those the actor may use. One that is called
        exactly so comes first."""
        names = [group.name for group in await self._store.read(people.list_groups)] if actor.admin else actor.groups
        if path in names:
            return path
        found = [name for name in names if group_path(name) == path]
        if len(found) > 1:
            shown = " and ".join(sorted(found)[:2])
            raise Conflict(
                msg("{path} may mean {shown}", path=path, shown=shown),
                field="group",
                hint=msg("Write the group's exact name."),
            )
        if not found:
            raise NotInGroup(msg("You are in no group {path}", path=path[:100]), group=path, field="group")
        return found[0]

    # -- after a kill

    def clear_uploads(self) -> None:
        """To be called before the first request."""
        clear_uploads(self._shared)

    async def clear_removed(self) -> None:
        await self._work.long(lambda stop: clear_removed(self._shared, stop))


def _place(prefix: str) -> tuple[tuple[str, ...], str] | None:
    """The folder to look in, and what names there begin with. None: nothing can have such a name."""
    folder, _, starts = prefix.rpartition("/")
    if (folder and not can_be(folder)) or (starts and not can_be(starts)):
        return None
    return (tuple(folder.split("/")) if folder else ()), starts


def _most(limit: int) -> int:
    return max(1, min(limit or 1000, MAX_ITEMS))


def _within(listing: Listing, path: str) -> Listing:
    """Names as seen from there."""
    cut = len(path)
    return replace(listing, items=tuple(replace(item, name=item.name[cut:]) for item in listing.items))


def _needs_recursive(what: str) -> Conflict:
    return Conflict(
        msg("{what} is a folder", what=what),
        field="path",
        hint=msg("Say that all of it is meant: -r on the command line, else recursive."),
    )


def _delete_objects(tree: Tree, folder: tuple[str, ...], starts: str, recursive: bool, stop: threading.Event) -> int:
    if not recursive:
        return int(bool(starts) and tree.remove_file((*folder, starts)))
    if starts or not folder:
        return tree.remove_all(folder, starts, stop)
    return tree.remove_folder(folder, stop) if tree.is_folder(folder) else 0


async def _removed(work: Awaitable[int]) -> int:
    try:
        return await work
    except OSError as error:
        raise Unavailable(msg("Not everything could be removed: {strerror}", strerror=error.strerror)) from error

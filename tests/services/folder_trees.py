"""Shared files for tests: a group's folder on a real disk, and bytes to put there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from holdfast.services.files.folder_scan import FileListing

from .house import House


async def sent(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def names(listing: FileListing) -> list[str]:
    return [item.name for item in listing.items]


def place(house: House, group: str = "default") -> Path:
    """Where the group's files lie; as its jobs see them."""
    return house.services.shared.create_folder(house.services.shared.get_files_folder(group))


def around(house: House, group: str = "default") -> list[str]:
    """All that is kept beside them: what comes in, and what goes out."""
    shared = house.services.shared
    return [
        path.name
        for folder in (shared.get_uploads_folder(group), shared.get_removed_folder(group))
        for path in folder.glob("*")
    ]

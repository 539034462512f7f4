"""Saves a package scan in the state folder, so that a restarted server need not search the machine again. Blocking:
call it from a thread."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from typing import Any

from ..processes import read_boot_id
from .private_files import FolderListing, HiddenPath

SCAN_FILE = "package-scan.json"
_FORMAT_VERSION = 2


def save_scan(file: Path, memory: Mapping[str, FolderListing], full_at: float) -> None:
    """Save it. `full_at`: monotonic time of the last full scan. A failed write only makes the next start slower."""
    folders = {
        path: [each.signature, each.count, list(map(astuple, each.private)), each.folders]
        for path, each in memory.items()
    }
    text = json.dumps({"format": _FORMAT_VERSION, "boot": read_boot_id(), "full_at": full_at, "folders": folders})
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    with suppress(OSError):
        try:
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as opened:
                opened.write(text)
            draft.replace(file)
        finally:
            draft.unlink(missing_ok=True)


def load_scan(file: Path, max_age: float) -> dict[str, FolderListing] | None:
    """Return None if it is older than `max_age` seconds, from before the machine's last boot, or damaged."""
    try:
        saved = json.loads(file.read_bytes())
        if saved["format"] != _FORMAT_VERSION or saved["boot"] != read_boot_id():
            return None
        if not 0 <= time.monotonic() - saved["full_at"] <= max_age:
            return None
        return {path: _unpack_listing(*each) for path, each in saved["folders"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _unpack_listing(signature: int, count: int, private: list[Any], folders: list[str]) -> FolderListing:
    hidden = tuple(HiddenPath(path=path, mode=mode, uid=uid, gid=gid) for path, mode, uid, gid in private)
    return FolderListing(int(signature), int(count), hidden, tuple(folders))

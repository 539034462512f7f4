"""Keeps the memory of a package scan in the server's state folder, so that a server that is soon back need not search
the machine again. Blocking: call it from a thread."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from typing import Any

from ..processes import boot_id
from .private_files import Hidden, Listing

FILE = "package-scan.json"
_FORMAT = 2


def save_scan(file: Path, memory: Mapping[str, Listing], full_at: float) -> None:
    """`full_at`: monotonic time of the last full scan. A file that cannot be written costs the next start some time."""
    folders = {path: [each.signature, each.count, _pack(each.private), each.folders] for path, each in memory.items()}
    text = json.dumps({"format": _FORMAT, "boot": boot_id(), "full_at": full_at, "folders": folders})
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    with suppress(OSError):
        try:
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as opened:
                opened.write(text)
            draft.replace(file)
        finally:
            draft.unlink(missing_ok=True)


def load_scan(file: Path, max_age: float) -> dict[str, Listing] | None:
    """None when it is older than `max_age` seconds, of before the machine's last boot, or damaged."""
    try:
        saved = json.loads(file.read_bytes())
        if saved["format"] != _FORMAT or saved["boot"] != boot_id():
            return None
        if not 0 <= time.monotonic() - saved["full_at"] <= max_age:
            return None
        return {path: _listing(*each) for path, each in saved["folders"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _pack(private: tuple[Hidden, ...]) -> list[tuple[Any, ...]]:
    return [astuple(each) for each in private]


def _listing(signature: int, count: int, private: list[Any], folders: list[str]) -> Listing:
    hidden = tuple(Hidden(path=path, mode=mode, uid=uid, gid=gid) for path, mode, uid, gid in private)
    return Listing(int(signature), int(count), hidden, tuple(folders))

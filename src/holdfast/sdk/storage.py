"""Calls about the server's disk: what takes room there, and freeing some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from .exchange import Call, as_a, call, endpoint

SCAN_TIMEOUT = 180.0  # seconds; the server counts every file first


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageDisk:
    """The disk of the server's state folder, in bytes."""

    free: int = 0
    total: int = 0
    full_below: int = 0  # with fewer bytes free, no task starts
    free_files: int = 0
    total_files: int = 0  # 0: the disk does not limit the number of files


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageItem:
    kind: str  # logs, artifacts, held, images, metrics, tasks, files or database
    bytes: int = 0
    count: int | None = None  # jobs, tasks or images
    oldest: datetime | None = None
    prunable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UserStorage:
    user: str
    logs: int = 0  # bytes
    artifacts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    disk: StorageDisk = field(default_factory=StorageDisk)
    items: tuple[StorageItem, ...] = ()
    users: tuple[UserStorage, ...] = ()
    complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    kind: str
    count: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneResult:
    items: tuple[Pruned, ...] = ()
    more: bool = False  # call it again for the rest


class StorageCalls:
    @endpoint
    def storage(self) -> Call[Storage]:
        """What takes room on the server's disk, by kind and by user; for admins."""
        return call("GET", "/storage", as_a(Storage), timeout=SCAN_TIMEOUT)

    @endpoint
    def prune_storage(
        self, kinds: Sequence[str], *, images: Sequence[str] = (), older_than: float = 0.0, dry_run: bool = True
    ) -> Call[PruneResult]:
        """Remove what is kept of jobs that ended more than `older_than` seconds ago; for admins. `kinds`: logs,
        artifacts, held, images, metrics. Unless `images` are named, those go that no job uses. A dry run only says what
        would be removed. While the result says `more`, call it again."""
        body = {"kinds": list(kinds), "images": list(images), "older_than": older_than, "dry_run": dry_run}
        return call("POST", "/storage/prune", as_a(PruneResult), body=body, timeout=SCAN_TIMEOUT, repeatable=True)

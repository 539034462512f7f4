"""Disk usage of the server, and cleanup."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, NotRequired, TypedDict

from .limits import Limits

MAX_IMAGES = 1000
MAX_AGE = 36500 * 86400  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageDisk:
    """The disk of the server's state folder, in bytes."""

    free: Annotated[int, "Bytes."] = 0
    total: Annotated[int, "Bytes."] = 0
    full_below: Annotated[int, "Below this many free bytes, no tasks start."] = 0
    free_files: int = 0
    total_files: Annotated[int, "0: the disk does not limit the number of files."] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageItem:
    kind: Annotated[str, "logs, artifacts, held, images, metrics, tasks, files or database."]
    bytes: int = 0
    count: Annotated[int | None, "Number of jobs, tasks or images; null: not counted."] = None
    oldest: Annotated[datetime | None, "Time of the oldest job end, hold or import."] = None
    prunable: Annotated[bool, "POST /storage/prune can remove some of it."] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UserStorage:
    user: str
    logs: Annotated[int, "Bytes of logs of ended jobs."] = 0
    artifacts: Annotated[int, "Bytes."] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    disk: Annotated[StorageDisk, "Disk of the state folder."] = field(default_factory=StorageDisk)
    items: tuple[StorageItem, ...] = ()
    users: Annotated[tuple[UserStorage, ...], "Largest first."] = ()
    complete: Annotated[bool, "False: counting took too long and was stopped."] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunedItem:
    kind: str
    count: Annotated[int, "Number of jobs, tasks or images."] = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneResult:
    items: tuple[PrunedItem, ...] = ()
    more: Annotated[bool, "Repeat the request to remove the rest; in a dry run: not everything was counted."] = False


class PruneRequest(TypedDict):
    kinds: Annotated[Sequence[str], "logs, artifacts, held, images, metrics.", Limits(min_length=1, max_length=10)]
    images: NotRequired[Annotated[Sequence[str], "Image names; empty: all unused ones.", Limits(max_length=MAX_IMAGES)]]
    older_than: NotRequired[Annotated[float, "Seconds since the job ended.", Limits(ge=0, le=MAX_AGE)]]
    dry_run: NotRequired[Annotated[bool, "Only report what would be removed. Default: true."]]

"""What takes space on the server's disk, and what was removed."""

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
    full_below: Annotated[int, "With fewer bytes free, the disk counts as full and no task starts."] = 0
    free_files: int = 0
    total_files: Annotated[int, "0: the disk does not limit the number of files."] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageItem:
    kind: Annotated[str, "logs, artifacts, held, images, metrics, tasks, files or database."]
    bytes: int = 0
    count: Annotated[int | None, "Jobs, tasks or images; null: not counted."] = None
    oldest: Annotated[datetime | None, "End of the oldest job, start of the oldest hold, or the oldest import."] = None
    prunable: Annotated[bool, "POST /storage/prune can remove some of it."] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UserStorage:
    user: str
    logs: Annotated[int, "Bytes of logs of jobs that have ended."] = 0
    artifacts: Annotated[int, "Bytes."] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    disk: Annotated[StorageDisk, "Of the state folder."] = field(default_factory=StorageDisk)
    items: tuple[StorageItem, ...] = ()
    users: Annotated[tuple[UserStorage, ...], "Those with the most first."] = ()
    complete: Annotated[bool, "False: there was too much to count within a few seconds."] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    kind: str
    count: Annotated[int, "Jobs, tasks or images."] = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneResult:
    items: tuple[Pruned, ...] = ()
    more: Annotated[bool, "Send the same request again for the rest; of a dry run: not all was counted."] = False


class PruneRequest(TypedDict):
    kinds: Annotated[Sequence[str], "logs, artifacts, held, images, metrics.", Limits(min_length=1, max_length=10)]
    images: NotRequired[
        Annotated[Sequence[str], "Names; empty: images that no job uses.", Limits(max_length=MAX_IMAGES)]
    ]
    older_than: NotRequired[Annotated[float, "Seconds since the job ended.", Limits(ge=0, le=MAX_AGE)]]
    dry_run: NotRequired[Annotated[bool, "Only say what would be removed. Default: true."]]

"""What /storage answers and takes."""

from __future__ import annotations

from pydantic import Field

from .models import Given, Taken

MOST_IMAGES = 1000
LONGEST_AGE = 36500 * 86400  # seconds


class StorageItemView(Given):
    kind: str = Field(description="logs, artifacts, held, images, metrics, tasks, files or database.")
    bytes: int
    count: int | None = Field(description="Jobs, tasks or images; null where they are not counted.")
    oldest: str | None = Field(description="End of the oldest job, or begin of the oldest hold, or the oldest import.")
    prunable: bool = Field(description="POST /storage/prune can remove some of it.")


class UserStorageView(Given):
    user: str
    logs: int = Field(description="Bytes of logs of jobs that have ended.")
    artifacts: int = Field(description="Bytes.")


class DiskView(Given):
    free: int = Field(description="Bytes.")
    total: int
    full_below: int = Field(description="With fewer bytes free, the disk counts as full and no task starts.")
    free_files: int
    total_files: int = Field(description="0 where the disk does not limit the number of files.")


class StorageView(Given):
    disk: DiskView = Field(description="Of the state folder.")
    items: list[StorageItemView]
    users: list[UserStorageView] = Field(description="Those with most first.")
    complete: bool = Field(description="False: there was too much to count all of it in a few seconds.")


class PruneBody(Taken):
    kinds: list[str] = Field(min_length=1, max_length=10, description="logs, artifacts, held, images, metrics.")
    images: list[str] = Field([], max_length=MOST_IMAGES, description="Names; empty: images that no job uses.")
    older_than: float = Field(0, ge=0, le=LONGEST_AGE, description="Seconds since the job ended.")
    dry_run: bool = Field(True, description="Only say what would be removed.")


class PrunedView(Given):
    kind: str
    count: int = Field(description="Jobs, tasks or images.")
    bytes: int


class PruneView(Given):
    items: list[PrunedView]
    more: bool = Field(description="Send the same again for the rest; of a dry run: not all was counted.")

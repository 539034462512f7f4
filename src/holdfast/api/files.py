"""Shared files, artifacts and months with usage reports."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A shared file, a folder or an artifact."""

    name: Annotated[str, "Relative to the requested folder; folders end in a slash."]
    size: Annotated[int, "Bytes; 0 for folders."] = 0
    modified_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileList:
    items: tuple[File, ...]
    complete: Annotated[bool, "False: there are more."] = True
    next: Annotated[str | None, "`after` of the next page."] = None
    left_out: Annotated[int, "Number of omitted entries: links, devices and invalid names."] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRemovalResult:
    removed: Annotated[int, "Number of deleted files."] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactList:
    """The artifacts of a job."""

    job: str
    group: str = ""
    items: tuple[File, ...] = ()
    complete: Annotated[bool, "False: there are more than can be listed."] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Month:
    year: int
    month: int

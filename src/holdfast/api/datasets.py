"""Datasets: named folders and variables."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Literal, NotRequired, TypedDict

from .limits import GroupNames, Limits, Name, Text

DatasetKind = Literal["folder", "nfs", "volume", "git", "env"]
WRITABLE_GROUPS_DESCRIPTION = "Groups with write access, regardless of read_only."
PER_USER_DESCRIPTION = "Each user gets a subfolder with their name."
DEFAULT_DESCRIPTION = "Mounted in jobs that request the default datasets of their user."
DATA_DESCRIPTION = "nfs: server, path. git: url, optional branch and secret. volume: size in GB."


@dataclass(frozen=True, slots=True, kw_only=True)
class GitState:
    """The checkout of a git dataset."""

    commit: Annotated[str, "The commit that jobs get; empty: none yet."] = ""
    synced_at: Annotated[datetime | None, "Time of the last successful update."] = None
    error: Annotated[str, "Error of the last update; empty: it succeeded."] = ""
    error_at: datetime | None = None
    busy: Annotated[bool, "An update is in progress."] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A named folder that jobs can mount, or variables."""

    name: str
    path: Annotated[str, "Folder on the node; empty unless you are an admin."] = ""
    display_name: Annotated[str, "Empty: same as the name."] = ""
    description: str = ""
    read_only: Annotated[bool, "Read-only for all except the writable groups."] = True
    everyone: Annotated[bool, "Available to all users, else to its groups."] = False
    groups: tuple[str, ...] = ()
    writable_groups: Annotated[tuple[str, ...], WRITABLE_GROUPS_DESCRIPTION] = ()
    per_user: Annotated[bool, PER_USER_DESCRIPTION] = False
    default: Annotated[bool, DEFAULT_DESCRIPTION] = False
    kind: DatasetKind = "folder"
    data: Annotated[Mapping[str, str], DATA_DESCRIPTION] = field(default_factory=dict)
    sync: Annotated[GitState | None, "State of the checkout; only of the kind git."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetVariables:
    """The variables of a dataset of the kind env."""

    variables: Mapping[str, str] = field(default_factory=dict, repr=False)


_SourceFields = Annotated[Mapping[Annotated[str, Limits(max_length=64)], Text], Limits(max_length=8)]
_Path = Annotated[Text | None, "Folder on the node; only of the kinds folder and nfs."]


class DatasetFields(TypedDict, total=False):
    display_name: Text | None
    description: Text | None
    read_only: Annotated[bool | None, "Default: true."]
    everyone: Annotated[bool | None, "Available to all users, else to its groups."]
    per_user: Annotated[bool | None, PER_USER_DESCRIPTION]
    default: Annotated[bool | None, DEFAULT_DESCRIPTION]
    kind: Annotated[str | None, DatasetKind, "Default: folder."]
    data: Annotated[_SourceFields | None, DATA_DESCRIPTION]
    variables: Annotated[Mapping[str, str] | None, "Only of the kind env; not returned.", Limits(max_length=1000)]


class NewDatasetFields(DatasetFields, total=False):
    groups: GroupNames | None
    writable_groups: Annotated[GroupNames | None, WRITABLE_GROUPS_DESCRIPTION]
    adopt: Annotated[bool | None, "Reuse the data of a removed volume with this name."]


class NewDataset(NewDatasetFields):
    name: Name
    path: NotRequired[_Path]


class DatasetChange(DatasetFields, total=False):
    path: _Path

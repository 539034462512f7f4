"""Datasets: named folders to mount, or variables."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Literal, NotRequired, TypedDict

from .limits import GroupNames, Limits, Name, Text

DatasetKind = Literal["folder", "nfs", "volume", "git", "env"]
WRITABLE_GROUPS = "Groups that may write whatever read_only says."
PER_USER = "Each user gets the folder of their own name in it."
DEFAULT = "Mounted when a job asks for its user's default datasets."
DATA = "With nfs: server and path. With git: url, and where needed branch and secret. With volume: size, in GB."


@dataclass(frozen=True, slots=True, kw_only=True)
class GitState:
    """The checkout of a git dataset."""

    commit: Annotated[str, "The commit that jobs get; empty: none yet."] = ""
    synced_at: Annotated[datetime | None, "When it was last known to be the newest."] = None
    error: Annotated[str, "Of the last try; empty: it succeeded."] = ""
    error_at: datetime | None = None
    busy: Annotated[bool, "An update is in progress."] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A named folder that jobs can mount, or variables."""

    name: str
    path: Annotated[str, "The folder on the machine, for admins; empty for others."] = ""
    display_name: Annotated[str, "Empty: the name."] = ""
    description: str = ""
    read_only: Annotated[bool, "For all but the writable groups."] = True
    everyone: Annotated[bool, "For all users; else for its groups."] = False
    groups: tuple[str, ...] = ()
    writable_groups: Annotated[tuple[str, ...], WRITABLE_GROUPS] = ()
    per_user: Annotated[bool, PER_USER] = False
    default: Annotated[bool, DEFAULT] = False
    kind: DatasetKind = "folder"
    data: Annotated[Mapping[str, str], DATA] = field(default_factory=dict)
    sync: Annotated[GitState | None, "Of the kind git: the state of its checkout."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Variables:
    """The variables of a dataset of the kind env."""

    variables: Mapping[str, str] = field(default_factory=dict, repr=False)


_Data = Annotated[Mapping[Annotated[str, Limits(max_length=64)], Text], Limits(max_length=8)]
_Path = Annotated[Text | None, "A folder on the machine; of the kinds folder and nfs."]


class DatasetFields(TypedDict, total=False):
    display_name: Text | None
    description: Text | None
    read_only: Annotated[bool | None, "Default: true."]
    everyone: Annotated[bool | None, "For all users; else for its groups."]
    per_user: Annotated[bool | None, PER_USER]
    default: Annotated[bool | None, DEFAULT]
    kind: Annotated[str | None, DatasetKind, "Default: folder."]
    data: Annotated[_Data | None, DATA]
    variables: Annotated[Mapping[str, str] | None, "Of the kind env; never shown with it.", Limits(max_length=1000)]


class NewDatasetFields(DatasetFields, total=False):
    groups: GroupNames | None
    writable_groups: Annotated[GroupNames | None, WRITABLE_GROUPS]
    adopt: Annotated[bool | None, "Take over the data of an earlier volume of this name."]


class NewDataset(NewDatasetFields):
    name: Name
    path: NotRequired[_Path]


class DatasetChange(DatasetFields, total=False):
    path: _Path

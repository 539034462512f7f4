"""Datasets: named folders to mount, or variables."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Literal

DatasetKind = Literal["folder", "nfs", "volume", "git", "env"]
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
    writable_groups: Annotated[tuple[str, ...], "Groups that may write whatever read_only says."] = ()
    per_user: Annotated[bool, "Each user gets the folder of their own name in it."] = False
    default: Annotated[bool, "Mounted when a job asks for its user's default datasets."] = False
    kind: DatasetKind = "folder"
    data: Annotated[Mapping[str, str], DATA] = field(default_factory=dict)
    sync: Annotated[GitState | None, "Of the kind git: the state of its checkout."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Variables:
    """The variables of a dataset of the kind env."""

    variables: Mapping[str, str] = field(default_factory=dict, repr=False)

"""Groups, their quotas and shared configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, TypedDict

from .limits import DisplayName, Limits, LongText, SlurmOptions, Text
from .resources import Quota

TIME_LIMIT_DESCRIPTION = "Seconds; 0: no limit; null: the server's default."
SHARED_VOLUME_DESCRIPTION = "Mount a persistent shared folder at /project/GROUP."
VOLUME_CAPACITY_DESCRIPTION = "Intended size of the shared folder in GB; not enforced."
LAUNCH_ONLY_DESCRIPTION = "Mount the shared folder only in jobs of this group."
HOME_SYMLINK_DESCRIPTION = "Link the shared folder at /home/jovyan/GROUP."
ENGINE_DESCRIPTION = "Default engine of its jobs; empty: the server's."
SLURM_DESCRIPTION = "Options of its jobs for Slurm: partition, account, qos, constraint, reservation."
HOLD_DESCRIPTION = "Default hold of its jobs: on, 7d, files or files:7d; null: none."


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    name: str
    display_name: Annotated[str, "Empty: same as the name."] = ""
    description: str = ""
    quota: Quota = field(default_factory=Quota)
    user_quota: Quota = field(default_factory=Quota)
    time_limit: Annotated[float | None, TIME_LIMIT_DESCRIPTION] = None
    members: Annotated[Mapping[str, bool], "User -> whether the user is an admin of the group."] = field(
        default_factory=dict
    )
    shared_volume: Annotated[bool, SHARED_VOLUME_DESCRIPTION] = False
    volume_capacity: Annotated[int | None, VOLUME_CAPACITY_DESCRIPTION] = None
    launch_only: Annotated[bool, LAUNCH_ONLY_DESCRIPTION] = True
    home_symlink: Annotated[bool, HOME_SYMLINK_DESCRIPTION] = True
    hold: Annotated[str | None, HOLD_DESCRIPTION] = None
    engine: Annotated[str, ENGINE_DESCRIPTION] = ""
    slurm: Annotated[Mapping[str, str], SLURM_DESCRIPTION] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mlflow:
    """MLflow configuration of a group."""

    tracking_uri: Annotated[str, "Address of the tracking server."]
    ui_url: Annotated[str, "Address of its web UI."] = ""
    tracking_envs: Annotated[
        Mapping[str, str], "Variables for the tracking server; masked unless you are an admin of the group."
    ] = field(default_factory=dict)
    artifact_envs: Annotated[Mapping[str, str], "Variables for the artifact store; masked likewise."] = field(
        default_factory=dict
    )


class GroupFields(TypedDict, total=False):
    display_name: DisplayName | None
    description: Text | None
    quota: Annotated[Quota | None, "Replaced as a whole."]
    user_quota: Annotated[Quota | None, "Replaced as a whole."]
    time_limit: Annotated[float | None, TIME_LIMIT_DESCRIPTION, Limits(ge=0)]
    shared_volume: Annotated[bool | None, SHARED_VOLUME_DESCRIPTION]
    volume_capacity: Annotated[int | None, VOLUME_CAPACITY_DESCRIPTION, Limits(ge=1, le=10**9)]
    launch_only: Annotated[bool | None, f"{LAUNCH_ONLY_DESCRIPTION} Default: true."]
    home_symlink: Annotated[bool | None, f"{HOME_SYMLINK_DESCRIPTION} Default: true."]
    hold: Annotated[str | None, HOLD_DESCRIPTION, Limits(max_length=100)]
    engine: Annotated[str | None, ENGINE_DESCRIPTION, Limits(max_length=63)]
    slurm: Annotated[SlurmOptions | None, f"{SLURM_DESCRIPTION} Replaced as a whole."]


class NewGroup(GroupFields):
    name: Annotated[str, Limits(max_length=200)]


class Membership(TypedDict, total=False):
    admin: bool


_Address = Annotated[str, Limits(max_length=2048)]
_Variables = Annotated[Mapping[Annotated[str, Limits(max_length=255)], LongText], Limits(max_length=100)]


class MlflowFields(TypedDict, total=False):
    ui_url: Annotated[_Address | None, "Address of its web UI."]
    tracking_envs: Annotated[_Variables | None, "Variables for the tracking server."]
    artifact_envs: Annotated[_Variables | None, "Variables for the artifact store."]


class MlflowChange(MlflowFields):
    tracking_uri: Annotated[_Address, "Address of the tracking server."]

"""Groups, their quotas and what their jobs share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from .resources import Quota

HOLD = "How failed tasks of jobs that do not say are held: on, 7d, files or files:7d; null: they are not."


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    name: str
    display_name: Annotated[str, "Empty: the name."] = ""
    description: str = ""
    quota: Quota = field(default_factory=Quota)
    user_quota: Quota = field(default_factory=Quota)
    time_limit: Annotated[float | None, "Seconds; 0: no limit; null: the server's default."] = None
    members: Annotated[Mapping[str, bool], "User -> whether the user is an admin of the group."] = field(
        default_factory=dict
    )
    shared_volume: Annotated[bool, "Its jobs find a permanent folder at /project/GROUP."] = False
    volume_capacity: Annotated[int | None, "Intended size of that folder in GB; not enforced."] = None
    launch_only: Annotated[bool, "Jobs of its members in other groups do not see that folder."] = True
    home_symlink: Annotated[bool, "/home/jovyan/GROUP is a link to that folder."] = True
    hold: Annotated[str | None, HOLD] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mlflow:
    """Where a group's jobs report their experiments."""

    tracking_uri: Annotated[str, "Address of the tracking server."]
    ui_url: Annotated[str, "Address of its pages."] = ""
    tracking_envs: Annotated[Mapping[str, str], "Variables to reach it; masked for all but admins of the group."] = (
        field(default_factory=dict)
    )
    artifact_envs: Annotated[Mapping[str, str], "Variables to reach its artifacts; masked likewise."] = field(
        default_factory=dict
    )

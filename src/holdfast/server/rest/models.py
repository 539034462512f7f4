"""What requests hold."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

MOST = 1_000_000  # cores or GPUs of a quota
MOST_BYTES = 2**60


class Taken(BaseModel):
    """What we are sent. An unknown field is refused: it is most likely a misspelt one."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)


class HoldChange(Taken):
    until: str | None = Field(None, max_length=100, description="Hold until then.")
    longer: Annotated[str, Field(max_length=100)] | float | None = Field(
        None, alias="for", description="Hold for so much longer than now planned: 3d, 12h, or seconds."
    )
    keep: Literal["files"] | None = Field(None, description="files: processes end and give their resources back.")
    task: str | None = Field(None, max_length=200, description="Such as worker-0; left out: all that are held.")


class NewShortKey(Taken):
    public_key: str = Field(max_length=20_000, description="On one line.")


class StopMany(Taken):
    jobs: list[str] = Field(min_length=1, max_length=1000, description="Ids or names.")


class Credentials(Taken):
    user: str = Field(max_length=200)
    password: str = Field(max_length=4096)
    device: str = Field("", max_length=200)


class OwnPassword(Taken):
    old: str = Field(max_length=4096)
    new: str = Field(max_length=4096)


class NewPassword(Taken):
    password: str = Field(max_length=4096)


class NewUser(Taken):
    name: str = Field(max_length=200)
    password: str | None = Field(None, max_length=4096, description="Left out: the user cannot log in by password.")
    email: str = Field("", max_length=320)
    admin: bool = False
    groups: dict[str, bool] | list[str] | None = Field(
        None, description="Left out: the default group. As a list, or with whether the user is its admin."
    )


class UserChange(Taken):
    email: str | None = Field(None, max_length=320)
    admin: bool | None = None
    disabled: bool | None = None


class TokenRequest(Taken):
    name: str = Field("", max_length=200)
    expires_in: float | None = Field(None, gt=0, description="Seconds; left out: it does not expire.")
    user: str | None = Field(None, max_length=200, description="Whose; admins only.")


class NewKey(Taken):
    value: str = Field(max_length=20_000, description="The public key, on one line.")
    title: str = Field("", max_length=200, description="Left out: the key's comment.")


class QuotaBody(Taken):
    cpu: float | None = Field(None, ge=0, le=MOST, description="Cores; null: no bound.")
    memory: int | None = Field(None, ge=0, le=MOST_BYTES, description="Bytes; null: no bound.")
    gpu: int | None = Field(None, ge=0, le=MOST)


_HOLD = "How failed tasks are kept of jobs that do not say: on, 7d, files or files:7d; null: they are not."
_Gigabytes = Field(None, ge=1, le=10**9, description="GB its shared volume is meant to have; told, not enforced.")


class NewGroup(Taken):
    name: str = Field(max_length=200)
    display_name: str = Field("", max_length=255)
    description: str = Field("", max_length=4096)
    quota: QuotaBody = Field(default_factory=QuotaBody.model_construct)
    user_quota: QuotaBody = Field(default_factory=QuotaBody.model_construct)
    time_limit: float | None = Field(None, ge=0, description="Seconds; 0: no limit; null: the server's own.")
    shared_volume: bool = Field(False, description="Its jobs find a folder that stays at /project/GROUP.")
    volume_capacity: int | None = _Gigabytes
    launch_only: bool = Field(True, description="Jobs of its members in other groups do not see that folder.")
    home_symlink: bool = Field(True, description="/home/jovyan/GROUP leads to it.")
    hold: str | None = Field(None, max_length=100, description=_HOLD)


class GroupChange(Taken):
    display_name: str | None = Field(None, max_length=255)
    description: str | None = Field(None, max_length=4096)
    quota: QuotaBody | None = None
    user_quota: QuotaBody | None = None
    time_limit: float | None = Field(None, ge=0, description="Seconds; 0: no limit; null: the server's own.")
    shared_volume: bool | None = None
    volume_capacity: int | None = _Gigabytes
    launch_only: bool | None = None
    home_symlink: bool | None = None
    hold: str | None = Field(None, max_length=100, description=_HOLD)


_Variables = Annotated[
    dict[Annotated[str, Field(max_length=255)], Annotated[str, Field(max_length=65536)]], Field(max_length=100)
]


class MlflowBody(Taken):
    tracking_uri: str = Field(max_length=2048, description="Address of the tracking server.")
    ui_url: str = Field("", max_length=2048, description="Address of its pages.")
    tracking_envs: _Variables = Field(default_factory=dict, description="Variables to reach it.")
    artifact_envs: _Variables = Field(default_factory=dict, description="Variables to reach where it keeps artifacts.")


class Membership(Taken):
    admin: bool = False


DatasetKind = Literal["folder", "nfs", "volume", "git", "env"]
DatasetData = dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=4096)]]
GroupNames = list[Annotated[str, Field(max_length=200)]]
Variables = dict[str, str]
_DATA = "With nfs: server and path. With git: url, and where needed branch and secret. With volume: size, in GB."


class NewDataset(Taken):
    name: str = Field(max_length=200)
    path: str = Field("", max_length=4096, description="A folder on the machine; of the kinds folder and nfs.")
    display_name: str = Field("", max_length=4096)
    description: str = Field("", max_length=4096)
    read_only: bool = True
    everyone: bool = Field(False, description="For all users; else for the groups below.")
    groups: GroupNames = Field(default_factory=list, max_length=1000)
    writable_groups: GroupNames = Field(
        default_factory=list, max_length=1000, description="Those that may write whatever read_only says."
    )
    per_user: bool = Field(False, description="Each user gets the folder of their own name in it.")
    default: bool = Field(False, description="Mounted when a job asks for its user's default ones.")
    kind: DatasetKind = "folder"
    data: DatasetData = Field(default_factory=dict, max_length=8, description=_DATA)
    variables: Variables | None = Field(None, max_length=1000, description="Of the kind env; never shown with it.")
    adopt: bool = Field(False, description="Take over the data of an earlier volume of this name.")


class DatasetChange(Taken):
    path: str | None = Field(None, max_length=4096)
    display_name: str | None = Field(None, max_length=4096)
    description: str | None = Field(None, max_length=4096)
    read_only: bool | None = None
    everyone: bool | None = None
    per_user: bool | None = None
    default: bool | None = None
    kind: DatasetKind | None = None
    data: DatasetData | None = Field(None, max_length=8, description="In place of all it had.")
    variables: Variables | None = Field(None, max_length=1000, description="In place of all it had.")


class NewSecret(Taken):
    name: str = Field(max_length=200)
    display_name: str = Field("", max_length=4096)
    kind: Literal["opaque", "registry"] = Field("opaque", description="For git, or to pull images.")
    registry_host: str = Field("", max_length=300, description="Of the kind registry, such as ghcr.io.")
    username: str = Field("", max_length=300)
    value: str = Field(max_length=65536, description="A private SSH key or a password. It is never shown again.")


class SecretChange(Taken):
    display_name: str | None = Field(None, max_length=4096)
    registry_host: str | None = Field(None, max_length=300)
    username: str | None = Field(None, max_length=300)
    value: str | None = Field(None, max_length=65536)

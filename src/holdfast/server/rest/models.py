"""What the API takes and gives, described for its readers. `views` writes the answers; a test holds them to this."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from holdfast.core.verdicts import Fault

StateName = Literal["Pending", "Preparing", "Running", "Held", "Succeeded", "Failed", "Cancelled", "Unknown"]


MOST = 1_000_000  # cores or GPUs of a quota
MOST_BYTES = 2**60


class Given(BaseModel):
    """What we answer."""

    model_config = ConfigDict(extra="forbid", defer_build=True)  # when first used: a server is to be up soon


class Taken(BaseModel):
    """What we are sent. An unknown field is refused: it is most likely a misspelt one."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)


class ProblemView(Given):
    field: str = Field(description="Where in the job file, such as roles.worker.resources.cpu.")
    message: str
    hint: str | None
    line: int | None = Field(description="Line of the file, from 1, where it is known.")


class ErrorBody(Given):
    code: str = Field(description="For programs: bad_request, invalid_job, not_logged_in, forbidden, not_found, ...")
    message: str = Field(description="For people.")
    field: str | None = Field(description="Which part of the request it is about.")
    hint: str | None = Field(description="What to try.")
    request_id: str
    problems: list[ProblemView] | None = Field(None, description="Everything wrong with a job file (invalid_job).")


class Error(Given):
    error: ErrorBody


class ResourcesView(Given):
    cpu: float = Field(description="Cores.")
    memory: int = Field(description="Bytes.")
    gpu: int


class JobView(Given):
    id: str
    name: str
    user: str
    group: str
    state: StateName
    message: str = Field(description="Why it is in this state, in plain words.")
    submitted_at: str
    started_at: str | None
    finished_at: str | None
    exit_code: int | None
    exit_kind: str | None
    attempt: int = Field(description="Which try of the job is the current one, from 0.")
    task_count: int
    resources: ResourcesView = Field(description="Of all tasks together.")
    priority: int
    dialect: str
    tags: list[str]
    rerun_of: str | None
    schedule: str | None = Field(description="The id of the schedule that was due; null for all other jobs.")
    stopping: bool = Field(description="A stop was asked for and is under way.")
    held_until: str | None = Field(description="While it is held: when the last of its failed tasks is let go.")


class SubmittedView(JobView):
    warnings: list[str]


class ExitView(Given):
    kind: str
    code: int | None
    signal: int | None
    message: str
    behaviour: str
    cause: str = Field(description="What is known beyond kind and code, in a word; empty when nothing is.")
    hint: str = Field(description="What to try when another try would end the same way; else empty.")


class HeldView(Given):
    since: str
    until: str
    keep: Literal["all", "files"] = Field(description="all: also processes, ports and resources; files: nothing else.")
    ended: bool = Field(description="None of its processes are left.")


class HeldTaskView(HeldView):
    task: str
    latest: str = Field(description="It cannot be extended beyond.")


class HoldView(Given):
    job: str
    tasks: list[HeldTaskView] = Field(description="Those that are held.")


class HoldChange(Taken):
    until: str | None = Field(None, max_length=100, description="Hold until then.")
    longer: Annotated[str, Field(max_length=100)] | float | None = Field(
        None, alias="for", description="Hold for so much longer than now planned: 3d, 12h, or seconds."
    )
    keep: Literal["files"] | None = Field(None, description="files: processes end and give their resources back.")
    task: str | None = Field(None, max_length=200, description="Such as worker-0; left out: all that are held.")


class ReleasedView(JobView):
    released: list[str] = Field(description="The tasks that are let go.")


class TaskView(Given):
    task: str
    role: str
    index: int
    attempt: int = Field(description="Which try of the job.")
    number: int = Field(description="Which try of the task within it.")
    attempt_id: str
    state: str
    node: str | None
    gpus: list[int]
    ports: dict[str, list[int]]
    placed_at: str | None
    started_at: str | None
    finished_at: str | None
    exit: ExitView | None
    held: HeldView | None = Field(description="While it is held, and of one that was.")
    logs: Literal["kept", "expired", "none"]
    logs_expired_at: str | None


class RetriesView(Given):
    user: int
    platform: int


class StopView(Given):
    actor: str
    at: str
    why: str = Field(description="What happened, where nobody asked for it by hand; else empty.")


class SshLineView(Given):
    task: str
    command: str = Field(description="To be typed as it is.")
    user: str
    host: str
    port: int
    held: bool = Field(description="It failed, and is kept for debugging.")


class SshView(Given):
    items: list[SshLineView]
    host_key: str | None = Field(description="The gateway's own public key, on one line.")
    reason: str | None = Field(description="Why there are none.")


class NewShortKey(Taken):
    public_key: str = Field(max_length=20_000, description="On one line.")


class ShortKeyView(Given):
    host: str
    port: int
    host_key: str = Field(description="The gateway's own public key, on one line.")
    expires_at: str


class TicketView(Given):
    ticket: str
    expires_in: float = Field(description="Seconds.")
    job: str = Field(description="Its id: where the ticket leads.")


class DebuggerView(Given):
    task: str
    id: str = Field(description="Within the task.")
    file: str
    line: int
    function: str
    why: Literal["start", "breakpoint", "crash", ""]
    since: str
    until: str | None = Field(description="Then it goes on, or ends, by itself.")
    attached: bool = Field(description="Somebody is at it.")
    waits: bool = Field(description="It holds the program up.")
    port: int | None = Field(description="Null unless one may enter the task.")
    token: str | None = Field(
        description="What it asks of whoever comes by its port; null unless one may enter the task."
    )


class KeptFailureView(Given):
    fault: Fault
    title: str
    task: str | None = Field(description="The one whose failure was the cause.")


class JobDetailView(JobView):
    job: dict[str, Any] = Field(description="The whole job as Holdfast understands it; secrets are masked.")
    description: str
    exit: ExitView | None
    failure: KeptFailureView | None = Field(
        description="Why it failed, once that is known: moments after its end. GET /jobs/{ref}/why says more, and also "
        "why of a job that is held."
    )
    retries: RetriesView
    retry_at: str | None
    time_limit: float | None = Field(description="Seconds an attempt may run; null: no limit.")
    stop: StopView | None
    tasks: list[TaskView]
    decided_by: str | None = Field(
        description="The task that decided how this attempt ended, whose log is shown first; null when none did alone."
    )
    waiting: list[str] | None = Field(description="Why it waits; null when it does not.")
    isolation: Literal["full", "read-only", "none"]
    debuggers: list[DebuggerView] = Field(description="Those in its tasks; first those that wait for somebody.")
    ssh: list[SshLineView] = Field(
        description="How to get inside those of its tasks that run or are held; empty for those who may not."
    )


class PlanView(Given):
    dialect: str
    job: dict[str, Any]
    yaml: str
    warnings: list[str]
    verdict: Literal["now", "wait", "never"]
    reasons: list[str]


class ListedJobView(JobView):
    debugger: str | None = Field(description="Where one waits for somebody: train.py:42 in worker-3.")


class JobPageView(Given):
    items: list[ListedJobView]
    next: str | None = Field(description="Give it as `cursor` for the page after this one.")


class EventView(Given):
    seq: int
    at: str
    kind: str
    message: str
    actor: str
    task: str | None
    attempt: int | None
    state: StateName | None


class EventPageView(Given):
    items: list[EventView]
    next: int | None = Field(description="Give it as `after` for what comes later.")


class TaskListView(Given):
    items: list[TaskView]


class AttemptView(Given):
    attempt: int
    tasks: list[TaskView]


class AttemptListView(Given):
    items: list[AttemptView]


class StopMany(Taken):
    jobs: list[str] = Field(min_length=1, max_length=1000, description="Ids or names.")


class StopFailure(Given):
    job: str
    error: ErrorBody


class StopManyView(Given):
    stopped: list[str] = Field(description="Ids of jobs that will stop, or had ended before.")
    failed: list[StopFailure]


class HitView(Given):
    offset: int = Field(description="Where the match begins in the log.")
    line_offset: int = Field(description="Where its line begins.")
    text: str


class SearchView(Given):
    hits: list[HitView]
    next: int | None = Field(description="Give it as `start` to go on; null: the end was reached.")


class WrittenView(Given):
    start: int
    end: int = Field(description="The bytes before this offset.")
    at: str = Field(description="When they were seen to be there: written then, or shortly before.")


class LogTimesView(Given):
    pieces: list[WrittenView]
    next: int | None = Field(description="Give it as `start` to go on; null: that is all that is known.")


class Login(Taken):
    user: str = Field(max_length=200)
    password: str = Field(max_length=4096)
    device: str = Field("", max_length=200)


class LoginView(Given):
    token: str
    user: str
    expires_at: str | None
    device: str


class MeView(Given):
    name: str
    admin: bool
    email: str
    groups: dict[str, bool] = Field(description="Group -> whether one is its admin.")


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


class UserView(Given):
    name: str
    admin: bool
    email: str
    groups: dict[str, bool]
    disabled: bool
    created_at: str


class UserListView(Given):
    items: list[UserView]


class NewToken(Taken):
    name: str = Field("", max_length=200)
    expires_in: float | None = Field(None, gt=0, description="Seconds; left out: it does not expire.")
    user: str | None = Field(None, max_length=200, description="Whose; admins only.")


class TokenView(Given):
    id: str
    name: str
    user: str
    created_at: str
    expires_at: str | None
    last_used_at: str | None


class NewTokenView(TokenView):
    token: str = Field(description="Shown this once.")


class TokenListView(Given):
    items: list[TokenView]


class NewKey(Taken):
    value: str = Field(max_length=20_000, description="The public key, on one line.")
    title: str = Field("", max_length=200, description="Left out: the key's comment.")


class KeyView(Given):
    id: str
    title: str
    type: str
    fingerprint: str
    value: str
    added_at: str | None


class KeyListView(Given):
    items: list[KeyView]


class LoginCodeView(Given):
    code: str = Field(description="Works once.")
    url: str = Field(description="To open in a browser.")
    user: str
    expires_in: float = Field(description="Seconds.")


class AuditView(Given):
    seq: int
    at: str
    user: str = Field(description="Who did it; empty: somebody who was not logged in.")
    kind: str
    act: str
    subject: str = Field(description="What it was done to, by name or id.")
    address: str = Field(description="Where the request came from; empty: the server itself.")
    detail: dict[str, str] = Field(description="What was set; never a secret.")


class AuditListView(Given):
    items: list[AuditView]
    next: int | None = Field(description="The `before` of the next page.")


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


class MlflowView(Given):
    tracking_uri: str
    ui_url: str
    tracking_envs: dict[str, str] = Field(description="Values are masked for all but admins of the group.")
    artifact_envs: dict[str, str]


class GroupView(Given):
    name: str
    display_name: str
    description: str
    quota: dict[str, float | int | None]
    user_quota: dict[str, float | int | None]
    time_limit: float | None
    members: dict[str, bool] = Field(description="User -> whether an admin of the group.")
    shared_volume: bool
    volume_capacity: int | None
    launch_only: bool
    home_symlink: bool
    hold: str | None = Field(description=_HOLD)


class GroupListView(Given):
    items: list[GroupView]


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


class GitStateView(Given):
    commit: str = Field(description="What jobs are given; empty: nothing yet.")
    synced_at: str | None = Field(description="When that was known to be the newest.")
    error: str = Field(description="Of the last try; empty: it went well.")
    error_at: str | None
    busy: bool = Field(description="An update is under way.")


class DatasetView(Given):
    name: str
    path: str = Field(description="Where it lies on the machine, for admins; empty for others.")
    display_name: str
    description: str
    read_only: bool
    everyone: bool
    groups: list[str]
    writable_groups: list[str]
    per_user: bool
    default: bool
    kind: DatasetKind
    data: dict[str, str]
    sync: GitStateView | None = Field(description="Of the kind git: how far its checkout is.")


class VariablesView(Given):
    variables: dict[str, str]


class DatasetListView(Given):
    items: list[DatasetView]


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


class SecretView(Given):
    name: str
    display_name: str
    kind: str
    registry_host: str
    username: str


class SecretListView(Given):
    items: list[SecretView]


class ImageView(Given):
    name: str
    size: int | None
    created_at: str | None
    source: str


class ImageListView(Given):
    items: list[ImageView]


class EngineView(Given):
    name: str
    isolation: str
    limits: str
    notes: list[str]


class NodeView(Given):
    name: str
    cpu: float
    memory: int
    gpus: list[int]
    free: ResourcesView


class GroupUseView(Given):
    name: str
    used: ResourcesView
    quota: dict[str, float | int | None]
    user_quota: dict[str, float | int | None]
    users: dict[str, ResourcesView] = Field(description="What each user of it has in use, if anything.")


class IdentityView(Given):
    proof: str


class CapacityView(Given):
    nodes: list[NodeView]
    groups: list[GroupUseView]
    engine: EngineView


class ConditionView(Given):
    kind: Literal["sandbox", "database", "disk-full", "disk-low", "files-disk-full"]
    message: str
    hint: str = Field(description="What an admin can do about it.")
    detail: str = Field("", description="The error itself; admins only.")
    blocks_starts: bool = Field(description="No task starts while it lasts; jobs stay Pending.")
    warning: bool = Field(description="Everything still works.")


class HealthView(Given):
    status: Literal["ok", "degraded"]
    notes: list[str]
    conditions: list[ConditionView] = Field(description="Current problems of the installation.")


class VersionView(Given):
    name: str
    version: str
    api: str


class GatewayView(Given):
    enabled: bool
    host: str | None = Field(description="Where people find it; null: it does not listen.")
    port: int | None
    trouble: str | None = Field(description="Why it does not listen although it should.")


class StatusView(Given):
    version: str
    pid: int
    started_at: str
    url: str | None
    home: str | None = Field(None, description="Admins only.")
    jobs: dict[str, int]
    queue: int
    engine: EngineView
    conditions: list[ConditionView]
    ssh: GatewayView


class FileView(Given):
    name: str = Field(description="Within the folder that was asked for; folders end in a slash.")
    size: int = Field(description="Bytes; 0 of folders.")
    modified_at: str | None


class FileListView(Given):
    items: list[FileView]
    complete: bool = Field(description="False: there is more.")
    next: str | None = Field(description="What to go on after.")
    left_out: int = Field(description="Links, devices, and what has no readable name; they are never shown.")


class RemovedFilesView(Given):
    removed: int = Field(description="How many files.")


class ArtifactListView(Given):
    job: str
    group: str
    items: list[FileView]
    complete: bool = Field(description="False: there are more than can be listed.")


class MonthView(Given):
    year: int
    month: int


class MonthListView(Given):
    items: list[MonthView]

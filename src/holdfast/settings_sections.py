"""Sections of holdfast.toml with the description of every setting."""

from __future__ import annotations

import ipaddress
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from holdfast.core.job import GIB, MIB
from holdfast.core.messages import msg
from holdfast.core.notifications import Channel, find_address_problem
from holdfast.core.slurm_options import GRES_OPTION, find_gres_problem, iter_option_problems
from holdfast.disk_space import DiskThresholds

MAX_DAYS = 36500
MAX_SECONDS = MAX_DAYS * 86400  # seconds; larger values overflow in sums with times


class SettingsSection(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ServerSettings(SettingsSection):
    host: str = Field("127.0.0.1", description="Address that the HTTP server listens on.")
    port: int = Field(8080, ge=0, le=65535, description="Port of the HTTP server. 0 selects a free port.")
    public_url: str = Field(
        "",
        pattern=r"^(https?://[!-~]+)?$",
        description="Address of the portal for users, such as https://holdfast.example.org. It is used for "
        "links, for the origin check of forms, and for secure cookies. If empty, the address of each "
        "request is used.",
    )
    trusted_proxies: list[str] = Field(
        [],
        description='Addresses and networks of trusted proxies, such as ["127.0.0.1", "10.0.0.0/24"]. Their '
        "X-Forwarded-For and X-Forwarded-Proto headers are accepted. List only proxies: a client at "
        "such an address can spoof any address.",
    )
    max_job_bytes: int = Field(MIB, ge=1024, description="Maximum size of a job file, in bytes.")
    max_image_bytes: int = Field(50 * GIB, ge=MIB, description="Maximum size of an image upload, in bytes.")
    login_days: float = Field(7, gt=0, le=MAX_DAYS, description="Lifetime of a password login, in days.")
    audit_days: float = Field(
        365, ge=0, le=MAX_DAYS, description="Days after which audit entries are deleted. 0: never."
    )

    @field_validator("public_url")
    @classmethod
    def _validate_public_url(cls, url: str) -> str:
        parts = urlsplit(url)
        if url and (not parts.hostname or parts.port == 0 or "@" in parts.netloc):
            raise ValueError("must be an address such as https://holdfast.example.org")
        return url

    @field_validator("trusted_proxies")
    @classmethod
    def _validate_proxies(cls, proxies: list[str]) -> list[str]:
        for proxy in proxies:
            try:
                ipaddress.ip_network(proxy)
            except ValueError as error:
                raise ValueError(msg("{error}; use IP addresses or networks", error=error)) from None
        return proxies


class StoreSettings(SettingsSection):
    url: str = Field(
        "",
        description="Database URL. If empty, SQLite in the state folder is used. For several users, use "
        "postgresql://user:password@host/db.",
    )


class InstanceType(SettingsSection):
    """Resources with a name: an instance type in PrimeHub, a SKU type in OpenPAI."""

    cpu: float = Field(1, gt=0, description="Cores.")
    memory: int = Field(GIB, gt=0, description="Memory in bytes.")
    gpu: int = Field(0, ge=0, description="GPUs.")
    cpu_request: float | None = Field(
        None, gt=0, description="Free cores that a node must have. If unset, the value of cpu is used."
    )
    memory_request: int | None = Field(
        None, gt=0, description="Free memory that a node must have. If unset, the value of memory is used."
    )
    slurm: dict[str, str] = Field({}, description="Options for Slurm, such as partition and gres.")

    @model_validator(mode="after")
    def _check_slurm(self) -> Self:
        for _, problem in iter_option_problems(self.slurm):
            raise ValueError(problem)
        gres = self.slurm.get(GRES_OPTION)
        if gres and (problem := find_gres_problem(gres, self.gpu)):
            raise ValueError(problem)
        return self


DEFAULT_INSTANCE_TYPES = {
    "cpu-1": InstanceType(cpu=1, memory=2 * GIB),  # type: ignore[call-arg]
    "cpu-2": InstanceType(cpu=2, memory=10 * GIB),  # type: ignore[call-arg]
    "gpu-1": InstanceType(  # type: ignore[call-arg]
        cpu=2, memory=7 * GIB, gpu=1, cpu_request=1.5, memory_request=5 * GIB
    ),
    "gpu-2": InstanceType(cpu=4, memory=14 * GIB, gpu=2),  # type: ignore[call-arg]
}


class JobSettings(SettingsSection):
    time_limit: float = Field(
        24 * 3600,
        ge=0,
        le=MAX_SECONDS,
        description="Default time limit of an attempt, in seconds. A group or job can override it. 0: no limit.",
    )
    grace: float = Field(30, ge=0, le=MAX_SECONDS, description="Seconds between TERM and KILL when a job is stopped.")
    max_grace: float = Field(
        3600, ge=0, le=MAX_SECONDS, description="Maximum grace period that a job can request, in seconds."
    )
    default_cpu: float = Field(1, gt=0, description="Default number of cores of a task.")
    default_memory: int = Field(2 * GIB, gt=0, description="Default memory of a task, in bytes.")
    max_tasks: int = Field(10000, ge=1, description="Maximum number of tasks in a job.")
    instance_types: dict[str, InstanceType] = Field(
        DEFAULT_INSTANCE_TYPES,
        description="Initial instance types, which OpenPAI clients see as SKU types. Write "
        "[jobs.instance_types.NAME] with cpu, memory, gpu, cpu_request, memory_request and slurm. They are "
        "read only at the first start; afterwards, use `holdfast instance-type`.",
    )


class LogSettings(SettingsSection):
    keep_days: float = Field(
        7,
        ge=0,
        le=MAX_DAYS,
        description="Days after a job's end when its logs are deleted. 0: never. The job's record is kept.",
    )
    cap_bytes: int | None = Field(
        None,
        ge=MIB,
        description="Maximum size of one log stream, in bytes. The oldest data is deleted first. If unset: 10 "
        "GiB, or 5 % of the state folder's disk if that is less.",
    )


class DiskSettings(SettingsSection):
    reserve_bytes: int = Field(
        64 * MIB,
        ge=0,
        description="Bytes reserved for the server on the state folder's disk, at most 5 % of the disk. The "
        "server releases them if it cannot save its state otherwise.",
    )
    full_bytes: int = Field(
        GIB,
        ge=0,
        description="Free bytes on the state folder's disk below which it counts as full, at most 5 % of it. On "
        "a full disk, jobs stay Pending, logs are truncated, and the tasks that fill the disk are "
        "stopped.",
    )
    low_bytes: int = Field(
        4 * GIB,
        ge=0,
        description="Free bytes below which the server shows a warning, at most 10 % of the disk. It then "
        "rejects uploads, images, checkouts and artifacts.",
    )
    task_bytes: int | None = Field(
        None,
        ge=0,
        description="Maximum bytes that a task can write outside mounted folders, including its home and /tmp. A "
        "task that exceeds the limit is stopped. Logs do not count. If unset: half of the disk. 0: "
        "no limit.",
    )
    task_files: int | None = Field(
        None,
        ge=0,
        description="Maximum number of files and folders that a task can create on that disk. A task that exceeds "
        "the limit is stopped. If unset: half of the disk's inodes. 0: no limit.",
    )

    def to_thresholds(self) -> DiskThresholds:
        return DiskThresholds(full_bytes=self.full_bytes, low_bytes=self.low_bytes, reserve_bytes=self.reserve_bytes)


class NodeSettings(SettingsSection):
    name: str = Field("", description="Name of this node in lists. If empty, its host name is used.")
    address: str = Field(
        "",
        description="Address at which other hosts reach this node's tasks. If empty, the source address of its network "
        "route is used.",
    )
    cpus: float | None = Field(
        None, gt=0, description="Total number of cores that jobs can use. If unset, all of them."
    )
    memory: int | None = Field(None, gt=0, description="Total memory that jobs can use, in bytes. If unset, all of it.")
    gpus: list[int] | None = Field(None, description="Indexes of the GPUs that jobs can use. If unset, all of them.")
    port_start: int = Field(15000, ge=1024, le=65535, description="Start of the port range for tasks.")
    port_end: int | None = Field(
        None,
        ge=1025,
        le=65536,
        description="End of the port range for tasks (exclusive). If unset: 40000, or the start of the node's "
        "ephemeral port range if that is lower.",
    )
    max_processes: int = Field(4096, ge=16, description="Maximum number of processes and threads in a task.")

    @model_validator(mode="after")
    def _validate_port_range(self) -> Self:
        if self.port_end is not None and self.port_end <= self.port_start:
            raise ValueError(
                msg(
                    "port_end ({port_end}) must be greater than port_start ({port_start})",
                    port_end=self.port_end,
                    port_start=self.port_start,
                )
            )
        return self


class SandboxSettings(SettingsSection):
    isolation: Literal["auto", "full", "read-only", "off"] = Field(
        "auto",
        description='Minimum isolation of tasks. "auto": the best level that this node supports, and never less '
        'than before. With several users, jobs stay pending if no isolation is available. "full" or '
        '"read-only": at least that level. "off": tasks run as plain processes with the permissions '
        "of the server's user, even with several users.",
    )


class MountSettings(SettingsSection):
    allow: list[str] = Field(
        [], description="Folders of this node that every user can mount into jobs. Admins can mount any folder."
    )
    nfs_folder: str = Field(
        "/net",
        pattern="^/",
        description="Folder where nfs datasets are mounted, as SERVER/PATH. A dataset can set another path. "
        "Mount them there, for example with an automounter.",
    )
    git_seconds: float = Field(
        300,
        ge=0,
        le=MAX_SECONDS,
        description="Interval between updates of git datasets, in seconds. 0: only manual updates.",
    )
    git_timeout: float = Field(600, gt=0, le=MAX_SECONDS, description="Timeout of one update, in seconds.")
    git_bytes: int = Field(10 * GIB, ge=1, description="Maximum size of a git dataset's checkout, in bytes.")


class AccessSettings(SettingsSection):
    reading: Literal["groups", "users", "anyone"] = Field(
        "groups",
        description="Users who can read jobs, logs and events. groups: members of the job's group. users: all "
        "logged-in users, as in OpenPAI; they also see all users and groups. anyone: no login is "
        "required for the endpoints of OpenPAI's v1 clients.",
    )
    acting: Literal["members", "owners"] = Field(
        "members",
        description="Users who can stop, rerun, tag and change jobs and schedules. members: all members of the "
        "group, as in PrimeHub. owners: the owner and the group's admins.",
    )


class QueueSettings(SettingsSection):
    backfill: bool = Field(
        False,
        description="Enable backfill: a later job can start first if its time limit does not delay a job ahead "
        "of it. Off: strict first-in, first-out order within a group, as in PrimeHub.",
    )
    max_priority: int | None = Field(
        None,
        description="Maximum `priority` of jobs of non-admin users. A higher value is lowered with a warning. If "
        "unset, any value is allowed. Priority also orders groups that compete for a node.",
    )


class FileSettings(SettingsSection):
    folder: str = Field(
        "",
        description="Folder for shared volumes, shared files and artifacts of groups. If empty, the state folder "
        "is used. Choose a large disk that all nodes can access. Each server needs its own folder.",
    )
    max_upload_bytes: int = Field(
        10 * GIB, ge=1, description="Maximum size of a file uploaded to a group's shared files, in bytes."
    )
    artifact_bytes: int = Field(
        100 * MIB, ge=0, description="Maximum total size of a job's artifacts, in bytes. 0: artifacts are disabled."
    )
    artifact_files: int = Field(1000, ge=0, le=100_000, description="Maximum number of files in a job's artifacts.")
    artifact_days: float = Field(
        7, ge=0, le=MAX_DAYS, description="Days after a job's end when its artifacts are deleted. 0: never."
    )


class ScheduleSettings(SettingsSection):
    timezone: str = Field(
        "",
        description="Default time zone of schedules and of TZ in PrimeHub jobs, such as Europe/Berlin. If empty, "
        "the server's time zone is used.",
    )


class PrimeHubSettings(SettingsSection):
    scratch_bytes: int = Field(
        5 * GIB,
        ge=0,
        description="Maximum size of /home/jovyan in a PrimeHub job, in bytes. A job that exceeds the limit is "
        "stopped, with a message. 0: no limit.",
    )
    sudo: bool = Field(True, description="Provide `sudo` in PrimeHub jobs and set GRANT_SUDO to true.")


class OpenPaiSettings(SettingsSection):
    time_limit: float = Field(
        0,
        ge=0,
        le=MAX_SECONDS,
        description="Default time limit of an attempt of an OpenPAI job, in seconds. It replaces "
        "jobs.time_limit. A group or job can override it. 0: no limit, as in OpenPAI.",
    )
    requests_per_minute: int = Field(
        600,
        ge=0,
        description="Maximum requests to /rest-server per minute for each user, or for each address without a "
        "valid token. 0: no limit.",
    )
    lists_per_minute: int = Field(120, ge=0, description="Maximum job list requests of a user per minute. 0: no limit.")
    submits_per_hour: int = Field(3600, ge=0, description="Maximum jobs that a user can submit per hour. 0: no limit.")
    log_link_seconds: float = Field(
        120, gt=0, le=MAX_SECONDS, description="Lifetime of a link to a task's log, in seconds."
    )


class HoldSettings(SettingsSection):
    enabled: bool = Field(
        True, description="Enable holds: failed tasks are kept for debugging if their job or group requests it."
    )
    duration: float = Field(
        7 * 24 * 3600,
        gt=0,
        le=MAX_SECONDS,
        description="Default duration of a hold, in seconds. A job or group can override it. OpenPAI calls it "
        "debugging-reservation-seconds.",
    )
    longest: float = Field(
        28 * 24 * 3600,
        gt=0,
        le=MAX_SECONDS,
        description="Maximum total duration of a hold with all extensions, in seconds.",
    )
    per_user: int = Field(10, ge=1, description="Maximum number of concurrent holds of a user.")
    total: int = Field(100, ge=1, description="Maximum number of concurrent holds.")
    min_free_bytes: int = Field(
        GIB,
        ge=0,
        description="Minimum free bytes on the state folder's disk. Below this, holds that keep only files are "
        "released, oldest first.",
    )
    min_free_percent: float = Field(
        2,
        ge=0,
        le=90,
        description="Minimum free space on that disk, in percent. The larger of the two minimums applies.",
    )

    @model_validator(mode="after")
    def _validate_duration(self) -> Self:
        if self.duration > self.longest:
            raise ValueError(
                msg(
                    "duration ({duration}) must not be greater than longest ({max_length})",
                    duration=f"{self.duration:g}",
                    max_length=f"{self.longest:g}",
                )
            )
        return self


class SshSettings(SettingsSection):
    enabled: bool = Field(True, description="Allow SSH access to running tasks and tasks on hold.")
    host: str = Field("127.0.0.1", description="Address that the SSH gateway listens on.")
    port: int = Field(
        2222,
        ge=0,
        le=65535,
        description="Port of the SSH gateway. 0 selects a free port. If the port is in use, the server starts "
        "without the gateway and logs a warning.",
    )
    public_host: str = Field(
        "",
        pattern=r"^[A-Za-z0-9._:\-]*$",
        description="Host in the `ssh` commands shown to users. If empty, the host name of the portal is used.",
    )
    public_port: int = Field(
        0, ge=0, le=65535, description="Port in the `ssh` commands shown to users. 0: the port of the SSH gateway."
    )
    sessions_per_user: int = Field(
        100, ge=1, le=1000, description="Maximum concurrent shells, commands and file transfers of a user."
    )


class MetricsSettings(SettingsSection):
    enabled: bool = Field(True, description="Collect resource usage metrics of running tasks.")
    keep_days: float = Field(
        30, ge=0, le=MAX_DAYS, description="Days after a task's end when its metrics are deleted. 0: never."
    )
    open: bool = Field(
        False,
        description="Allow access to /metrics without a token. If off, an admin's token is required. The metrics "
        "contain names of users and jobs.",
    )


class NotificationSettings(SettingsSection):
    enabled: bool = Field(True, description="Send notifications about jobs to users who configure them.")
    allow: list[str] = Field(
        [],
        description="Hosts, addresses and networks that webhooks can reach although they are blocked by default, "
        "such as localhost or 127.0.0.0/8. Admins' webhooks can reach any address.",
    )
    refuse: list[str] = Field(
        [],
        description="Networks that webhooks cannot reach, such as 10.0.0.0/8, in addition to the networks that are "
        "always blocked.",
    )
    per_hour: int = Field(100, ge=1, le=10_000, description="Maximum notifications of a user per hour.")
    timeout: float = Field(45, ge=1, le=600, description="Timeout for the response of a recipient, in seconds.")
    first_wait: float = Field(
        1,
        ge=0.001,
        le=3600,
        description="Seconds before the first retry of a failed delivery. The interval doubles with each retry, "
        "up to an hour.",
    )
    give_up_hours: float = Field(
        24, gt=0, le=30 * 24, description="Hours after which a failed notification is no longer retried."
    )
    keep_days: float = Field(30, gt=0, le=MAX_DAYS, description="Days after which notifications are deleted.")


class MailSettings(SettingsSection):
    host: str = Field("", description="Host of the SMTP server. If empty, no mail is sent.")
    port: int = Field(
        25, ge=1, le=65535, description="Port of the SMTP server: usually 25, 587 with starttls, 465 with tls."
    )
    security: Literal["none", "starttls", "tls"] = Field(
        "none", description="Encryption of the connection: none, STARTTLS, or TLS from the start."
    )
    sender: str = Field("", description="Sender address of mails. Required to send mail.")
    user: str = Field("", description="User name for the SMTP server. If empty, no login is used.")
    password: str = Field(
        "", description="Password for the SMTP server. Prefer the environment variable or password_file."
    )
    password_file: str = Field("", description="File with the password on its first line.")
    domains: list[str] = Field(
        [], description="Allowed recipient domains. If empty, all are allowed. example.org includes its subdomains."
    )

    @model_validator(mode="after")
    def _validate_sender(self) -> Self:
        problem = find_address_problem(Channel.MAIL, self.sender) if self.sender else None
        if problem or (self.host and not self.sender):
            raise ValueError(msg("sender {problem}", problem=problem or msg("is required if host is set")))
        return self

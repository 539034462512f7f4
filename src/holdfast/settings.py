"""Every setting, described. Read from a TOML file, then the environment (HOLDFAST_SECTION_NAME), then options."""

from __future__ import annotations

import ipaddress
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, field_validator, model_validator

from holdfast.core.errors import UserError
from holdfast.core.job import GIB, MIB
from holdfast.core.messages import msg
from holdfast.core.notifications import Way, address_problem
from holdfast.disk_space import DiskMarks
from holdfast.settings_names import unknown_setting

MAX_DAYS = 36500
MAX_LENGTH = MAX_DAYS * 86400  # seconds; what is more overflows in sums with times


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ServerSettings(Section):
    host: str = Field("127.0.0.1", description="Address the HTTP server listens on.")
    port: int = Field(8080, ge=0, le=65535, description="Port of the HTTP server; 0 takes a free one.")
    public_url: str = Field(
        "",
        pattern=r"^(https?://[!-~]+)?$",
        description="Address by which people reach the portal, such as https://holdfast.example.org: for links, for "
        "the check where forms come from, and to mark cookies as secure; empty: as each client writes it.",
    )
    trusted_proxies: list[str] = Field(
        [],
        description="Addresses and networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are taken: "
        '["127.0.0.1", "10.0.0.0/24"]. Name proxies alone: a client at one of these can claim any address.',
    )
    max_job_bytes: int = Field(MIB, ge=1024, description="Largest job file accepted, in bytes.")
    max_image_bytes: int = Field(50 * GIB, ge=MIB, description="Largest image upload accepted, in bytes.")
    login_days: float = Field(7, gt=0, le=MAX_DAYS, description="How long a login by password lasts, in days.")
    audit_days: float = Field(
        365,
        ge=0,
        le=MAX_DAYS,
        description="Days after which the record of what people changed about the place is removed; 0: never.",
    )

    @field_validator("public_url")
    @classmethod
    def _has_a_host(cls, url: str) -> str:
        parts = urlsplit(url)
        if url and (not parts.hostname or parts.port == 0 or "@" in parts.netloc):
            raise ValueError("must be an address such as https://holdfast.example.org")
        return url

    @field_validator("trusted_proxies")
    @classmethod
    def _are_networks(cls, proxies: list[str]) -> list[str]:
        for proxy in proxies:
            try:
                ipaddress.ip_network(proxy)
            except ValueError as error:
                raise ValueError(msg("{error}; name addresses or networks", error=error)) from None
        return proxies


class StoreSettings(Section):
    url: str = Field(
        "",
        description="Database address; empty: SQLite in the state folder. "
        "postgresql://user:password@host/db when several people depend on it.",
    )


class InstanceType(Section):
    """A named size: an instance type to PrimeHub's job form, a SKU type to OpenPAI's clients."""

    cpu: float = Field(1, gt=0, description="Cores.")
    memory: int = Field(GIB, gt=0, description="Memory in bytes.")
    gpu: int = Field(0, ge=0, description="GPUs.")
    cpu_request: float | None = Field(None, gt=0, description="Cores a machine must have free; unset: all.")
    memory_request: int | None = Field(None, gt=0, description="Memory a machine must have free; unset: all.")


INSTANCE_TYPES = {
    "cpu-1": InstanceType(cpu=1, memory=2 * GIB),  # type: ignore[call-arg]
    "cpu-2": InstanceType(cpu=2, memory=10 * GIB),  # type: ignore[call-arg]
    "gpu-1": InstanceType(cpu=2, memory=7 * GIB, gpu=1, cpu_request=1.5, memory_request=5 * GIB),
    "gpu-2": InstanceType(cpu=4, memory=14 * GIB, gpu=2),  # type: ignore[call-arg]
}


class JobSettings(Section):
    time_limit: float = Field(
        24 * 3600,
        ge=0,
        le=MAX_LENGTH,
        description="Seconds an attempt may run unless group or job say otherwise; 0: no limit.",
    )
    grace: float = Field(30, ge=0, le=MAX_LENGTH, description="Seconds between TERM and KILL when a job is stopped.")
    max_grace: float = Field(3600, ge=0, le=MAX_LENGTH, description="Longest grace time a job may ask for, in seconds.")
    default_cpu: float = Field(1, gt=0, description="Cores of a task that does not say.")
    default_memory: int = Field(2 * GIB, gt=0, description="Memory of a task that does not say, in bytes.")
    max_tasks: int = Field(10000, ge=1, description="Most tasks one job may have.")
    instance_types: dict[str, InstanceType] = Field(
        INSTANCE_TYPES,
        description="Sizes that jobs may name, and the SKU types that OpenPAI's clients see: "
        "[jobs.instance_types.NAME] with cpu, memory, gpu, cpu_request and memory_request. Looked at once, at the "
        "first start: from then on `holdfast instance-type` changes them.",
    )


class LogSettings(Section):
    keep_days: float = Field(
        7,
        ge=0,
        le=MAX_DAYS,
        description="Days after a job's end when its logs are removed; 0: never. The record stays.",
    )
    cap_bytes: int | None = Field(
        None,
        ge=MIB,
        description="Most bytes kept of one log stream; the oldest go first. Unset: 10 GiB, or 5 % of the disk of the "
        "state folder if that is less.",
    )


class DiskSettings(Section):
    reserve_bytes: int = Field(
        64 * MIB,
        ge=0,
        description="Bytes on the disk of the state folder that are kept back for the server itself, at most 5 % of "
        "the disk. The server gives them up when it could not save otherwise.",
    )
    full_bytes: int = Field(
        GIB,
        ge=0,
        description="With fewer bytes free on the disk of the state folder, at most 5 % of it, the disk counts as "
        "full: jobs stay Pending, logs are cut, and the tasks that fill the disk are stopped.",
    )
    low_bytes: int = Field(
        4 * GIB,
        ge=0,
        description="With fewer bytes free, at most 10 % of the disk, the server warns, and takes no more uploads, "
        "images, checkouts and artifacts.",
    )
    task_bytes: int | None = Field(
        None,
        ge=0,
        description="Most bytes a task may write to its own files, in its home, /tmp and everywhere but mounted "
        "folders; a task that has more is stopped. Logs do not count. Unset: half of the disk. 0: no limit.",
    )
    task_files: int | None = Field(
        None,
        ge=0,
        description="Most files and folders a task may create there; a task that has more is stopped. Unset: half of "
        "what the disk can hold. 0: no limit.",
    )

    def marks(self) -> DiskMarks:
        return DiskMarks(full_bytes=self.full_bytes, low_bytes=self.low_bytes, reserve_bytes=self.reserve_bytes)


class NodeSettings(Section):
    name: str = Field("", description="Name of this machine in listings; empty: its host name.")
    address: str = Field(
        "",
        description="Address at which others reach this machine's tasks; empty: the one its network route begins at.",
    )
    cpus: float | None = Field(None, gt=0, description="Cores jobs may use in all; unset: all of them.")
    memory: int | None = Field(None, gt=0, description="Bytes of memory jobs may use in all; unset: all of it.")
    gpus: list[int] | None = Field(None, description="GPU numbers jobs may use; unset: all of them.")
    port_start: int = Field(15000, ge=1024, le=65535, description="First port handed to tasks.")
    port_end: int | None = Field(
        None,
        ge=1025,
        le=65536,
        description="Port after the last one handed to tasks; unset: 40000, or where the ports begin that this machine "
        "uses for its own outgoing connections, if that is lower.",
    )
    max_processes: int = Field(4096, ge=16, description="Most processes and threads one task may have.")

    @model_validator(mode="after")
    def _ports_in_order(self) -> Self:
        if self.port_end is not None and self.port_end <= self.port_start:
            raise ValueError(
                msg(
                    "port_end ({port_end}) must be above port_start ({port_start})",
                    port_end=self.port_end,
                    port_start=self.port_start,
                )
            )
        return self


class ImageSettings(Section):
    unknown: Literal["fail", "host"] = Field(
        "fail",
        description="What to do with a job that names an image we do not have: "
        "fail it, or run it on `host` with a warning.",
    )
    host_show: list[str] = Field([], description="More folders of this machine that jobs on image `host` may read.")


class SandboxSettings(Section):
    isolation: Literal["auto", "full", "read-only", "off"] = Field(
        "auto",
        description='Least isolation of tasks. "auto": the best this machine allows, never less than this server had '
        'before, and never none with several users; jobs wait otherwise. "full" or "read-only": that level or better, '
        'whatever was before. "off": run tasks as plain processes that read what the server\'s user can, and accept '
        "several users like that.",
    )


class MountSettings(Section):
    allow: list[str] = Field(
        [], description="Folders of this machine that every user may mount into jobs. Admins may mount any."
    )
    nfs_folder: str = Field(
        "/net",
        pattern="^/",
        description="Where datasets of the kind nfs are found, as SERVER/PATH below it, unless they say where else. "
        "They must be mounted there, as an automounter does.",
    )
    git_seconds: float = Field(
        300,
        ge=0,
        le=MAX_LENGTH,
        description="How often datasets of the kind git are brought up to date; 0: only by hand.",
    )
    git_timeout: float = Field(
        600, gt=0, le=MAX_LENGTH, description="Longest time in seconds that one update may take."
    )
    git_bytes: int = Field(10 * GIB, ge=1, description="Most bytes that a checkout of such a dataset may have.")


class AccessSettings(Section):
    reading: Literal["groups", "users", "anyone"] = Field(
        "groups",
        description="Who reads jobs, logs and events. groups: members of the job's group. users: everybody who is "
        "logged in, as with OpenPAI; they see all users and groups, too. anyone: also without login, on the addresses "
        "of OpenPAI's first clients.",
    )
    acting: Literal["members", "owners"] = Field(
        "members",
        description="Who stops, reruns, tags and changes jobs and schedules. members: every member of the group, as "
        "with PrimeHub. owners: the one whose it is, and admins of the group.",
    )


class QueueSettings(Section):
    backfill: bool = Field(
        False,
        description="Let later jobs pass one that waits for its group's quota or for room, if by their time limits "
        "they end before it could start. Off: strictly first come, first served within a group, as with PrimeHub.",
    )
    max_priority: int | None = Field(
        None,
        description="Highest `priority` of jobs of users who are not admins; a higher one is lowered to it, with a "
        "warning. Unset: any. Priority also decides between groups that compete for a machine.",
    )


class FileSettings(Section):
    folder: str = Field(
        "",
        description="Where groups' shared volumes, shared files and artifacts lie; empty: in the state folder. "
        "Choose a large disk that all machines reach; each server needs a folder of its own.",
    )
    max_upload_bytes: int = Field(10 * GIB, ge=1, description="Largest file accepted into a group's shared files.")
    artifact_bytes: int = Field(
        100 * MIB, ge=0, description="Most bytes kept of one job's artifacts; 0: no artifacts are kept."
    )
    artifact_files: int = Field(1000, ge=0, le=100_000, description="Most files kept of one job's artifacts.")
    artifact_days: float = Field(
        7, ge=0, le=MAX_DAYS, description="Days after a job's end when its artifacts are removed; 0: never."
    )


class ScheduleSettings(Section):
    timezone: str = Field(
        "",
        description="Time zone of schedules that name none, such as Europe/Berlin, and of TZ in PrimeHub's jobs; "
        "empty: this machine's.",
    )


class PrimeHubSettings(Section):
    scratch_bytes: int = Field(
        5 * GIB,
        ge=0,
        description="Most bytes a job in PrimeHub's format may keep in /home/jovyan; one that has more is stopped, and "
        "told so. 0: no limit.",
    )
    sudo: bool = Field(True, description="Jobs in PrimeHub's format find `sudo`, and GRANT_SUDO says true.")


class OpenPaiSettings(Section):
    time_limit: float = Field(
        0,
        ge=0,
        le=MAX_LENGTH,
        description="Seconds an attempt of a job in OpenPAI's format may run unless group or job say otherwise, in "
        "place of jobs.time_limit; 0: no limit, as OpenPAI had none.",
    )
    requests_per_minute: int = Field(
        600,
        ge=0,
        description="Most requests below /rest-server in a minute: of one user, or of one address without a valid "
        "token; 0: no limit.",
    )
    lists_per_minute: int = Field(120, ge=0, description="Most job lists one user asks for in a minute; 0: no limit.")
    submits_per_hour: int = Field(3600, ge=0, description="Most jobs one user submits in an hour; 0: no limit.")
    log_link_seconds: float = Field(120, gt=0, le=MAX_LENGTH, description="How long a link to a task's log is good.")


class HoldSettings(Section):
    enabled: bool = Field(True, description="Keep failed tasks for debugging, where their jobs or groups ask for it.")
    duration: float = Field(
        7 * 24 * 3600,
        gt=0,
        le=MAX_LENGTH,
        description="Seconds a failed task is kept unless job or group say otherwise; OpenPAI's "
        "debugging-reservation-seconds.",
    )
    longest: float = Field(
        28 * 24 * 3600, gt=0, le=MAX_LENGTH, description="Most seconds a task is kept in all, with every extension."
    )
    per_user: int = Field(10, ge=1, description="Most tasks of one user that are kept at one time.")
    total: int = Field(100, ge=1, description="Most tasks that are kept at one time.")
    min_free_bytes: int = Field(
        GIB,
        ge=0,
        description="Bytes that should be free on the disk of the state folder. With less, tasks of which only files "
        "are kept are let go, the oldest first.",
    )
    min_free_percent: float = Field(
        2, ge=0, le=90, description="The same in percent of the disk; the larger of the two counts."
    )

    @model_validator(mode="after")
    def _within_longest(self) -> Self:
        if self.duration > self.longest:
            raise ValueError(
                msg(
                    "duration ({duration}) must not be above longest ({longest})",
                    duration=f"{self.duration:g}",
                    longest=f"{self.longest:g}",
                )
            )
        return self


class SshSettings(Section):
    enabled: bool = Field(True, description="Let people into running and held tasks by SSH.")
    host: str = Field("127.0.0.1", description="Address the SSH gateway listens on.")
    port: int = Field(
        2222,
        ge=0,
        le=65535,
        description="Port of the SSH gateway; 0 takes a free one. If another program has it, the server starts without "
        "the gateway and says so.",
    )
    public_host: str = Field(
        "",
        pattern=r"^[A-Za-z0-9._:\-]*$",
        description="Host in the `ssh` lines that people are shown; empty: the one by which they reached the portal.",
    )
    public_port: int = Field(
        0, ge=0, le=65535, description="Port in those lines, where it is another one outside; 0: the same."
    )
    sessions_per_user: int = Field(
        100, ge=1, le=1000, description="Most shells, commands and file transfers one user has open at one time."
    )


class MetricsSettings(Section):
    enabled: bool = Field(True, description="Measure what running tasks use.")
    keep_days: float = Field(
        30, ge=0, le=MAX_DAYS, description="Days after its end that a task's figures are kept; 0: for ever."
    )
    open: bool = Field(
        False,
        description="Let anybody who reaches the server read /metrics, which names users and jobs. Otherwise it takes "
        "an admin's token.",
    )


class NotificationSettings(Section):
    enabled: bool = Field(True, description="Tell people outside of what happens to their jobs, where they ask for it.")
    allow: list[str] = Field(
        [],
        description="Hosts, addresses and networks that everybody's webhooks may reach though they would be refused: "
        "localhost, 127.0.0.0/8. Admins' own may reach any.",
    )
    refuse: list[str] = Field(
        [], description="Networks that webhooks may not reach, beside those that are always refused: 10.0.0.0/8."
    )
    per_hour: int = Field(100, ge=1, le=10_000, description="Most events that one user is told of in an hour.")
    timeout: float = Field(45, ge=1, le=600, description="Seconds that a receiver has to answer.")
    first_wait: float = Field(
        1,
        ge=0.001,
        le=3600,
        description="Seconds before a failed notification is sent again; each further wait is twice as long, "
        "at most an hour.",
    )
    give_up_hours: float = Field(24, gt=0, le=30 * 24, description="Hours after which a notification is given up.")
    keep_days: float = Field(30, gt=0, le=MAX_DAYS, description="Days after which notifications are forgotten.")


class MailSettings(Section):
    host: str = Field("", description="Server that takes mails from us; empty: no mails are sent.")
    port: int = Field(25, ge=1, le=65535, description="Its port: often 25, 587 with starttls, 465 with tls.")
    security: Literal["none", "starttls", "tls"] = Field(
        "none", description="How the connection is encrypted: not, after STARTTLS, or from the beginning."
    )
    sender: str = Field("", description="Mail address that mails come from. Needed to send any.")
    user: str = Field("", description="To log in with; empty: without a login.")
    password: str = Field(
        "", description="Password of that user; better in the environment, or in the file that follows, than here."
    )
    password_file: str = Field("", description="File with that password on its first line, for the server to read.")
    domains: list[str] = Field(
        [], description="Only addresses in these domains are sent mails; empty: any. example.org covers its subdomains."
    )

    @model_validator(mode="after")
    def _sender_is_an_address(self) -> Self:
        problem = address_problem(Way.MAIL, self.sender) if self.sender else None
        if problem or (self.host and not self.sender):
            raise ValueError(msg("sender {problem}", problem=problem or msg("is needed with a host")))
        return self


class Settings(Section):
    server: ServerSettings = ServerSettings()  # type: ignore[call-arg]
    store: StoreSettings = StoreSettings()  # type: ignore[call-arg]
    jobs: JobSettings = JobSettings()  # type: ignore[call-arg]
    logs: LogSettings = LogSettings()  # type: ignore[call-arg]
    disk: DiskSettings = DiskSettings()  # type: ignore[call-arg]
    node: NodeSettings = NodeSettings()  # type: ignore[call-arg]
    images: ImageSettings = ImageSettings()  # type: ignore[call-arg]
    sandbox: SandboxSettings = SandboxSettings()  # type: ignore[call-arg]
    mounts: MountSettings = MountSettings()  # type: ignore[call-arg]
    access: AccessSettings = AccessSettings()  # type: ignore[call-arg]
    queue: QueueSettings = QueueSettings()  # type: ignore[call-arg]
    files: FileSettings = FileSettings()  # type: ignore[call-arg]
    schedules: ScheduleSettings = ScheduleSettings()  # type: ignore[call-arg]
    openpai: OpenPaiSettings = OpenPaiSettings()  # type: ignore[call-arg]
    primehub: PrimeHubSettings = PrimeHubSettings()  # type: ignore[call-arg]
    hold: HoldSettings = HoldSettings()  # type: ignore[call-arg]
    ssh: SshSettings = SshSettings()  # type: ignore[call-arg]
    metrics: MetricsSettings = MetricsSettings()  # type: ignore[call-arg]
    notifications: NotificationSettings = NotificationSettings()  # type: ignore[call-arg]
    mail: MailSettings = MailSettings()  # type: ignore[call-arg]
    _sources: dict[str, str] = PrivateAttr(default_factory=dict)

    def told_from(self, sources: Mapping[str, str]) -> Self:
        """These settings, with section.name -> where each came from."""
        self._sources = dict(sources)
        return self

    def source_of(self, section: str, field: str) -> str:
        """Where its value came from: default, file, environment or option."""
        return self._sources.get(f"{section}.{field}", "default")


def default_home() -> Path:
    """The state folder: HOLDFAST_HOME, else ~/.holdfast."""
    return Path(os.environ.get("HOLDFAST_HOME") or Path.home() / ".holdfast").absolute()


def load_settings(home: Path, environ: Mapping[str, str], overrides: Mapping[str, Any] | None = None) -> Settings:
    """Settings from `home`/holdfast.toml, then the environment, then `overrides` (section.name -> value)."""
    data = _read_file(home / "holdfast.toml")
    sources = {
        f"{section}.{field}": "file" for section, table in data.items() if isinstance(table, dict) for field in table
    }
    for section, field in _names():
        text = environ.get(f"HOLDFAST_{section}_{field}".upper())
        if text is not None:
            _table(data, section)[field] = _from_text(section, field, text)
            sources[f"{section}.{field}"] = "environment"
    for key, value in (overrides or {}).items():
        section, field = key.split(".", 1)
        _table(data, section)[field] = value
        sources[key] = "option"
    try:
        return Settings.model_validate(data).told_from(sources)
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "extra_forbidden":
            raise unknown_setting(home / "holdfast.toml", first["loc"], setting_names()) from None
        where = ".".join(str(part) for part in first["loc"])
        raise UserError(
            msg("Setting {where}: {msg}", where=where, msg=first["msg"]),
            field=where,
            hint="See docs/reference/settings.md for every setting.",
        ) from None


def setting_names() -> dict[str, list[str]]:
    """Section -> its settings."""
    found: dict[str, list[str]] = {}
    for section, field in _names():
        found.setdefault(section, []).append(field)
    return found


def _read_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise UserError(
            msg("Cannot read {path}: {error}", path=path, error=error), hint="Mend the file or move it away."
        ) from None


def _table(data: dict[str, Any], section: str) -> dict[str, Any]:
    found = data.setdefault(section, {})
    if not isinstance(found, dict):
        raise UserError(
            msg("Setting {section}: must be a table, not {found}", section=section, found=repr(str(found)[:50])),
            field=section,
            hint=msg("Write [{section}] on a line of its own, and its settings below.", section=section),
        )
    return found


def _names() -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for section, info in Settings.model_fields.items():
        assert isinstance(info.annotation, type)
        assert issubclass(info.annotation, Section)
        found.extend((section, field) for field in info.annotation.model_fields)
    return found


def _from_text(section: str, field: str, text: str) -> Any:
    """Lists are written with commas in the environment; the rest is left to validation."""
    annotation = Settings.model_fields[section].annotation
    assert isinstance(annotation, type)
    assert issubclass(annotation, Section)
    if "list" in str(annotation.model_fields[field].annotation):
        return [part.strip() for part in text.split(",") if part.strip()]
    return text

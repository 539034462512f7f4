"""Sections of holdfast.toml about engines and images, with the description of every setting."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from holdfast.core.slurm_options import QUEUE_OPTION_NAMES, SLURM_OPTION_NAMES, iter_option_problems
from holdfast.settings_sections import MAX_DAYS, SettingsSection

EngineKind = Literal["embedded", "docker", "slurm"]
SlurmIsolation = Literal["auto", "bubblewrap", "none"]


class EngineSettings(SettingsSection):
    kind: EngineKind = Field(
        "embedded",
        description="Where tasks run. embedded: in the server's own sandbox. docker: in containers of Docker or "
        "Podman on this machine. slurm: as jobs of a Slurm cluster.",
    )
    others: list[EngineKind] = Field(
        [],
        description="Other engines that a job or a group can choose. Running tasks continue on their engine when it "
        "is removed from the settings.",
    )
    socket: str = Field(
        "/var/run/docker.sock",
        description="Unix socket of Docker, or of Podman's service (such as /run/podman/podman.sock).",
    )


class SlurmSettings(SettingsSection):
    folder: str = Field(
        "",
        description="Folder for the files of tasks that run in Slurm. The server and all nodes must see it at the same "
        "path. Required for the engine slurm.",
    )
    partition: str = Field("", description="Partition of jobs that choose none. If empty: Slurm's default.")
    account: str = Field("", description="Account of jobs that choose none. If empty: Slurm's default.")
    qos: str = Field("", description="QOS of jobs that choose none. If empty: Slurm's default.")
    constraint: str = Field("", description="Features that nodes must have, for jobs that choose none. If empty: none.")
    reservation: str = Field("", description="Reservation of jobs that choose none. If empty: none.")
    run_as: Literal["service", "user"] = Field(
        "service",
        description="Unix user of tasks. service: the server's user. user: the Unix user with the name of the Holdfast "
        "user; the server runs as root, or has a rule for sudo.",
    )
    job_options: list[str] = Field(
        list(SLURM_OPTION_NAMES),
        description="Options that jobs of users can set themselves. Others come from these settings, from the group "
        "and from the instance type. Admins can set all.",
    )
    max_queued: int = Field(
        100, ge=1, description="Tasks that can wait in Slurm's queue at a time. Others wait in Holdfast's queue."
    )
    never_timeout: float = Field(
        900,
        ge=0,
        description="Seconds until a task fails whose request Slurm accepted, but says that it can never run, such as "
        "a time limit above the partition's. 0: it waits until nodes are added or an admin changes the partition.",
    )
    conf: str = Field("", description="Path of slurm.conf. If empty: as Slurm's commands find it.")
    isolation: SlurmIsolation = Field(
        "auto",
        description="How tasks are isolated on the nodes. auto: with bubblewrap on nodes where it works, else not at "
        "all. bubblewrap: tasks fail on other nodes. none: tasks see the files of the node, and images are refused.",
    )
    node_folder: str = Field(
        "",
        description="Folder on the nodes' own disks for /tmp of isolated tasks, and for their changes to images. If "
        "empty: SLURM_TMPDIR or TMPDIR of the job, else /tmp.",
    )

    @field_validator(*QUEUE_OPTION_NAMES)
    @classmethod
    def _check_option(cls, given: str, info: ValidationInfo) -> str:
        for _, problem in iter_option_problems({str(info.field_name): given}):
            raise ValueError(problem)
        return given

    @field_validator("job_options")
    @classmethod
    def _check_job_options(cls, given: list[str]) -> list[str]:
        for _, problem in iter_option_problems(dict.fromkeys(given, "")):
            raise ValueError(problem)
        return given

    @property
    def queue_options(self) -> dict[str, str]:
        """The options of jobs that choose none."""
        return {name: value for name in QUEUE_OPTION_NAMES if (value := getattr(self, name))}


class ImageSettings(SettingsSection):
    unknown: Literal["pull", "fail", "host"] = Field(
        "pull",
        description="Handling of a job whose image is not on this server. pull: the image is pulled from its registry "
        "before the job starts. fail: the job fails. host: it runs on the image `host` with a warning.",
    )
    registries: list[str] = Field(
        [], description="Registries that images can be pulled from, such as docker.io or ghcr.io. If empty: all."
    )
    mirrors: list[str] = Field(
        [],
        description="Mirrors that are tried before a registry, each as REGISTRY=MIRROR, such as "
        "docker.io=mirror.example.com:5000.",
    )

    @field_validator("mirrors")
    @classmethod
    def _check_mirrors(cls, given: list[str]) -> list[str]:
        for line in given:
            registry, _, mirror = line.partition("=")
            if not registry.strip() or not mirror.strip() or "://" in line:
                raise ValueError(f"{line!r} is not REGISTRY=MIRROR, such as docker.io=mirror.example.com:5000")
        return given

    insecure_registries: list[str] = Field(
        [], description="Registries and mirrors that are reached without TLS, or whose certificate is not verified."
    )
    keep_days: float = Field(
        30,
        ge=0,
        le=MAX_DAYS,
        description="Days until a pulled image that no job uses is removed. When the disk is nearly full, it is "
        "removed earlier. 0: never by age.",
    )
    host_show: list[str] = Field([], description="Additional host folders that jobs on the image `host` can read.")

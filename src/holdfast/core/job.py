"""The one canonical job: what every dialect parses to and every engine runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

from .notifications import Notify

MIB = 1024 * 1024
GIB = 1024 * MIB

DEFAULT_GROUP = "default"
HOST_IMAGE = "host"
FILES = "/phfs"  # where tasks see the files that their group shares


class Dialect(StrEnum):
    """How the job was written; kept so that old clients get their own words back."""

    HOLDFAST = "holdfast"
    OPENPAI_V2 = "openpai-v2"
    OPENPAI_V1 = "openpai-v1"
    PRIMEHUB = "primehub"

    @property
    def openpai(self) -> bool:
        """Its jobs get what OpenPAI put around them, and are retried as its users know it."""
        return self in (Dialect.OPENPAI_V1, Dialect.OPENPAI_V2)


class Keep(StrEnum):
    """What a hold keeps of a failed task."""

    ALL = "all"  # container, files, ports and resources
    FILES = "files"  # files only; CPU, GPU and memory are given back at once
    NOTHING = "nothing"  # not even where the group's jobs are held


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one task asks for."""

    cpu: float = 1.0  # cores
    memory: int = 2 * GIB  # bytes, a hard limit
    gpu: int = 0  # whole devices
    shm: int | None = None  # bytes of /dev/shm; None leaves it to the engine
    cpu_request: float | None = None  # what a machine must have free, where it is less than the limit above
    memory_request: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A folder of the machine made visible in the task."""

    source: str
    target: str
    read_only: bool = True
    dataset: str | None = None  # the one it comes from; such mounts are worked out anew when the job is run again


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """When one role ends the whole attempt; None switches a condition off."""

    min_failed: int | None = 1
    min_succeeded: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Keep a failed task for debugging."""

    duration: timedelta | None = None  # None: the admin's default
    keep: Keep = Keep.ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A named kind of task; `instances` copies of it run side by side."""

    name: str
    commands: tuple[str, ...]  # joined by newlines into one script
    instances: int = 1
    image: str = HOST_IMAGE  # as its author wrote it
    image_url: str = ""  # what that was an alias of when the job was submitted; empty: it is no alias
    resources: Resources = field(default_factory=Resources)
    instance_type: str = ""  # the size that the resources are, by name; worked out anew when the job is run again
    own_resources: tuple[str, ...] = ()  # which of the resources were asked for beside it, in order
    ports: Mapping[str, int] = field(default_factory=dict)  # label -> how many
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    completion: Completion = field(default_factory=Completion)
    max_task_retries: int = 0  # used only when the job is not gang-placed
    shell_options: tuple[str, ...] = ("errexit", "pipefail")  # `set -o` names
    workdir: str | None = None  # None: the image's own, else /home/jovyan

    @property
    def engine_image(self) -> str:
        """The image as engines know it."""
        return self.image_url or self.image


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a user submits."""

    name: str
    roles: tuple[Role, ...]
    group: str = DEFAULT_GROUP
    description: str = ""
    secrets: Mapping[str, Any] = field(default_factory=dict)  # kept encrypted, masked in every output
    gang: bool = True  # all tasks are placed together, or none
    max_retries: int = 0  # -1: every failure for ever; -2: even successes
    time_limit: timedelta | None = None  # None: group or admin default; zero: no limit
    grace: timedelta | None = None  # between TERM and KILL; None: admin default
    hold: Hold | None = None
    priority: int = 0  # higher goes first
    tags: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()  # shown to every task below /datasets
    files: bool = False  # every task sees the files that its group shares, to read and write
    notify: tuple[Notify, ...] = ()  # who is told of what, besides what its owner chose
    dialect: Dialect = Dialect.HOLDFAST
    extras: Mapping[str, Any] = field(default_factory=dict)  # a dialect's own leftovers, JSON values only

    def role(self, name: str) -> Role:
        """The role of that name; KeyError when there is none."""
        for role in self.roles:
            if role.name == name:
                return role
        raise KeyError(name)

    @property
    def task_count(self) -> int:
        return sum(role.instances for role in self.roles)

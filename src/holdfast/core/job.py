"""The canonical job: what every file format parses to and every engine runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

from .notifications import NotifySpec
from .volumes import Volume

MIB = 1024 * 1024
GIB = 1024 * MIB

DEFAULT_GROUP = "default"
HOST_IMAGE = "host"
SHARED_FILES_PATH = "/phfs"  # mount path of the group's shared files


class JobFormat(StrEnum):
    """The file format of the job; stored so that old clients get their own field names back."""

    HOLDFAST = "holdfast"
    OPENPAI_V2 = "openpai-v2"
    OPENPAI_V1 = "openpai-v1"
    PRIMEHUB = "primehub"
    SBATCH = "sbatch"

    @property
    def is_openpai(self) -> bool:
        """Whether its jobs get OpenPAI's environment and retry rules."""
        return self in (JobFormat.OPENPAI_V1, JobFormat.OPENPAI_V2)

    @property
    def emulates_platform(self) -> bool:
        """Whether its jobs run as on OpenPAI or PrimeHub: always as root, with their setup around the commands."""
        return self.is_openpai or self is JobFormat.PRIMEHUB


class HoldScope(StrEnum):
    """What a hold keeps of a failed task."""

    ALL = "all"  # container, files, ports and resources
    FILES = "files"  # files only; CPU, GPU and memory are released
    NOTHING = "nothing"  # disables the group's hold


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The resource request of one task."""

    cpu: float = 1.0  # cores
    memory: int = 2 * GIB  # bytes, a hard limit
    gpu: int = 0  # whole devices
    shm: int | None = None  # bytes of /dev/shm; None leaves it to the engine
    cpu_request: float | None = None  # what a node must have free, if less than the limit above
    memory_request: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A volume that is mounted in the task."""

    volume: Volume
    target: str
    read_only: bool = True
    dataset: str | None = None  # the dataset it comes from; resolved again when the job is rerun

    @property
    def source(self) -> str:
        """The volume as shown to users: a path, or an address."""
        return self.volume.address


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """When one role ends the whole attempt; None disables a condition."""

    min_failed: int | None = 1
    min_succeeded: int | None = None
    wait_for_all: bool = False  # min_failed applies only when all tasks of the role have ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Hold a failed task for debugging."""

    duration: timedelta | None = None  # None: the admin's default
    keep: HoldScope = HoldScope.ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A named kind of task; `instances` copies of it run in parallel."""

    name: str
    commands: tuple[str, ...]  # joined by newlines into one script
    instances: int = 1
    image: str = HOST_IMAGE  # as its author wrote it
    image_url: str = ""  # what the alias referred to on submission; empty: it is no alias
    resources: Resources = field(default_factory=Resources)
    instance_type: str = ""  # name of the instance type; resolved again when the job is rerun
    own_resources: tuple[str, ...] = ()  # which resources override it, in order
    ports: Mapping[str, int] = field(default_factory=dict)  # label -> how many
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    completion: Completion = field(default_factory=Completion)
    max_task_retries: int = 0  # used only when the job is not gang-placed
    shell_options: tuple[str, ...] = ("errexit", "pipefail")  # `set -o` names
    workdir: str | None = None  # None: the image's own, else /home/jovyan
    # Engine -> name -> value: options for the system behind that engine.
    engine_options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    # The same of its instance type or SKU type, on submission; the ones above override them.
    type_options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def engine_image(self) -> str:
        return self.image_url or self.image


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a user submits."""

    name: str
    roles: tuple[Role, ...]
    group: str = DEFAULT_GROUP
    description: str = ""
    secrets: Mapping[str, Any] = field(default_factory=dict)  # stored encrypted, masked in every output
    gang: bool = True  # all tasks are placed together, or none
    max_retries: int = 0  # -1: every failure; -2: also successes
    time_limit: timedelta | None = None  # None: group or admin default; zero: no limit
    grace: timedelta | None = None  # between TERM and KILL; None: admin default
    hold: Hold | None = None
    priority: int = 0  # higher values start first
    engine: str = ""  # name of the engine that runs it; empty: its group's, else the server's default
    tags: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()  # mounted in every task under /datasets
    files: bool = False  # mount the group's shared files read-write in every task
    notify: tuple[NotifySpec, ...] = ()  # notifications besides those of its owner's settings
    dialect: JobFormat = JobFormat.HOLDFAST
    extras: Mapping[str, Any] = field(default_factory=dict)  # other data of the file format, JSON values only

    def get_role(self, name: str) -> Role:
        """Return the role with that name; KeyError if there is none."""
        for role in self.roles:
            if role.name == name:
                return role
        raise KeyError(name)

    @property
    def task_count(self) -> int:
        return sum(role.instances for role in self.roles)

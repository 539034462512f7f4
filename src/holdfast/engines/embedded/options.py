"""Options of the embedded engine."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.core.job import GIB, MIB
from holdfast.disk_space import DiskThresholds

from .images.registry_options import RegistryOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedOptions:
    cpus: float | None = None  # cores for tasks; None: all
    memory: int | None = None  # bytes for tasks; None: all
    gpus: tuple[int, ...] | None = None  # device indices for tasks; None: all
    port_start: int = 15000  # inclusive
    port_end: int | None = None  # exclusive; None: see machine.choose_port_end
    reserved_ports: frozenset[int] = frozenset()  # used by the server: never given to a task
    default_shm: int = 64 * MIB
    log_cap: int = 10 * GIB  # bytes kept of each stream
    pids_max: int = 8192  # processes and threads of one task
    unknown_image: str = "fail"  # or "host": use the machine's own image
    registries: RegistryOptions = field(default_factory=RegistryOptions)  # where images are pulled from
    isolation: str = "auto"  # the minimum level: "full", "read-only", or "off" for no sandbox; see isolation_level
    multi_user: bool = False  # tasks of different users must not see each other's files
    sandbox_retry: float = 5.0  # seconds between two attempts to create a sandbox
    host_show: tuple[str, ...] = ()  # more of the machine's folders to show, read-only
    library: tuple[str, ...] = ()  # folders of Python packages for every task
    hidden: tuple[str, ...] = ()  # more paths hidden from tasks, such as the server's state
    task_bytes: int = 0  # max bytes of a task's own files; 0: unlimited
    task_files: int = 0  # max files and folders among them; 0: unlimited
    scratch_interval: float = 10.0  # seconds between two measurements of a task's files, if limited
    scratch_grace: float = 30.0  # seconds between SIGTERM and SIGKILL of a task that exceeds its disk limit
    marks: DiskThresholds = field(
        default_factory=DiskThresholds
    )  # when the disk counts as full: then no image is unpacked
    node_name: str = "local"
    cgroup: str = "holdfast"  # parent of the tasks' cgroups
    address: str = ""  # at which the tasks are reachable; empty: the source address of outgoing packets

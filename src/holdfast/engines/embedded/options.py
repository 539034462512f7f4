"""What an admin can choose about the embedded engine."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.core.job import GIB, MIB
from holdfast.disk_space import DiskMarks


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedOptions:
    cpus: float | None = None  # cores to give out; None: as many as there are
    memory: int | None = None  # bytes to give out; None: all there is
    gpus: tuple[int, ...] | None = None  # device indices to give out; None: every one found
    port_start: int = 15000  # inclusive
    port_end: int | None = None  # exclusive; None: see machine.find_port_end
    reserved_ports: frozenset[int] = frozenset()  # of the server itself: never given to a task
    default_shm: int = 64 * MIB
    log_cap: int = 10 * GIB  # bytes kept of each stream
    pids_max: int = 8192  # processes and threads of one task
    unknown_image: str = "fail"  # or "host": run it on the machine's own image
    isolation: str = "auto"  # the least level: "full", "read-only", or "off" for no sandbox at all; see isolation_level
    several_users: bool = False  # tasks belong to people who must not see each other's files
    sandbox_retry: float = 5.0  # seconds between tries to make a sandbox where none can be made
    host_show: tuple[str, ...] = ()  # more of the machine's folders to show, read-only
    library: tuple[str, ...] = ()  # folders of Python packages that every task is to have
    hidden: tuple[str, ...] = ()  # more paths no task may see, such as the server's state
    task_bytes: int = 0  # most bytes of a task's own files; 0: no limit
    task_files: int = 0  # most files and folders among them; 0: no limit
    scratch_every: float = 10.0  # seconds between two looks at what a task wrote, where that is limited
    scratch_grace: float = 30.0  # seconds between TERM and KILL of a task that wrote too much
    marks: DiskMarks = field(default_factory=DiskMarks)  # when the disk counts as full: no image is unpacked then
    node_name: str = "local"
    cgroup: str = "holdfast"  # the control group below which those of tasks are made
    address: str = ""  # at which others reach the tasks; empty: where the machine's network route begins

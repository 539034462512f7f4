"""The contract of every engine.

An engine runs task attempts. It knows no jobs, retries, users or store. Everything is keyed by the attempt id, from
which every outside name (folder, container, pod) is derived: so a second start is harmless, and a restarted server
finds its tasks again without a record of them. All methods may be called again after a crash at any point.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, Protocol, runtime_checkable

from holdfast.core.attempt import Observation
from holdfast.core.conditions import Condition
from holdfast.core.errors import UserError
from holdfast.core.job import Mount, Resources
from holdfast.core.metrics.samples import GpuState, Reading
from holdfast.core.scheduling.placement import Node
from holdfast.core.volumes import LOCAL_KINDS, VolumeKind

# Shell options of every POSIX shell; others are dropped where there is no bash.
POSIX_SHELL_OPTIONS = frozenset(
    {"allexport", "errexit", "ignoreeof", "monitor", "noclobber", "noexec", "noglob", "nounset", "verbose", "xtrace"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSpec:
    """Everything needed to start one task attempt. It contains secrets: never store or log it.

    `task_program.build_task_program` makes files and a command of it; an engine adds mounts and limits.
    """

    attempt_id: str
    job_id: str
    task: str  # worker-0
    user: str
    group: str
    image: str
    script: str  # the user's commands, one shell script
    shell_options: tuple[str, ...]
    env: Mapping[str, str]
    resources: Resources
    engine: str = ""  # the one that starts it; empty: the default one
    secret_env: frozenset[str] = frozenset()  # the variables with secret values: keep them where others cannot read
    node: str | None = None  # where it is placed; None: the engine chooses
    gpus: tuple[int, ...] = ()  # numbers of its devices on that node; see leaves_gpus_to_engine
    ports: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    port_counts: Mapping[str, int] = field(default_factory=dict)  # label -> number of ports that the engine chooses
    # Attempt ids of all tasks that were placed together with it, in the job's order, with its own; empty: placed alone.
    # An engine that queues tasks starts all of them or none.
    gang: tuple[str, ...] = ()
    time_limit: float | None = None  # max seconds that its job may run; None: unlimited
    engine_options: Mapping[str, str] = field(default_factory=dict)  # the job's options for the engine's own system
    mounts: tuple[Mount, ...] = ()
    workdir: str | None = None
    scratch: int | None = None  # max bytes in its home; a task with more is stopped, with SCRATCH_FULL
    entry: str = ""  # a script that runs in place of `script` and gets its path as $1; it honours shell_options
    hold: bool = False  # when its command fails, keep the task and report Seen.HELD
    as_image_user: bool = True  # run as the user in the image's configuration; False: always as root

    @property
    def leaves_gpus_to_engine(self) -> bool:
        """Whether the engine chooses `resources.gpu` devices."""
        return not self.gpus and self.resources.gpu > 0


NO_LIMITS = "none"  # memory and CPU of tasks are not limited


class Isolation(StrEnum):
    FULL = "full"  # own namespaces, private writable root filesystem
    READ_ONLY = "read-only"  # own namespaces, read-only root with some writable folders
    NONE = "none"  # plain processes: every job sees what the server's user sees


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineHealth:
    """What this engine guarantees on this machine, for `doctor` and the portal."""

    name: str
    isolation: Isolation
    limits: str  # "cgroup v2", "cgroup v1", "watched" or NO_LIMITS
    notes: tuple[str, ...] = ()  # each a sentence: a limitation and its remedy
    conditions: tuple[Condition, ...] = ()  # what blocks task starts, if anything
    volume_kinds: frozenset[VolumeKind] = LOCAL_KINDS  # what it can mount; see core.volumes.is_mountable
    has_host_image: bool = True  # whether tasks can run on the machine's own root filesystem


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSummary:
    name: str
    size: int | None  # bytes on disk; None for the host image
    created_at: datetime | None
    source: str  # its origin, for display
    pulled: bool = False  # from a registry: it can be pulled again
    used_at: datetime | None = None  # last start of a task on it, or its pull; only of pulled images
    engine: str = ""  # whose image it is, if there are several engines


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryCredentials:
    username: str
    password: str = field(repr=False)


class PullPhase(StrEnum):
    RESOLVING = "resolving"  # asking the registry for the manifest
    DOWNLOADING = "downloading"
    UNPACKING = "unpacking"


@dataclass(frozen=True, slots=True, kw_only=True)
class PullProgress:
    phase: PullPhase = PullPhase.RESOLVING
    done: int = 0  # bytes of layers
    total: int = 0  # bytes of layers that are not here yet; 0: unknown


class PullFailure(StrEnum):
    NOT_FOUND = "not-found"
    DENIED = "denied"
    RATE_LIMITED = "rate-limited"
    NO_SPACE = "no-space"
    WRONG_ARCHITECTURE = "wrong-architecture"
    UNREACHABLE = "unreachable"
    INVALID = "invalid"  # a name, manifest or layer that cannot be used
    NO_SHELL = "no-shell"


_TRANSIENT_FAILURES = frozenset({PullFailure.RATE_LIMITED, PullFailure.UNREACHABLE, PullFailure.NO_SPACE})


class PullError(UserError):
    """An image that cannot be pulled; the text says why, to the user."""

    code = "image_pull_failed"

    def __init__(
        self,
        kind: PullFailure,
        message: str,
        *,
        hint: str | None = None,
        retry_at: datetime | None = None,
        is_permanent: bool = False,
    ) -> None:
        super().__init__(message, field="image", hint=hint)
        self.kind = kind
        self.is_transient = kind in _TRANSIENT_FAILURES and not is_permanent  # a later try may work
        self.retry_at = retry_at  # when the registry accepts requests again, if it says so


@runtime_checkable
class SupportsImagePulls(Protocol):
    """An engine that gets images from registries by their names."""

    def has_image(self, name: str) -> bool:
        """Return whether any job can use the image without a pull. It does not block. False for an image that was
        pulled with credentials: `pull_image` checks whether others have access to it, too."""
        ...

    async def pull_image(
        self,
        name: str,
        credentials: RegistryCredentials | None = None,
        on_progress: Callable[[PullProgress], None] | None = None,
    ) -> ImageSummary:
        """Pull the image unless it is there and these credentials give access to it. Raises PullError. `on_progress` is
        called on the event loop. Cancelled, or after a crash, the next call continues where this one stopped."""
        ...

    def is_private_image(self, name: str) -> bool:
        """Return whether the image is there, but was pulled with credentials. Others must prove their access, too."""
        ...

    async def check_image_access(self, name: str, credentials: RegistryCredentials | None = None) -> None:
        """Check that these credentials give access to it in its registry; PullError if not. Nothing is pulled."""
        ...

    async def remove_image(self, name: str) -> bool:
        """Return False if there was none. Running tasks keep it."""
        ...


class LogStream(StrEnum):
    STDOUT = "stdout"
    STDERR = "stderr"
    MERGED = "merged"


class WrittenRange(NamedTuple):
    """Bytes `start` to `end` of a log, present at `at`: written then or shortly before."""

    start: int
    end: int
    at: datetime


class LogSource(Protocol):
    """One stream of one task attempt as random-access bytes. Offsets never change their meaning."""

    async def get_size(self) -> int: ...

    async def find_first_offset(self) -> int:
        """Return the first offset still kept; above 0 when the size cap dropped older bytes."""
        ...

    async def read(self, start: int, count: int) -> bytes:
        """Return up to `count` bytes from `start`; empty at the end."""
        ...

    async def wait_for_growth(self, size: int, timeout: float) -> bool:
        """Wait until the stream is longer than `size`. False on timeout, and at once when it is complete."""
        ...

    async def is_complete(self) -> bool:
        """Return whether the stream will not grow any more."""
        ...

    async def find_offset(self, when: datetime) -> int:
        """Return an offset at or shortly before the bytes written at `when`; the first offset if unknown."""
        ...

    async def list_write_times(self, start: int, end: int, most: int) -> Sequence[WrittenRange]:
        """Return when the bytes from `start` to `end` were written: ranges in order, at most `most`, so it may end
        early. The time of bytes in no range is unknown."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    columns: int = 80
    rows: int = 24
    term: str = "xterm-256color"


class ExecKind(StrEnum):
    """What to run inside a task."""

    COMMAND = "command"  # `argv`, or a login shell if it is empty
    SFTP = "sftp"  # SFTP version 3 on stdin and stdout; the image need not contain a server
    STACK_DUMP = "stacks"  # a stack trace of `process` by py-spy, as JSON; independent of image and variables


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecCommand:
    """A command to run inside an existing task, beside its own: in its files, its processes and its limits."""

    kind: ExecKind = ExecKind.COMMAND
    argv: tuple[str, ...] = ()
    script: str = ""  # instead of argv: a line for the task's shell, as ssh passes it
    process: int = 0  # in the task's PID namespace, for STACKS
    env: Mapping[str, str] = field(default_factory=dict)  # added to the environment of the task's own command
    terminal: Terminal | None = None  # None: stdin, stdout and stderr are pipes


class ExecRefused(Exception):
    """No command can run inside the task; the text says why, to the user."""


class ExecSession(Protocol):
    """A command that runs inside a task. All methods belong to the event loop; none blocks it."""

    async def read(self) -> bytes:
        """Return the next bytes of stdout, or of its terminal; empty at the end."""
        ...

    async def read_stderr(self) -> bytes:
        """Return the next bytes of stderr; none with a terminal."""
        ...

    async def write(self, data: bytes) -> None:
        """Write to its stdin. Waits while the command does not read; data after its end is dropped."""
        ...

    def close_stdin(self) -> None:
        """Close its stdin. Does nothing with a terminal: type Ctrl-D."""
        ...

    def resize(self, columns: int, rows: int) -> None: ...

    def send_signal(self, number: int) -> None:
        """Send a signal to the command; with a terminal, to its foreground process group."""
        ...

    async def wait(self) -> int:
        """Wait for its exit status: 128+n after signal n. Its background processes may go on."""
        ...

    def close(self) -> None:
        """Hang up: the command gets SIGHUP if it still runs, and its output is dropped. Idempotent."""
        ...


@runtime_checkable
class SupportsMetrics(Protocol):
    """An engine that can measure the usage of tasks."""

    async def measure_tasks(self, attempt_ids: Collection[str]) -> Mapping[str, Reading]:
        """Measure the tasks that run or are held; others are left out. All together, so that shared files are read
        once. The last usage of an ended task comes with its Observation."""
        ...


@dataclass(frozen=True, slots=True)
class TaskDiskUsage:
    """What a task has written to its own files, without logs and mounted folders."""

    bytes: int = 0
    files: int = 0  # and folders
    grown_bytes: int = 0  # since the last measurement
    grown_files: int = 0


@dataclass(frozen=True, slots=True)
class LogUsage:
    bytes: int = 0
    tasks: int = 0


@runtime_checkable
class SupportsStartPreparation(Protocol):
    """An engine that starts a task faster after a notification."""

    def prepare_start(self) -> None:
        """Prepare for a task start within the next seconds. Returns at once."""
        ...


@runtime_checkable
class SupportsChecks(Protocol):
    """An engine that checks other machines in the background."""

    async def complete_checks(self) -> None:
        """Wait until `health` contains the results of all checks that are due."""
        ...


@runtime_checkable
class SupportsDiskLimits(Protocol):
    """An engine that can measure and stop tasks that fill the disk of the state folder."""

    async def measure_disk(self) -> Mapping[str, TaskDiskUsage]:
        """Measure each task that runs or is held, by attempt id. It takes a few seconds at most; tasks not measured by
        then are left out."""
        ...

    async def trim_logs(self, keep: int, wanted: int, *, ended: bool = False) -> int:
        """Drop the oldest bytes of running tasks' logs, the largest first, until `wanted` bytes are freed. Each stream
        keeps its newest `keep` bytes. `ended`: the logs of ended tasks instead, as many as a few seconds allow. Returns
        the number of bytes freed."""
        ...

    async def stop_task_for_full_disk(
        self, attempt_id: str, use: TaskDiskUsage, free: int, grace: float, *, files: bool = False
    ) -> None:
        """Stop a task because the disk is nearly full, with SERVER_DISK_FULL; `free` bytes were left. `files`: the disk
        is nearly out of inodes, and `free` counts those."""
        ...

    def record_disk_full(self, seconds_ago: float = 0.0) -> None:
        """Record that programs could not write at that time. Tasks that failed around that time, or before it while no
        server ran, end with DISK_WAS_FULL."""
        ...

    async def measure_ended_tasks(self, attempt_ids: Collection[str]) -> Mapping[str, int]:
        """Return the disk usage of ended tasks in bytes: their logs, and the files of held tasks."""
        ...

    async def measure_logs_by_job(self, timeout: float) -> tuple[Mapping[str, LogUsage], bool]:
        """Return the disk usage of the logs of removed tasks, by job id, and whether all were counted before the
        timeout."""
        ...


@runtime_checkable
class SupportsGpuStates(Protocol):
    """An engine that can read the state of its GPUs, including those that no task uses."""

    async def read_gpu_states(self) -> Mapping[str, Sequence[GpuState]]:
        """Return the GPUs of each node by its name, without those that do not respond in a few seconds."""
        ...


@runtime_checkable
class SupportsExec(Protocol):
    """An engine that can run commands inside tasks that run or are held."""

    async def open_session(self, attempt_id: str, command: ExecCommand) -> ExecSession:
        """Start a command inside the task. ExecRefused when the task does not exist, or cannot run the command."""
        ...

    async def connect_port(self, attempt_id: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to a listener on that port of the task. ExecRefused when there is none."""
        ...

    async def revive_task(self, launch: LaunchSpec) -> None:
        """Allow sessions in an ended task whose files still exist: with its files, mounts and variables, but without
        its processes and GPUs. Lasts until `stop`. Idempotent."""
        ...

    async def list_processes(self, attempt_id: str) -> Sequence[TaskProcess]:
        """Return its processes, parents before children."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskProcess:
    pid: int  # on this machine
    inner_pid: int  # in the task's PID namespace
    parent: int  # on this machine
    command: tuple[str, ...]  # set by the process: not to be trusted, may be long
    python: bool  # whether it seems to be Python


def ignore_health_change() -> None:
    """Ignore changes of an engine's health."""


class Engine(Protocol):
    name: str

    async def open(
        self, on_change: Callable[[Observation], None], on_health: Callable[[], None] = ignore_health_change
    ) -> None:
        """Get ready. `on_change` is called on the event loop for each task that ends, and for one that starts after
        `start` has returned: a hint that saves polling. It may come twice, and before `start` has returned; `observe`
        catches up on lost ones. `on_health` is called there when `health` changes. An engine that cannot isolate tasks
        as required opens all the same, reports it in `health().conditions`, refuses every start and retries."""
        ...

    async def close(self) -> None:
        """Release everything without touching the tasks: they run on."""
        ...

    def get_health(self) -> EngineHealth: ...

    def list_nodes(self) -> Sequence[Node]:
        """Return the nodes as they are now, with their total capacity and, in `Node.engines`, why one is not available.
        `on_health` is called after each change. An engine that queues and places tasks itself returns one node with a
        `queue_limit`, always: how its launches are built depends on it."""
        ...

    async def list_images(self) -> Sequence[ImageSummary]:
        """Return the images; the last known ones while the engine cannot look."""
        ...

    async def start(self, launch: LaunchSpec) -> Observation:
        """Start it unless it was started before. Returns its state right after: QUEUED, STARTING, RUNNING, EXITED, LOST
        or REFUSED. After an exception it may run or not: the caller retries with the same launch. A member of a `gang`
        may be STARTING until all were passed; after a restart, one that was not submitted is ABSENT."""
        ...

    async def observe(self, attempt_ids: Collection[str]) -> dict[str, Observation]:
        """Return the actual state of each id, not the last one reported. Also starts to watch those that run."""
        ...

    async def append_log(self, attempt_id: str, key: str, text: str) -> None:
        """Add a text to the log of a task that has not ended, unless it was added before under the same key."""
        ...

    async def stop(self, attempt_id: str, grace: float) -> None:
        """Send SIGTERM to the whole process tree, and SIGKILL after `grace` seconds. Returns at once; the end is
        reported by `on_change`. A second call may only shorten the grace period. Harmless if it does not run."""
        ...

    async def remove(self, attempt_id: str) -> None:
        """Free the files and limits of an ended attempt, except its logs."""
        ...

    async def remove_logs(self, attempt_id: str) -> None: ...

    async def list_attempts(self) -> Sequence[str]:
        """Return the ids of all attempts: those that run, and those that ended and were not removed."""
        ...

    def open_log(self, attempt_id: str, stream: LogStream) -> LogSource | None:
        """Return None if there is no such log (never started, or removed)."""
        ...

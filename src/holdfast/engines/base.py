"""The contract every engine keeps.

An engine runs task attempts. It knows no jobs, retries, users or store. Everything is keyed by the attempt id, from
which every outside name (folder, container, pod) is made: so starting twice is harmless, and a restarted server finds
its work again without having remembered anything. All methods may be called again after a crash at any point.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import BinaryIO, NamedTuple, Protocol, runtime_checkable

from holdfast.core.attempt import Observation
from holdfast.core.conditions import Condition
from holdfast.core.job import Mount, Resources
from holdfast.core.messages import msg
from holdfast.core.metrics.samples import GpuState, Reading
from holdfast.core.scheduling.placement import Node

# Shell options that every POSIX shell knows; others are left out where there is no bash.
POSIX_OPTIONS = frozenset(
    {"allexport", "errexit", "ignoreeof", "monitor", "noclobber", "noexec", "noglob", "nounset", "verbose", "xtrace"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Everything needed to start one task attempt. Secrets are already filled in: never store or log it."""

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
    gpus: tuple[int, ...] = ()
    ports: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    workdir: str | None = None
    scratch: int | None = None  # most bytes that its home may hold; one that holds more is stopped, with SCRATCH_FULL
    entry: str = ""  # a script that runs in place of `script` and gets the path of it as $1; it honours shell_options
    hold: bool = False  # when its command fails, keep it as it stands and say so: Seen.HELD


class Isolation(StrEnum):
    FULL = "full"  # own namespaces, private writable root filesystem
    READ_ONLY = "read-only"  # own namespaces, read-only root with writable places
    NONE = "none"  # plain processes: every job can see what the server's user can


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineHealth:
    """What this engine can promise here, for `doctor` and the portal."""

    name: str
    isolation: Isolation
    limits: str  # "cgroup v2", "cgroup v1" or "watched"
    notes: tuple[str, ...] = ()  # each a sentence: what falls short, and what would mend it
    conditions: tuple[Condition, ...] = ()  # what keeps tasks from starting, if anything does


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageInfo:
    name: str
    size: int | None  # bytes on disk; None for the host image
    created_at: datetime | None
    source: str  # where it came from, for people


class Stream(StrEnum):
    STDOUT = "stdout"
    STDERR = "stderr"
    MERGED = "merged"


class Written(NamedTuple):
    """Bytes `start` to `end` of a log, seen to be there at `at`: written then or shortly before."""

    start: int
    end: int
    at: datetime


class LogSource(Protocol):
    """One stream of one task attempt as random-access bytes. Offsets never change their meaning."""

    async def size(self) -> int: ...

    async def first(self) -> int:
        """The first offset still kept; above 0 when the size cap dropped older bytes."""
        ...

    async def read(self, start: int, count: int) -> bytes:
        """Up to `count` bytes from `start`; empty at the end."""
        ...

    async def grown(self, size: int, timeout: float) -> bool:
        """Wait until the stream is longer than `size`. False on timeout, and at once when it is complete."""
        ...

    async def complete(self) -> bool:
        """No more bytes will come."""
        ...

    async def offset_at(self, when: datetime) -> int:
        """An offset at or shortly before what was written at `when`; `first()` when unknown."""
        ...

    async def times(self, start: int, end: int, most: int) -> Sequence[Written]:
        """When the bytes from `start` to `end` were written: pieces in order, at most so many, so it may end early.
        What no piece tells is unknown."""
        ...


class LeftOut(StrEnum):
    """Why something among artifacts was not kept, in words for people."""

    TOO_MANY = msg("above the number of files that are kept")
    TOO_LARGE = msg("above the bytes that are kept")
    NO_ROOM = msg("no room on the disk")
    LINK = msg("links are not followed")
    SPECIAL = msg("not a plain file")
    NAME = msg("a name that is too long or not UTF-8")
    DEEP = msg("nested too deep")
    UNREADABLE = msg("could not be read")


class ArtifactSink(Protocol):
    """Where artifacts go. It alone decides what is kept. Blocking, used by one thread."""

    @property
    def ended(self) -> bool:
        """Nobody waits for more: stop looking."""
        ...

    def take(self, path: tuple[bytes, ...], size: int, open_file: Callable[[], BinaryIO]) -> None:
        """A plain file, by the parts of its path below the folder of artifacts. `open_file` is called if it is wanted,
        and may raise OSError; no more than `size` bytes are read."""
        ...

    def leave(self, path: tuple[bytes, ...], why: LeftOut, count: int = 1) -> None:
        """Something that is no artifact."""
        ...

    def not_counted(self) -> None:
        """There is more than was looked at."""
        ...


class ArtifactsUnavailable(Exception):
    """There is something called artifacts that cannot be collected; says why, to the user."""


@runtime_checkable
class KeepsArtifacts(Protocol):
    """What an engine may do besides: hand over the folder `artifacts` of an ended task's home.

    Such an engine sets `Observation.artifacts` with EXITED when there may be one; finding that out costs next to
    nothing, for every task that ends is asked.
    """

    def collect(self, attempt_id: str, sink: ArtifactSink) -> None:
        """Offer every file of it, in the order of their paths. Called in a thread, for an ended task before `remove`,
        and again after a crash; the task's files stay as they are.

        The folder may be a link, to be read as the task would have read it, and never to lead to anything that the
        task did not see. Below it no link is followed, nor anything opened that is no plain file: others may change
        what is shared while it is looked at. Names that begin with a dot are left out at the top.
        ArtifactsUnavailable when it is no folder; nothing is offered when there is none.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """What somebody sits at."""

    columns: int = 80
    rows: int = 24
    term: str = "xterm-256color"


class Inside(StrEnum):
    """What is to run inside a task."""

    COMMAND = "command"  # `argv`, or a login shell where it is empty
    SFTP = "sftp"  # the file transfer protocol, version 3, on stdin and stdout; the image need not know it
    STACKS = "stacks"  # py-spy's account, in JSON, of `process`; neither the image nor the task's variables have a say


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """To be run inside a task that is there, beside whatever it runs: in its files, its processes and its limits."""

    kind: Inside = Inside.COMMAND
    argv: tuple[str, ...] = ()
    script: str = ""  # in place of argv: a line for the task's shell, as ssh hands it over
    process: int = 0  # as the task numbers it, for STACKS
    env: Mapping[str, str] = field(default_factory=dict)  # on top of what the task's own command was given
    terminal: Terminal | None = None  # None: stdin, stdout and stderr are pipes


class ExecRefused(Exception):
    """Nothing can be run inside; says why, to the user."""


class Session(Protocol):
    """A command that runs inside a task. All methods belong to the event loop; none blocks it."""

    async def read(self) -> bytes:
        """What it wrote next to stdout, or to its terminal; empty at the end."""
        ...

    async def read_errors(self) -> bytes:
        """The same of stderr; with a terminal there is none."""
        ...

    async def write(self, data: bytes) -> None:
        """To its stdin. Waits while it does not read; what comes after its end is dropped."""
        ...

    def end_input(self) -> None:
        """No more will be written. With a terminal this does nothing: type Ctrl-D."""
        ...

    def resize(self, columns: int, rows: int) -> None: ...

    def signal(self, number: int) -> None:
        """To the command; with a terminal, to whatever is in the foreground there."""
        ...

    async def wait(self) -> int:
        """Its exit status: 128+n after signal n. What it started in the background may go on."""
        ...

    def close(self) -> None:
        """Hang up: it gets SIGHUP if it still runs, and nobody reads any more. Harmless twice."""
        ...


@runtime_checkable
class SupportsMetrics(Protocol):
    """What an engine may do besides: tell what tasks use."""

    async def measure(self, attempt_ids: Collection[str]) -> Mapping[str, Reading]:
        """Of those that run or are held; others are left out. All together, so that what they share is looked at once.
        The last figures of one that has ended come with its Observation."""
        ...


@dataclass(frozen=True, slots=True)
class DiskUse:
    """What a task has written to its own files; logs and mounted folders do not count."""

    bytes: int = 0
    files: int = 0  # and folders
    grown_bytes: int = 0  # since it was measured before
    grown_files: int = 0


@dataclass(frozen=True, slots=True)
class LogUse:
    bytes: int = 0
    tasks: int = 0


@runtime_checkable
class PreparesStarts(Protocol):
    """An engine that starts a task sooner when it knows beforehand."""

    def prepare_start(self) -> None:
        """A task may have to be started within the next moments. Returns at once."""
        ...


@runtime_checkable
class LimitsDisk(Protocol):
    """What an engine may do besides: measure and stop what fills the disk of the state folder."""

    async def measure_disk(self) -> Mapping[str, DiskUse]:
        """Of each task that runs or is held with all it has, by attempt id. It takes a few seconds at most; what is
        not counted by then is left out."""
        ...

    async def cut_logs(self, keep: int, wanted: int, *, ended: bool = False) -> int:
        """Drop the oldest bytes of running tasks' logs, the largest first, until `wanted` bytes are freed. Each stream
        keeps its newest `keep` bytes. `ended`: of tasks that have ended instead, as far as a few seconds allow. Returns
        how many were freed."""
        ...

    async def stop_for_disk(
        self, attempt_id: str, use: DiskUse, free: int, grace: float, *, files: bool = False
    ) -> None:
        """Stop a task because the disk is nearly full, with SERVER_DISK_FULL; `free` bytes were left. `files`: it can
        hold almost no more files, and `free` counts those."""
        ...

    def note_disk_full(self, seconds_ago: float = 0.0) -> None:
        """Record that programs could not write at that time. Tasks that failed around it, or before it while no server
        ran, end with DISK_WAS_FULL."""
        ...

    async def measure_ended(self, attempt_ids: Collection[str]) -> Mapping[str, int]:
        """Bytes that ended tasks take on the disk: their logs, and the files of those that are held."""
        ...

    async def scan_logs(self, timeout: float) -> tuple[Mapping[str, LogUse], bool]:
        """What the logs of removed tasks take, by job id; with whether all were counted in so many seconds."""
        ...


@runtime_checkable
class WatchesGpus(Protocol):
    """What an engine may do besides: tell how the GPUs of its machines do, also those that no task has."""

    async def gpus(self) -> Mapping[str, Sequence[GpuState]]:
        """Of each machine, by its name. Without those that do not answer in a few seconds."""
        ...


@runtime_checkable
class SupportsExec(Protocol):
    """What an engine may do besides: run commands inside tasks that run or are held."""

    async def enter(self, attempt_id: str, command: Command) -> Session:
        """ExecRefused when the task is not there, or the command cannot be run in it."""
        ...

    async def connect(self, attempt_id: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """To what listens on that port of the task. ExecRefused when nobody does."""
        ...

    async def revive(self, launch: Launch) -> None:
        """Make an ended task whose files are still there one that can be entered: its files, mounts and variables, but
        none of its processes and no GPUs. It stays until `stop`. Harmless when it is there."""
        ...

    async def processes(self, attempt_id: str) -> Sequence[ProcessInfo]:
        """What runs in it, parents before children."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInfo:
    pid: int  # as this machine numbers it
    inner_pid: int  # as the task does
    parent: int  # as this machine numbers it
    command: tuple[str, ...]  # as its makers named it: not to be trusted, may be long
    python: bool  # it seems to be Python


def ignore_health() -> None:
    """For callers that do not follow an engine's health."""


class Engine(Protocol):
    name: str

    async def open(
        self, on_change: Callable[[Observation], None], on_health: Callable[[], None] = ignore_health
    ) -> None:
        """Get ready. `on_change` is called on the event loop for each task that ends, and for one that starts later
        than `start` answered: a hint that saves polling. It may come twice, and before `start` has returned; one that
        is lost is made up for by `observe`. `on_health` is called there when `health` answers something new. An engine
        that cannot isolate tasks as it must opens all the same, says so in `health().conditions`, refuses every start
        and tries again by itself."""
        ...

    async def close(self) -> None:
        """Let go of everything without touching the tasks: they run on."""
        ...

    def health(self) -> EngineHealth: ...

    def nodes(self) -> Sequence[Node]:
        """What could run here; in total, whatever is in use."""
        ...

    async def images(self) -> Sequence[ImageInfo]: ...

    async def start(self, launch: Launch) -> Observation:
        """Start it unless it was started before. Answers what is seen right after: RUNNING, EXITED, LOST or REFUSED.
        An exception says nothing about whether it runs: the caller tries again with the same launch."""
        ...

    async def observe(self, attempt_ids: Collection[str]) -> dict[str, Observation]:
        """Look at what is there, not at what was heard of it; one answer for each id. Also takes up watching those
        that run."""
        ...

    async def announce(self, attempt_id: str, key: str, text: str) -> None:
        """Add a text to the log of a task that has not ended, unless it was added before under the same key."""
        ...

    async def stop(self, attempt_id: str, grace: float) -> None:
        """Ask the whole tree to end, kill it after `grace` seconds. Returns at once; the end comes by `on_change`.
        A second call may only shorten the grace. Harmless on what is not running."""
        ...

    async def remove(self, attempt_id: str) -> None:
        """Free what an ended attempt holds (files, limits), except its logs."""
        ...

    async def remove_logs(self, attempt_id: str) -> None: ...

    async def list_attempts(self) -> Sequence[str]:
        """Ids of all attempts that are here: those that run, and those that ended and were not removed."""
        ...

    def log(self, attempt_id: str, stream: Stream) -> LogSource | None:
        """None when there is no such log (never started, or removed)."""
        ...

"""The contract every engine keeps.

An engine runs task attempts. It knows no jobs, retries, users or store. Everything is keyed by the attempt id, from
which every outside name (folder, container, pod) is made: so starting twice is harmless, and a restarted server finds
its work again without having remembered anything. All methods may be called again after a crash at any point.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import BinaryIO, NamedTuple, Protocol, runtime_checkable

from holdfast.core.attempt import Observation
from holdfast.core.job import Mount, Resources
from holdfast.core.placement import Node


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

    TOO_MANY = "above the number of files that are kept"
    TOO_LARGE = "above the bytes that are kept"
    NO_ROOM = "no room on the disk"
    LINK = "links are not followed"
    SPECIAL = "not a plain file"
    NAME = "a name that is too long or not UTF-8"
    DEEP = "nested too deep"
    UNREADABLE = "could not be read"


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


class OutOfReach(Exception):
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
        what is shared while it is looked at. Names that begin with a dot are left out at the top. OutOfReach when it
        is no folder; nothing is offered when there is none.
        """
        ...


class Engine(Protocol):
    name: str

    async def open(self, on_change: Callable[[Observation], None]) -> None:
        """Get ready. `on_change` is called on the event loop, once or more, for each task that ends, and for one that
        starts later than `start` answered. The end of a quick task may be told before `start` has returned."""
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
        """Start it unless it was started before. Answers what is seen right after: RUNNING, EXITED, LOST or REFUSED."""
        ...

    async def observe(self, attempt_ids: Collection[str]) -> dict[str, Observation]:
        """Look; one answer for each id. Also takes up watching those that run."""
        ...

    async def stop(self, attempt_id: str, grace: float) -> None:
        """Ask the whole tree to end, kill it after `grace` seconds. Returns at once; the end comes by `on_change`.
        A second call may only shorten the grace. Harmless on what is not running."""
        ...

    async def remove(self, attempt_id: str) -> None:
        """Free what an ended attempt holds (files, limits), except its logs."""
        ...

    async def remove_logs(self, attempt_id: str) -> None: ...

    async def sweep(self, known: Collection[str]) -> Sequence[str]:
        """Stop and remove attempts that exist here and are not `known` to be live; logs stay. Returns their ids."""
        ...

    def log(self, attempt_id: str, stream: Stream) -> LogSource | None:
        """None when there is no such log (never started, or removed)."""
        ...

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
from typing import Protocol

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

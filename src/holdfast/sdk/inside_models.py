"""What the server answers about the inside of tasks, as typed records."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Debugger:
    """A debugger in a task that waits for somebody, or has somebody at it."""

    task: str
    id: str = ""  # within the task
    file: str = ""
    line: int = 0
    function: str = ""
    why: str = ""  # start, breakpoint or crash
    since: datetime | None = None
    until: datetime | None = None  # then it goes on, or ends, by itself
    attached: bool = False  # somebody is at it
    waits: bool = False  # it holds the program up
    port: int | None = None  # told to those who may enter
    token: str | None = None  # the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    function: str
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    id: int = 0
    name: str = ""
    active: bool = False  # it was on a CPU, or about to be
    owns_gil: bool = False
    frames: tuple[Frame, ...] = ()  # the innermost first


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    pid: int  # as the task numbers it
    parent: int = 0
    command: str = ""
    python: bool = False
    state: str = ""
    waits_in: str = ""  # the kernel's name for what it waits for
    threads: tuple[Thread, ...] = ()
    error: str | None = None  # why there are none


@dataclass(frozen=True, slots=True, kw_only=True)
class Stacks:
    job: str
    task: str
    processes: tuple[Process, ...] = ()
    left_out: int = 0  # processes


@dataclass(frozen=True, slots=True, kw_only=True)
class SshLine:
    task: str
    command: str  # to be typed as it is
    user: str = ""
    host: str = ""
    port: int = 22
    held: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SshLines:
    items: tuple[SshLine, ...] = ()
    host_key: str | None = None
    reason: str | None = None  # why there are none


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortKey:
    """Where the SSH gateway is that a key opens until it expires."""

    host: str
    port: int
    host_key: str = ""
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    ticket: str = field(repr=False)
    expires_in: float = 0.0  # seconds
    job: str = ""  # its id: where it leads

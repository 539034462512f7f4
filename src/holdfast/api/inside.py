"""Task access: SSH, debuggers, stack traces."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Literal, TypedDict

from .limits import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Debugger:
    """A debugger in a task."""

    task: str
    id: Annotated[str, "Unique within the task."] = ""
    file: str = ""
    line: int = 0
    function: str = ""
    why: Literal["start", "breakpoint", "crash", ""] = ""
    since: datetime
    until: Annotated[datetime | None, "When it continues or ends on its own."] = None
    attached: Annotated[bool, "A user is attached."] = False
    waits: Annotated[bool, "The program is stopped until a user attaches."] = False
    port: Annotated[int | None, "Null unless you have shell access to the task."] = None
    token: Annotated[str | None, "Token for the port; null unless you have shell access to the task."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    function: str
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    id: int = 0
    name: str = ""
    active: Annotated[bool, "Running or runnable."] = False
    owns_gil: bool = False
    frames: Annotated[tuple[Frame, ...], "The innermost first."] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    pid: Annotated[int, "In the task's PID namespace."]
    parent: Annotated[int, "PID of the parent; 0: not in this list."] = 0
    command: str = ""
    python: bool = False
    state: Annotated[str, "running, sleeping, stopped, ..."] = ""
    waits_in: Annotated[str, "Kernel function it waits in; empty: unknown."] = ""
    threads: Annotated[tuple[Thread, ...], "Threads of a Python program."] = ()
    error: Annotated[str | None, "Why the threads of a Python program are missing."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StackDump:
    job: str
    task: str
    processes: Annotated[tuple[Process, ...], "Parents before children."] = ()
    left_out: Annotated[int, "Number of processes not listed."] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SshCommand:
    task: str
    command: Annotated[str, "The complete ssh command."]
    user: str = ""
    host: str = ""
    port: int = 22
    held: Annotated[bool, "The task failed and is held for debugging."] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SshCommandList:
    items: tuple[SshCommand, ...] = ()
    host_key: Annotated[str | None, "The gateway's public key, on one line."] = None
    reason: Annotated[str | None, "Why the list is empty."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporaryKey:
    """A temporary key for the SSH gateway."""

    host: str
    port: int
    host_key: Annotated[str, "The gateway's public key, on one line."] = ""
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    ticket: str = field(repr=False)
    expires_in: Annotated[float, "Seconds."] = 0.0
    job: Annotated[str, "The id of the job it is valid for."] = ""


class NewTemporaryKey(TypedDict):
    public_key: Annotated[str, "On one line.", Limits(max_length=20_000)]

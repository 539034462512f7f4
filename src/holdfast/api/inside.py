"""The inside of tasks: SSH access, debuggers, stacks."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Literal, TypedDict

from .limits import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Debugger:
    """A debugger in a task, attached or waiting for someone to attach."""

    task: str
    id: Annotated[str, "Unique within the task."] = ""
    file: str = ""
    line: int = 0
    function: str = ""
    why: Literal["start", "breakpoint", "crash", ""] = ""
    since: datetime
    until: Annotated[datetime | None, "When it continues, or ends, by itself."] = None
    attached: Annotated[bool, "Someone is attached to it."] = False
    waits: Annotated[bool, "It stops the program."] = False
    port: Annotated[int | None, "Null unless you may enter the task."] = None
    token: Annotated[str | None, "Required to connect to the port; null unless you may enter the task."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    function: str
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    id: int = 0
    name: str = ""
    active: Annotated[bool, "It was on a CPU, or about to be."] = False
    owns_gil: bool = False
    frames: Annotated[tuple[Frame, ...], "The innermost first."] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    pid: Annotated[int, "In the task's PID namespace."]
    parent: Annotated[int, "PID of the parent; 0: none of these."] = 0
    command: str = ""
    python: bool = False
    state: Annotated[str, "running, sleeping, stopped, ..."] = ""
    waits_in: Annotated[str, "The kernel function it waits in; empty: unknown."] = ""
    threads: Annotated[tuple[Thread, ...], "Of a Python program."] = ()
    error: Annotated[str | None, "Why a Python program has none."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stacks:
    job: str
    task: str
    processes: Annotated[tuple[Process, ...], "Parents before children."] = ()
    left_out: Annotated[int, "How many more processes there are."] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SshLine:
    task: str
    command: Annotated[str, "The complete ssh command."]
    user: str = ""
    host: str = ""
    port: int = 22
    held: Annotated[bool, "The task failed and is held for debugging."] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SshLines:
    items: tuple[SshLine, ...] = ()
    host_key: Annotated[str | None, "The gateway's public key, on one line."] = None
    reason: Annotated[str | None, "Why there are none."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortKey:
    """The SSH gateway that a key opens until it expires."""

    host: str
    port: int
    host_key: Annotated[str, "The gateway's public key, on one line."] = ""
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    ticket: str = field(repr=False)
    expires_in: Annotated[float, "Seconds."] = 0.0
    job: Annotated[str, "The id of the job it is valid for."] = ""


class NewShortKey(TypedDict):
    public_key: Annotated[str, "On one line.", Limits(max_length=20_000)]

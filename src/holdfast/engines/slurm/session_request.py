"""What a session in a task is: the file that describes it, the arguments of its step, its first words. Pure.

The program on the node is `runtime/slurm_session.sh`.
"""

from __future__ import annotations

import platform
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.core.messages import msg
from holdfast.engines.base import ExecCommand, ExecKind, TaskProcess
from holdfast.engines.embedded.exec.task_processes import sort_by_parent
from holdfast.engines.task_program import TaskFile, render_env_file
from holdfast.tcp_listeners import parse_address

from .users import UnixUser

CONNECT_KIND = "connect"
MAX_WELCOME_SIZE = 4096  # bytes
_REFUSALS = {
    "ended": msg("The task has ended."),
    "starting": msg("The task is still being set up. Try again in a moment."),
    "nsenter": msg("This needs the program `nsenter` on the node of the task."),
    "pipe": msg("Cannot open a session in the task: its folder is not writable on the node."),
    "python": msg("This needs Python 3.8 or newer on the node of the task."),
    "machine": msg("Stack dumps need a node with the same architecture as the server."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLocation:
    """The task that a step belongs to."""

    folder: str
    job: int  # number of its job, or of the first component
    offset: int | None = None  # which component of its job; None: it has only one
    node: str
    user: UnixUser | None = None  # that it runs as; None: the server's


def render_step(location: StepLocation, command: Sequence[str], *, terminal: bool = False) -> list[str]:
    """Return the arguments of srun for a step beside the task's own, in its resources."""
    # Quiet: its messages would be in the stderr of the command. Unbuffered: else it holds back an incomplete line.
    options = ["-QQ", f"--jobid={location.job}", "--overlap", "--mem=0", "-N1", "-n1", f"--nodelist={location.node}"]
    if location.offset is not None:
        options.append(f"--het-group={location.offset}")
    return [*options, "--pty" if terminal else "--unbuffered", "/bin/sh", *command]


def render_session_file(command: ExecCommand, argv: Sequence[str], kind: str = "") -> TaskFile:
    """Return the variables of a session as a file for the shell. It contains secrets."""
    env = dict(command.env)
    if command.terminal is not None:
        env["TERM"] = command.terminal.term
    values = {
        "kind": kind or str(command.kind),
        "line": command.script,
        "terminal": "yes" if command.terminal is not None else "",
        "machine": platform.machine() if command.kind is ExecKind.STACK_DUMP else "",
    }
    lines = [f"_holdfast_{name}={shlex.quote(value)}\n" for name, value in values.items()]
    return TaskFile(text=f"{render_env_file(env)}{''.join(lines)}set -- {shlex.join(argv)}\n", mode=0o400, secret=True)


@dataclass(frozen=True, slots=True)
class Welcome:
    """The first words of a session."""

    pid: int = 0  # of its command, or of the process group with it; on the node
    refusal: str = ""
    rest: bytes = b""  # the first output of the command


def parse_welcome(data: bytes, session_id: str) -> Welcome | None:
    """Return the first words; None if they are not complete."""
    before, found, after = data.partition(session_id.encode() + b" ")
    words, end, rest = after.partition(b";")
    if not found or not end:
        return None
    state, _, value = words.decode("ascii", "replace").partition(" ")
    if state == "ready" and value.isdigit():
        return Welcome(pid=int(value), rest=before + rest)
    return Welcome(refusal=_REFUSALS.get(value, value))


def parse_processes(text: str) -> list[TaskProcess]:
    """Return the processes of `slurm_session.sh processes`, parents before children."""
    found: dict[int, TaskProcess] = {}
    for line in text.splitlines():
        words = line.split(" ", 5)
        if len(words) != 6 or not all(word.isdigit() for word in words[:3]):
            continue
        try:
            parts = bytes.fromhex(words[4].replace("-", "")).split(b"\0")
        except ValueError:
            continue
        command = tuple(part.decode("utf-8", "replace") for part in (parts[:-1] if parts[-1] == b"" else parts))
        pid = int(words[0])
        found[pid] = TaskProcess(
            pid=pid,
            inner_pid=int(words[1]),
            parent=int(words[2]),
            command=command or (f"[{words[5]}]",),
            python=words[3] == "yes",
        )
    return sort_by_parent(found)


def parse_listeners(text: str) -> list[str]:
    """Return the addresses of `slurm_session.sh listeners`."""
    found: dict[str, None] = {}
    for word in text.split():
        try:
            found[parse_address(word)] = None
        except (ValueError, OSError):
            continue
    return list(found)

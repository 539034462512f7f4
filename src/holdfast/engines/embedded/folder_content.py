"""Parses the files of a task folder, and derives an `Observation` from them. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from holdfast.core.attempt import Debugger, Observation, ObservedState
from holdfast.core.exits.exit import Cause
from holdfast.core.messages import msg
from holdfast.core.scheduling.placement import format_bytes
from holdfast.engines.sandbox_paths import HOME_PATH
from holdfast.engines.task_user import TaskUser

TICKS_PER_SECOND = 100  # USER_HZ: the unit of start times in /proc, on every Linux
MAX_NOTE_SIZE = 4095  # bytes of a link's target
_MAX_CLAIM_SIZE = 16 * 1024  # bytes
# A retry would fail the same way: a shell for another architecture, without its loader, or not executable.
_SHELL_FAILURE_PATTERN = re.compile(
    r"bwrap: execvp (?P<shell>[^ :]+): (?P<why>Exec format error|No such file or directory|Permission denied"
    r"|Not a directory|Too many levels of symbolic links|Accessing a corrupted shared library)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartNote:
    """What the server records before it spawns the runner."""

    boot: str  # the kernel's boot id: distinguishes a restart of the machine from a killed runner
    at: datetime
    sandbox: bool  # under bubblewrap, whose report is in the claim
    cgroups: tuple[str, ...] = ()
    lower_folders: tuple[str, ...] = ()  # shared folders that its root is mounted on
    warning: str = ""  # it runs, but differs from the request
    memory: int = 0  # bytes, enforced by the server; 0: enforced by the kernel
    home: str = ""  # path of its home in the task's folder; empty: elsewhere, such as in a mount
    scratch: int = 0  # max bytes in its home; 0: unlimited
    hold: bool = False  # when its command fails, the task is held
    gpus: tuple[int, ...] = ()  # indices on the machine
    max_processes: int = 0  # by a resource limit; 0: by a cgroup, or unlimited
    user: TaskUser | None = None  # None: root, or the server's user
    replaces_image: bool = False  # it runs on the image `host`, since its own is missing

    def to_json(self) -> str:
        at = int(self.at.timestamp() * 1000)
        fields = [1, self.boot, at, int(self.sandbox), self.memory, self.cgroups, self.lower_folders, self.warning]
        fields += [self.home, self.scratch, int(self.hold), self.gpus, self.max_processes]
        user = self.user
        fields += [[user.name, user.uid, user.gid, user.groups, user.home] if user else [], int(self.replaces_image)]
        return json.dumps(fields, separators=(",", ":"))


def parse_start_note(text: str) -> StartNote | None:
    """Return None for text that we did not write."""
    try:
        _version, boot, at, sandbox, memory, cgroups, stands_on, warning, *more = json.loads(text)
        # Older releases wrote fewer fields; then any warning was about a missing image.
        known = list(more) + ["", 0, False, (), 0, (), bool(warning)][len(more) :]
        home, scratch, hold, gpus, max_processes, user, replaces_image = known
        return StartNote(
            boot=str(boot),
            at=datetime.fromtimestamp(at / 1000, UTC),
            sandbox=bool(sandbox),
            memory=int(memory),
            cgroups=tuple(map(str, cgroups)),
            lower_folders=tuple(map(str, stands_on)),
            warning=str(warning),
            home=str(home),
            scratch=int(scratch),
            hold=bool(hold),
            gpus=tuple(map(int, gpus)),
            max_processes=int(max_processes),
            user=_parse_user(*user) if user else None,
            replaces_image=bool(replaces_image),
        )
    except (ValueError, TypeError, OverflowError, OSError):
        return None


def _parse_user(name: str, uid: int, gid: int, groups: list[int], home: str) -> TaskUser:
    return TaskUser(name=str(name), uid=int(uid), gid=int(gid), groups=tuple(map(int, groups)), home=str(home))


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The claim file: the runner, bubblewrap's report and the exit."""

    pid: int | None = None  # of the runner
    started: int | None = None  # ticks after boot
    ready: bool = False  # everything before the command succeeded
    init_pid: int | None = None  # the sandbox's first process, as a pid of the machine
    pid_namespace: int | None = None
    command_code: int | None = None  # from bubblewrap: exit code of the command
    code: int | None = None  # from the runner: exit code of its child
    ended: float | None = None  # seconds after boot
    lost: str = ""  # from the server: why its end is unknown


@dataclass(frozen=True, slots=True)
class TaskNotes:
    """What the task reports about itself."""

    code: int | None = None  # exit code of its failed command, if it is held
    debuggers: tuple[Debugger, ...] = ()


class ExcessKind(StrEnum):
    HOME = "home"  # bytes in its home
    BYTES = "bytes"  # bytes in all its files
    FILES = "files"
    SERVER = "server"  # no limit of its own: the server's disk was nearly full
    SERVER_FILES = "server-files"  # the same, of inodes


@dataclass(frozen=True, slots=True)
class DiskExcess:
    """Why a task was stopped for its disk usage: the usage, and the limit or the free space."""

    kind: ExcessKind
    held: int
    limit: int

    def to_text(self) -> str:
        return f"{self.kind} {self.held} {self.limit}"

    @property
    def cause(self) -> Cause:
        if self.kind is ExcessKind.HOME:
            return Cause.SCRATCH_FULL
        own = self.kind in (ExcessKind.BYTES, ExcessKind.FILES)
        return Cause.DISK_LIMIT if own else Cause.SERVER_DISK_FULL


def parse_excess(text: str) -> DiskExcess:
    """Parse it; older releases wrote only the bytes in its home."""
    try:
        if " " not in text:
            return DiskExcess(ExcessKind.HOME, max(1, int(text)), 0)
        kind, held, limit = text.split()
        return DiskExcess(ExcessKind(kind), max(1, int(held)), int(limit))
    except ValueError:
        return DiskExcess(ExcessKind.HOME, 1, 0)


def parse_claim(data: bytes) -> Claim:
    """Parse the claim, without an unfinished last line."""
    fields: dict[str, Any] = {}
    for line in data[:_MAX_CLAIM_SIZE].split(b"\n")[:-1]:
        try:
            fields.update(_parse_claim_line(line))
        except (ValueError, TypeError, KeyError, RecursionError):
            continue
    return Claim(**fields)


def _parse_claim_line(line: bytes) -> dict[str, Any]:
    if line.startswith(b"run "):
        pid, started = line[4:].split()
        return {"pid": int(pid), "started": int(started)}
    if line.startswith(b"end "):
        code, ended_at = line[4:].split()
        return {"code": int(code), "ended": float(ended_at)}
    if line.startswith(b"lost "):
        return {"lost": line[5:].decode("ascii", "replace")}
    if line == b"ready":
        return {"ready": True}
    return _parse_report(json.loads(line)) if line.startswith(b"{") else {}


def _parse_report(report: dict[str, Any]) -> dict[str, Any]:
    """Parse a report of bubblewrap."""
    if "child-pid" in report:
        return {"init_pid": int(report["child-pid"]), "pid_namespace": int(report["pid-namespace"])}
    return {"command_code": int(report["exit-code"])}


def build_running_observation(attempt_id: str, note: StartNote | None, claim: Claim, uptime: float) -> Observation:
    elapsed = None if claim.started is None else max(0.0, uptime - claim.started / TICKS_PER_SECOND)
    return Observation(
        attempt_id=attempt_id,
        seen=ObservedState.RUNNING,
        started_at=note.at if note else None,
        elapsed=elapsed,
        warning=note.warning if note else "",
    )


def add_notes(
    running: Observation, start: StartNote | None, notes: TaskNotes, was_out_of_memory: Callable[[], bool]
) -> Observation:
    """Add what the task reports about itself. Only a task that was started with `hold` can be held."""
    if notes.code is None or start is None or not start.hold:
        return replace(running, debuggers=notes.debuggers)
    oom = was_out_of_memory()
    return replace(running, seen=ObservedState.HELD, code=notes.code, oom=oom, debuggers=notes.debuggers)


def build_ended_observation(
    attempt_id: str,
    note: StartNote | None,
    claim: Claim,
    *,
    oom: bool,
    complaint: str,
    killed: bool = False,
    excess: DiskExcess | None = None,
    artifacts: bool = False,
) -> Observation:
    """Return the observation of an attempt whose runner has recorded its exit. `complaint`: the beginning of its
    stderr. `killed`: whether we killed its sandbox. `excess`: its disk usage, if it was stopped for that."""
    sandboxed = note is None or note.sandbox
    code = claim.command_code if sandboxed or not claim.ready else claim.code
    if code is None and (oom or (killed and (claim.code or 0) > 128)):
        code = claim.code  # bubblewrap itself was killed
    elapsed = _compute_elapsed(claim)
    seen = Observation(
        attempt_id=attempt_id,
        seen=ObservedState.EXITED,
        started_at=note.at if note else None,
        finished_at=note.at + timedelta(seconds=elapsed) if note and elapsed is not None else None,
        elapsed=elapsed,
        code=code,
        oom=oom,
        warning=note.warning if note else "",
    )
    if code is not None and note is not None and excess is not None:
        return replace(seen, cause=excess.cause, message=_describe_excess(note, excess), artifacts=artifacts)
    if code is not None:
        return replace(seen, artifacts=artifacts)
    if claim.code is not None and claim.code > 128:
        text = msg("The sandbox was killed from outside the task (signal {signal})", signal=claim.code - 128)
        return replace(seen, seen=ObservedState.LOST, message=text, cause=Cause.LOST)
    unusable = _SHELL_FAILURE_PATTERN.search(complaint)
    if unusable is not None:
        text = msg(
            "The image cannot run on this machine: its shell {shell} does not start ({why})",
            shell=unusable["shell"],
            why=unusable["why"],
        )
        return replace(seen, seen=ObservedState.REFUSED, message=text, cause=Cause.NO_SHELL)
    text = msg(
        "The sandbox failed to start: {output}", output=complaint.strip() or msg("exit code {code}", code=claim.code)
    )
    return replace(seen, seen=ObservedState.LOST, message=text, cause=Cause.SANDBOX_FAILED)


def build_dead_observation(attempt_id: str, note: StartNote | None, claim: Claim, boot: str) -> Observation:
    """Return the observation of an attempt whose claim is not locked and has no exit."""
    restarted = note is not None and note.boot != boot
    if claim.pid is None and not restarted:
        return Observation(attempt_id=attempt_id, seen=ObservedState.ABSENT)
    message = (
        msg("The machine restarted while the task was running")
        if restarted
        else msg("The process that runs the task was killed")
    )
    started = note.at if note else None
    return Observation(
        attempt_id=attempt_id, seen=ObservedState.LOST, started_at=started, message=message, cause=Cause.LOST
    )


def _describe_excess(note: StartNote, excess: DiskExcess) -> str:
    if excess.kind is ExcessKind.FILES:
        return msg(
            "The task wrote {held} files; the limit is {limit}", held=f"{excess.held:,}", limit=f"{excess.limit:,}"
        )
    if excess.kind is ExcessKind.BYTES:
        return msg(
            "The task wrote {held}; the limit is {limit}",
            held=format_bytes(excess.held),
            limit=format_bytes(excess.limit),
        )
    if excess.kind is ExcessKind.SERVER_FILES:
        had = msg("this task wrote {held} files", held=f"{excess.held:,}")
        return msg(
            "Stopped because the server's disk was nearly out of inodes ({limit} free); {usage}",
            limit=f"{excess.limit:,}",
            usage=had,
        )
    if excess.kind is ExcessKind.SERVER:
        had = msg("this task wrote {held}", held=format_bytes(excess.held))
        return msg(
            "Stopped because the server's disk was nearly full ({limit} free); {usage}",
            limit=format_bytes(excess.limit),
            usage=had,
        )
    where = HOME_PATH if note.sandbox else msg("The task's home folder")
    return msg(
        "{where} uses {held} of disk space; the limit is {limit}",
        where=where,
        held=format_bytes(excess.held),
        limit=format_bytes(excess.limit or note.scratch),
    )


def _compute_elapsed(claim: Claim) -> float | None:
    if claim.ended is None or claim.started is None:
        return None
    return max(0.0, claim.ended - claim.started / TICKS_PER_SECOND)

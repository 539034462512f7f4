"""What the files of a task folder say: bytes in, facts and an `Observation` out. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from holdfast.core.attempt import Debugger, Observation, Seen
from holdfast.core.exits.exit import Cause
from holdfast.core.messages import msg
from holdfast.core.scheduling.placement import show_bytes

from .sandbox_paths import HOME

TICKS = 100  # USER_HZ: the unit of start times in /proc, on every Linux
_MAX_CLAIM_SIZE = 16 * 1024
# Another try would find the same: a shell for another architecture, without its loader, or that may not be executed.
_SHELL_FAILED = re.compile(
    r"bwrap: execvp (?P<shell>[^ :]+): (?P<why>Exec format error|No such file or directory|Permission denied"
    r"|Not a directory|Too many levels of symbolic links|Accessing a corrupted shared library)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartNote:
    """What the server wrote down before it spawned the runner."""

    boot: str  # the kernel's boot id: tells a restart of the machine from a killed runner
    at: datetime
    sandbox: bool  # under bubblewrap, whose report the claim then holds
    cgroups: tuple[str, ...] = ()
    stands_on: tuple[str, ...] = ()  # folders shared with other tasks that its root is mounted on
    warning: str = ""  # it runs, but not quite as was asked
    memory: int = 0  # bytes to be enforced from outside; 0: the kernel does it
    home: str = ""  # where in the task's folder its home lies; empty: elsewhere, as when something is mounted there
    scratch: int = 0  # most bytes that its home may hold; 0: not watched
    hold: bool = False  # when its command fails it stands still, and says so
    gpus: tuple[int, ...] = ()  # as the machine numbers them
    max_processes: int = 0  # by a resource limit; 0: a control group limits them, or nothing does

    def render(self) -> str:
        at = int(self.at.timestamp() * 1000)
        fields = [1, self.boot, at, int(self.sandbox), self.memory, self.cgroups, self.stands_on, self.warning]
        fields += [self.home, self.scratch, int(self.hold), self.gpus, self.max_processes]
        return json.dumps(fields, separators=(",", ":"))


def parse_start(text: str) -> StartNote | None:
    """None for anything we did not write."""
    try:
        _version, boot, at, sandbox, memory, cgroups, stands_on, warning, *more = json.loads(text)
        known = list(more) + ["", 0, False, (), 0][len(more) :]  # older releases wrote fewer
        home, scratch, hold, gpus, max_processes = known
        return StartNote(
            boot=str(boot),
            at=datetime.fromtimestamp(at / 1000, UTC),
            sandbox=bool(sandbox),
            memory=int(memory),
            cgroups=tuple(map(str, cgroups)),
            stands_on=tuple(map(str, stands_on)),
            warning=str(warning),
            home=str(home),
            scratch=int(scratch),
            hold=bool(hold),
            gpus=tuple(map(int, gpus)),
            max_processes=int(max_processes),
        )
    except (ValueError, TypeError, OverflowError, OSError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The claim file: who runs it, what bubblewrap reported, how it ended."""

    pid: int | None = None  # of the runner
    started: int | None = None  # ticks after boot
    ready: bool = False  # everything before the command went well
    init_pid: int | None = None  # the sandbox's first process, as the machine numbers it
    pid_namespace: int | None = None
    command_code: int | None = None  # by bubblewrap: the command itself ended
    code: int | None = None  # by the runner: whatever it ran ended
    ended: float | None = None  # seconds after boot


@dataclass(frozen=True, slots=True)
class Notes:
    """What the task told itself."""

    code: int | None = None  # its command failed with it, and it stands still
    debuggers: tuple[Debugger, ...] = ()


class ExcessKind(StrEnum):
    HOME = "home"  # bytes in its home
    BYTES = "bytes"  # bytes in all its files
    FILES = "files"
    SERVER = "server"  # no limit of its own: the server's disk was nearly full
    SERVER_FILES = "server-files"  # the same, of files


@dataclass(frozen=True, slots=True)
class DiskExcess:
    """Why a task was stopped for what it wrote: how much there was, and the limit, or what was free on the disk."""

    kind: ExcessKind
    held: int
    limit: int

    def render(self) -> str:
        return f"{self.kind} {self.held} {self.limit}"

    @property
    def cause(self) -> Cause:
        if self.kind is ExcessKind.HOME:
            return Cause.SCRATCH_FULL
        own = self.kind in (ExcessKind.BYTES, ExcessKind.FILES)
        return Cause.DISK_LIMIT if own else Cause.SERVER_DISK_FULL


def parse_excess(text: str) -> DiskExcess:
    """Older releases wrote the bytes in its home alone."""
    try:
        if " " not in text:
            return DiskExcess(ExcessKind.HOME, max(1, int(text)), 0)
        kind, held, limit = text.split()
        return DiskExcess(ExcessKind(kind), max(1, int(held)), int(limit))
    except ValueError:
        return DiskExcess(ExcessKind.HOME, 1, 0)


def parse_claim(data: bytes) -> Claim:
    """A line without its newline was not finished, so it was not said."""
    fields: dict[str, Any] = {}
    for line in data[:_MAX_CLAIM_SIZE].split(b"\n")[:-1]:
        try:
            fields.update(_said(line))
        except (ValueError, TypeError, KeyError, RecursionError):
            continue
    return Claim(**fields)


def _said(line: bytes) -> dict[str, Any]:
    if line.startswith(b"run "):
        pid, started = line[4:].split()
        return {"pid": int(pid), "started": int(started)}
    if line.startswith(b"end "):
        code, ended_at = line[4:].split()
        return {"code": int(code), "ended": float(ended_at)}
    if line == b"ready":
        return {"ready": True}
    return _reported(json.loads(line)) if line.startswith(b"{") else {}


def _reported(report: dict[str, Any]) -> dict[str, Any]:
    """By bubblewrap."""
    if "child-pid" in report:
        return {"init_pid": int(report["child-pid"]), "pid_namespace": int(report["pid-namespace"])}
    return {"command_code": int(report["exit-code"])}


def running(attempt_id: str, note: StartNote | None, claim: Claim, uptime: float) -> Observation:
    elapsed = None if claim.started is None else max(0.0, uptime - claim.started / TICKS)
    return Observation(
        attempt_id=attempt_id,
        seen=Seen.RUNNING,
        started_at=note.at if note else None,
        elapsed=elapsed,
        warning=note.warning if note else "",
    )


def with_notes(
    running: Observation, start: StartNote | None, notes: Notes, was_out_of_memory: Callable[[], bool]
) -> Observation:
    """What it tells itself, on top of what is seen from outside. That it stands still is believed of those alone that
    were started so."""
    if notes.code is None or start is None or not start.hold:
        return replace(running, debuggers=notes.debuggers)
    oom = was_out_of_memory()
    return replace(running, seen=Seen.HELD, code=notes.code, oom=oom, debuggers=notes.debuggers)


def ended(
    attempt_id: str,
    note: StartNote | None,
    claim: Claim,
    *,
    oom: bool,
    complaint: str,
    excess: DiskExcess | None = None,
    artifacts: bool = False,
) -> Observation:
    """An attempt whose runner wrote its last line. `complaint`: the first words on its stderr. `excess`: what it wrote,
    if it was stopped for that."""
    sandboxed = note is None or note.sandbox
    code = claim.command_code if sandboxed or not claim.ready else claim.code
    if code is None and oom:
        code = claim.code  # bubblewrap itself was the victim
    elapsed = _elapsed(claim)
    seen = Observation(
        attempt_id=attempt_id,
        seen=Seen.EXITED,
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
        text = msg("The sandbox was killed from outside (signal {x1})", x1=claim.code - 128)
        return replace(seen, seen=Seen.LOST, message=text, cause=Cause.LOST)
    unusable = _SHELL_FAILED.search(complaint)
    if unusable is not None:
        text = msg(
            "The image cannot run here: its shell {shell} does not start ({why})",
            shell=unusable["shell"],
            why=unusable["why"],
        )
        return replace(seen, seen=Seen.REFUSED, message=text, cause=Cause.NO_SHELL)
    text = msg(
        "The sandbox could not be set up: {complaint}",
        complaint=complaint.strip() or msg("exit code {code}", code=claim.code),
    )
    return replace(seen, seen=Seen.LOST, message=text, cause=Cause.SANDBOX_FAILED)


def not_alive(attempt_id: str, note: StartNote | None, claim: Claim, boot: str) -> Observation:
    """Nobody holds the claim and no end is written."""
    restarted = note is not None and note.boot != boot
    if claim.pid is None and not restarted:
        return Observation(attempt_id=attempt_id, seen=Seen.ABSENT)
    message = msg("The machine was restarted while it ran") if restarted else msg("The process that ran it was killed")
    started = note.at if note else None
    return Observation(attempt_id=attempt_id, seen=Seen.LOST, started_at=started, message=message, cause=Cause.LOST)


def _describe_excess(note: StartNote, excess: DiskExcess) -> str:
    if excess.kind is ExcessKind.FILES:
        return msg(
            "It had written {held} files; at most {limit} are allowed",
            held=f"{excess.held:,}",
            limit=f"{excess.limit:,}",
        )
    if excess.kind is ExcessKind.BYTES:
        return msg(
            "It had written {held}; at most {limit} are allowed",
            held=show_bytes(excess.held),
            limit=show_bytes(excess.limit),
        )
    if excess.kind is ExcessKind.SERVER_FILES:
        had = msg("this task had written {held} files", held=f"{excess.held:,}")
        return msg(
            "Stopped because the server's disk could hold almost no more files ({limit} left); {had}",
            limit=f"{excess.limit:,}",
            had=had,
        )
    if excess.kind is ExcessKind.SERVER:
        had = msg("this task had written {held}", held=show_bytes(excess.held))
        return msg(
            "Stopped because the server's disk was nearly full ({limit} free); {had}",
            limit=show_bytes(excess.limit),
            had=had,
        )
    where = HOME if note.sandbox else msg("Its home folder")
    return msg(
        "{where} held {held}; at most {limit} are allowed",
        where=where,
        held=show_bytes(excess.held),
        limit=show_bytes(excess.limit or note.scratch),
    )


def _elapsed(claim: Claim) -> float | None:
    if claim.ended is None or claim.started is None:
        return None
    return max(0.0, claim.ended - claim.started / TICKS)

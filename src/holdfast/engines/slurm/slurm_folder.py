"""The folder of a task, which the server and all nodes see at the same path. Blocking: call it from a thread.

The node's programs write to `report`: which job and node run the task, its heartbeat, its usage, its ports, its exit.
The server writes `claim` once, when it knows how the task ended: it stays in the archive, and keeps the task from being
run.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice

from holdfast.core.errors import sanitize_output
from holdfast.engines.embedded.folder_content import StartNote, TaskNotes
from holdfast.engines.embedded.lifecycle.notes import read_notes
from holdfast.engines.embedded.task_folder import KILLED_FILE, TaskFolder
from holdfast.engines.runner_report import RunnerReport, parse_report
from holdfast.engines.task_program import NOTES_FOLDER, REPORT_FOLDER, SECRET_FILES

from .isolation.node_isolation import ISOLATION_FILE, REFUSAL_FILE
from .task_end import Allocation, EndRecord, parse_end_record
from .usage import MAX_USAGE_SIZE, USAGE_FILE
from .users.unix_user import UnixUser, parse_owner

HOME_FOLDER = "scratch"  # where lifecycle.task_paths expects the home of a task without a sandbox
INNER_FOLDER = "inner"  # the report folder of an isolated task, as it sees it; programs outside never write to it
USER_FOLDERS = (HOME_FOLDER, INNER_FOLDER, NOTES_FOLDER, REPORT_FOLDER)  # those that its user writes to
OWNER_FILE = "owner"  # the Unix user of the task, unless it is the server's
GANG_FILE = "gang"  # attempt ids of its gang
_READ_NAMES = frozenset({"claim", OWNER_FILE, GANG_FILE, KILLED_FILE})  # files in its folder that it may not have
_SERVER_CLAIM = "server\n"
_MAX_RUN = timedelta(seconds=10**9)  # that a report can say
_MAX_REPORT_SIZE = 16 * 1024  # bytes
_REPORTS = {  # bytes that are read of each
    "allocation": 2048, "claim": _MAX_REPORT_SIZE, "heartbeat": 100, "step": 100, "oom": 100, "incomplete": 1,
}  # fmt: skip
_ALLOCATION_PATTERN = re.compile(
    r"run ([0-9]{1,10}) ([0-9]{1,4}) (-|[0-9]{1,10}) "
    r"([A-Za-z0-9_][A-Za-z0-9._-]{0,254}) "  # no path: a file is named after the node
    r"\S{1,64} ([0-9]{1,9}(?:\.[0-9]{1,6})?) (\S{1,1000})\n"
)
_UPTIME_PATTERN = re.compile(rb"[0-9]{1,9}(?:\.[0-9]{1,6})?\n?")
_RANGE_PATTERN = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", re.ASCII)
_PORTS_PATTERN = re.compile(r"(\S{1,100}) ([0-9,-]{1,10000})", re.ASCII)
_MAX_NUMBERS = 1000  # of GPUs, or of ports with one label
_MAX_ENTRIES = 1000  # of its report folder that are read: its user can create any number


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts:
    """What the files of a task say."""

    attempt_id: str
    exists: bool = False
    end: EndRecord | None = None
    note: StartNote | None = None
    gang: tuple[str, ...] = ()  # empty: alone
    allocation: Allocation | None = None
    report: RunnerReport = field(default_factory=RunnerReport)
    reported_at: float = 0.0  # when the runner reported last, in seconds since 1970, by the clock of the shared folder
    heartbeat: bytes = b""
    step_code: int | None = None  # of its step in a gang, once that is over
    oom: bool = False  # a process was killed for its memory
    gang_incomplete: bool = False  # it waited for the addresses of its gang, and gave up
    notes: TaskNotes = field(default_factory=TaskNotes)
    refusal: str = ""  # why its node did not run it
    stop_code: int | None = None  # the server has signalled it: its exit code, unless the task reports its own
    owner: UnixUser | None = None  # None: the server's user
    recorded_uid: int = -1  # whose job it is, if its files do not exist

    @property
    def leader(self) -> str:
        """The attempt that its job is named after."""
        return self.gang[0] if self.gang else self.attempt_id

    @property
    def offset(self) -> int:
        """Which component of its job it is."""
        return self.gang.index(self.attempt_id) if self.gang else 0

    @property
    def uid(self) -> int:
        """Whose job it is."""
        if not self.exists:
            return self.recorded_uid
        return self.owner.uid if self.owner else os.geteuid()

    @property
    def is_running(self) -> bool:
        is_over = self.report.code is not None or self.step_code is not None or bool(self.refusal)
        return self.end is None and self.allocation is not None and not is_over


@dataclass(frozen=True, slots=True)
class SlurmFolder(TaskFolder):
    def is_alive(self) -> bool:
        """Return whether it may still run: the server has not recorded its end."""
        return self.exists() and self.read_end() is None

    def read_end(self) -> EndRecord | None:
        return parse_end_record(self.read_head("claim", _MAX_REPORT_SIZE))

    def record_end(self, record: EndRecord) -> EndRecord:
        """Record how it ended, unless that was done before; return what is recorded."""
        draft = self[f"claim.{os.urandom(4).hex()}.draft"]  # another server may do the same
        with open(draft, "w", opener=_open_private) as file:
            file.write(record.to_json())
        try:
            os.link(draft, self["claim"])
        except FileExistsError:
            pass
        finally:
            os.unlink(draft)
        return self.read_end() or record

    def take_claim(self) -> bool:
        """Take the claim of the task, so that no node runs it. False if a node was first; True also after an earlier
        call."""
        path = self[f"{REPORT_FOLDER}/allocation"]
        try:
            with open(path, "x", opener=_open_private) as file:
                file.write(_SERVER_CLAIM)
        except FileExistsError:
            return self.read_head(f"{REPORT_FOLDER}/allocation", 100) == _SERVER_CLAIM.encode()
        return True

    def record_stop(self, code: int) -> None:
        """Record that the server signals it, before it does."""
        draft = self[f"{KILLED_FILE}.{os.urandom(4).hex()}.draft"]
        with open(draft, "w", opener=_open_private) as file:
            file.write(f"{code}\n")
        os.rename(draft, self[KILLED_FILE])

    def read_stop_code(self) -> int | None:
        return _parse_code(self.read_head(KILLED_FILE, 100))

    def delete_commands(self) -> None:
        """Delete what may contain secrets, once the task has ended."""
        for name in SECRET_FILES:
            with suppress(OSError):
                os.unlink(self[name])

    def read_owner(self) -> UnixUser | None:
        return parse_owner(self.read_head(OWNER_FILE, 100).decode("ascii", "replace"))

    def read_gang(self) -> tuple[str, ...]:
        try:
            return tuple(str(each) for each in json.loads(self.read_head(GANG_FILE, 1 << 20)))
        except (ValueError, TypeError):
            return ()

    def read_allocation(self) -> Allocation | None:
        return self.parse_allocation(self.read_head(f"{REPORT_FOLDER}/allocation", _REPORTS["allocation"]))

    def parse_allocation(self, data: bytes) -> Allocation | None:
        """`data`: the content of its file, whose time is read."""
        path = self[f"{REPORT_FOLDER}/allocation"]
        found = _ALLOCATION_PATTERN.fullmatch(data.decode("ascii", "replace"))
        if found is None:
            return None
        try:  # its user can set any time
            at = datetime.fromtimestamp(os.lstat(path).st_mtime_ns // 1_000_000 / 1000, UTC)
            at + _MAX_RUN
        except (OSError, ValueError, OverflowError):
            return None
        return Allocation(
            job=int(found[1]),
            step=found[3] if found[3] != "-" else "",
            node=found[4],
            at=at,
            uptime=float(found[5]),
            gpus=_parse_numbers(found[6]),
            ports=self._read_ports(),
        )

    def read_reports(self) -> dict[str, bytes]:
        """Return what its node has written, by file. The folder is listed first: so NFS does not answer from its cache,
        and a task that waits costs one call."""
        try:
            names = _list_names(self[REPORT_FOLDER])
        except OSError:
            return {}
        sizes = {name: size for name in names if (size := _REPORTS.get(name))}
        found = {name: self.read_head(f"{REPORT_FOLDER}/{name}", size) for name, size in sizes.items()}
        return {**found, **self._read_inner_claim()} if "allocation" in found and "claim" not in found else found

    def _read_inner_claim(self) -> dict[str, bytes]:
        """Return the claim of an isolated task, if there is one."""
        try:
            names = _list_names(self[INNER_FOLDER])  # for NFS, too
        except OSError:
            return {}
        return {"claim": self.read_head(f"{INNER_FOLDER}/claim", _MAX_REPORT_SIZE)} if "claim" in names else {}

    def read_refusal(self) -> str:
        """Return why its node did not run it; empty if nothing."""
        return sanitize_output(self.read_head(f"{REPORT_FOLDER}/{REFUSAL_FILE}", _MAX_REPORT_SIZE))

    def read_isolation(self) -> bytes:
        return self.read_head(f"{REPORT_FOLDER}/{ISOLATION_FILE}", 1000)

    def read_claim_time(self) -> float:
        """Return when its runner wrote last; 0 if it has not."""
        times = [0.0]
        for name in (REPORT_FOLDER, INNER_FOLDER):
            with suppress(OSError):
                times.append(os.lstat(self[f"{name}/claim"]).st_mtime)
        return max(times)

    def read_usage(self) -> str:
        """Return what the node has written last about its usage; empty if nothing."""
        return self.read_head(f"{REPORT_FOLDER}/{USAGE_FILE}", MAX_USAGE_SIZE).decode("ascii", "replace")

    def _read_ports(self) -> dict[str, tuple[int, ...]]:
        lines = self.read_head(f"{REPORT_FOLDER}/ports", _MAX_REPORT_SIZE).decode("utf-8", "replace").splitlines()
        found = (_PORTS_PATTERN.fullmatch(line) for line in lines[:_MAX_NUMBERS])
        return {match[1]: _parse_numbers(match[2]) for match in found if match}


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def read_facts(folder: SlurmFolder, attempt_id: str) -> TaskFacts:
    """Return what the files say. Its folder is listed first: most of its files do not exist."""
    try:
        names = set(_list_names(folder.path))
    except (FileNotFoundError, NotADirectoryError):
        return TaskFacts(attempt_id=attempt_id)
    except OSError:  # of one task, which may have changed its permissions
        names = set(_READ_NAMES)
    if len(names) >= _MAX_ENTRIES:
        names |= _READ_NAMES
    end = folder.read_end() if "claim" in names else None
    note = folder.read_start_note()
    owner = folder.read_owner() if OWNER_FILE in names else None
    if end is not None:
        return TaskFacts(attempt_id=attempt_id, exists=True, end=end, note=note, owner=owner)
    reports = folder.read_reports()
    gang = folder.read_gang() if GANG_FILE in names else ()
    return TaskFacts(
        attempt_id=attempt_id,
        exists=True,
        note=note,
        gang=gang if attempt_id in gang else (),
        allocation=folder.parse_allocation(reports["allocation"]) if "allocation" in reports else None,
        report=parse_report(reports.get("claim", b"")),
        refusal=folder.read_refusal() if "allocation" in reports and "claim" not in reports else "",
        reported_at=folder.read_claim_time() if "claim" in reports else 0.0,
        heartbeat=reports.get("heartbeat", b""),
        step_code=_parse_code(reports.get("step", b"")),
        oom=bool(_parse_code(reports.get("oom", b""))),
        gang_incomplete="incomplete" in reports,
        notes=read_notes(folder) if note is not None and note.hold and reports else TaskNotes(),
        stop_code=folder.read_stop_code() if KILLED_FILE in names else None,
        owner=owner,
    )


def _parse_numbers(text: str) -> tuple[int, ...]:
    """Parse `0,2-3`; empty if it is something else, or too much."""
    found: list[int] = []
    for part in text.split(","):
        match = _RANGE_PATTERN.fullmatch(part)
        if match is None or len(found) > _MAX_NUMBERS:
            return ()
        first = int(match[1])
        found += range(first, min(int(match[2] or first), first + _MAX_NUMBERS) + 1)
    return tuple(found[:_MAX_NUMBERS])


def _list_names(path: str) -> list[str]:
    with os.scandir(path) as entries:
        return [entry.name for entry in islice(entries, _MAX_ENTRIES)]


def parse_uptime(data: bytes) -> float | None:
    """Return the seconds after the node's boot that a heartbeat says; None if it says something else."""
    return float(data) if _UPTIME_PATTERN.fullmatch(data) else None


def _parse_code(data: bytes) -> int | None:
    text = data.decode("ascii", "replace").strip()
    return int(text) if text.isdigit() and len(text) < 4 else None

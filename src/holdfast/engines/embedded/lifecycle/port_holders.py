"""Which process listens on a port of this machine. Blocking: runs in a thread, and only once a port is found in use."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from holdfast.core.messages import msg

log = logging.getLogger(__name__)

_LISTENS = "0A"
_TABLES = ("net/tcp", "net/tcp6")
_JOB = b"HOLDFAST_JOB="
_MAX_ENVIRON = 2 * 1024 * 1024  # bytes


@dataclass(frozen=True, slots=True)
class PortHolder:
    pid: int
    program: str  # as it calls itself
    job_id: str  # by its environment, so only a hint; empty: it is none of a job's


def find_holder(port: int, proc: Path = Path("/proc")) -> PortHolder | None:
    """None when nothing listens there, or another user's process does."""
    sockets = {f"socket:[{inode}]" for table in _TABLES for inode in _listening(proc / table, port)}
    if not sockets:
        return None
    for folder in proc.iterdir():
        if folder.name.isdigit() and _has_one(folder / "fd", sockets):
            return PortHolder(int(folder.name), _program(folder), _job(folder))
    return None


def report_port_in_use(port: int, job_id: str) -> str:
    """Say so in the words of the job's events; the server's log names the process and the job."""
    holder = find_holder(port)
    known = {"pid": holder.pid, "program": holder.program, "holder": holder.job_id} if holder else {}
    log.info("a port of a task is in use", extra={"event": "port-in-use", "job": job_id, "port": port, **known})
    return msg("Port {port} is in use on this machine by {holder}.", port=port, holder=describe_holder(holder, job_id))


def describe_holder(holder: PortHolder | None, job_id: str) -> str:
    """For the user of a job, who may not know of jobs of other groups."""
    if holder is None or not holder.job_id:
        return msg("another program")
    return msg("another task of this job") if holder.job_id == job_id else msg("a task of another job")


def _listening(table: Path, port: int) -> list[str]:
    """Inodes of sockets that listen on the port, at any address."""
    try:
        rows = [line.split() for line in table.read_text().splitlines()[1:]]
    except OSError:
        return []
    return [
        row[9]
        for row in rows
        if len(row) > 9 and row[3] == _LISTENS and int(row[1].rpartition(":")[2], 16) == port and row[9] != "0"
    ]


def _has_one(folder: Path, sockets: set[str]) -> bool:
    try:
        names = os.listdir(folder)
    except OSError:  # it has just ended, or is another user's
        return False
    for name in names:
        with suppress(OSError):
            if os.readlink(folder / name) in sockets:
                return True
    return False


def _program(folder: Path) -> str:
    with suppress(OSError):
        return (folder / "comm").read_text(errors="replace").strip()
    return ""


def _job(folder: Path) -> str:
    with suppress(OSError), open(folder / "environ", "rb") as file:
        for variable in file.read(_MAX_ENVIRON).split(b"\0"):
            if variable.startswith(_JOB):
                return variable.removeprefix(_JOB).decode("utf-8", "replace")
    return ""

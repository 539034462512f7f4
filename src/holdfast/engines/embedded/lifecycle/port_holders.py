"""Finds the process that listens on a port of this machine. Blocking: runs in a thread, only for a port in use."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass

from holdfast.core.messages import msg
from holdfast.tcp_listeners import list_tcp_listeners

from ..metrics.cgroup_metrics import read_kernel_file
from ..metrics.process_metrics import iter_descriptor_targets, parse_socket_inode
from ..processes import list_all_pids, read_process_variable

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PortHolder:
    pid: int
    program: str  # the process's own name
    job_id: str  # from its environment, so only a hint; empty: not of a job


def find_port_holder(port: int) -> PortHolder | None:
    """Return None if no process, or another user's process, listens there."""
    inodes = {each.inode for each in list_tcp_listeners(port)}
    for pid in list_all_pids() if inodes else ():
        with suppress(OSError):  # it has just exited, or belongs to another user
            if not inodes.isdisjoint(map(parse_socket_inode, iter_descriptor_targets([pid]))):
                program = read_kernel_file(f"/proc/{pid}/comm").decode("utf-8", "replace").strip()
                return PortHolder(pid, program, read_process_variable(pid, "HOLDFAST_JOB"))
    return None


def report_port_in_use(port: int, job_id: str) -> str:
    """Return the text for the job's events; log the process and the job."""
    holder = find_port_holder(port)
    known = {"pid": holder.pid, "program": holder.program, "holder": holder.job_id} if holder else {}
    log.info("a port of a task is in use", extra={"event": "port-in-use", "job": job_id, "port": port, **known})
    return msg(
        "Port {port} is in use on this machine by {holder}.", port=port, holder=describe_port_holder(holder, job_id)
    )


def describe_port_holder(holder: PortHolder | None, job_id: str) -> str:
    """Describe it to the user of a job, who must not learn of other groups' jobs."""
    if holder is None or not holder.job_id:
        return msg("another program")
    return msg("another task of this job") if holder.job_id == job_id else msg("a task of another job")

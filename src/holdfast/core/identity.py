"""Identifiers that OpenPAI's clients and programs use, derived from ours; none of them is stored."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from uuid import UUID, uuid5

_UID_NAMESPACE = UUID("6f1d3c1e-5c0f-5b5e-9a53-0c6a2c1d7b11")  # never change it: UIDs must stay stable
_NON_ALPHANUMERIC_PATTERN = re.compile(r"[^a-z0-9]")


def build_framework_name(user: str, name: str) -> str:
    """Return a job's full name. User names contain no tilde, so it can be split again."""
    return f"{user}~{name}"


def build_debug_id(user: str, name: str) -> str:
    """Return the name that OpenPAI's components use for the job."""
    return hashlib.md5(build_framework_name(user, name).encode(), usedforsecurity=False).hexdigest()


def normalize_role(role: str) -> str:
    """Reduce to lower case letters and digits. Two roles can have the same result: see `build_unique_role_names`."""
    return _NON_ALPHANUMERIC_PATTERN.sub("", role.lower())


def build_unique_role_names(roles: Iterable[str]) -> dict[str, str]:
    """Return a unique plain name for each role of a job.

    A role that is plain already keeps its name, so no role's plain name is the real name of another. Among the others,
    the first to result in a name gets it; a later one, or an empty one, gets a number appended.
    """
    wanted = {role: normalize_role(role) for role in roles}
    found = {role: plain for role, plain in wanted.items() if role == plain}
    taken = {*wanted.values(), ""}
    given = {*found.values(), ""}
    for role, plain in wanted.items():
        if role not in found:
            found[role] = plain if plain not in given else _append_unused_number(plain or "role", taken | given)
            given.add(found[role])
    return {role: found[role] for role in wanted}


def build_framework_uid(job_id: str) -> str:
    return _build_uid("framework", job_id)


def build_attempt_uid(job_id: str, attempt: int) -> str:
    return _build_uid("attempt", job_id, str(attempt))


def build_role_uid(job_id: str, attempt: int, role: str) -> str:
    return _build_uid("role", job_id, str(attempt), role)


def build_task_uid(job_id: str, attempt: int, role: str, index: int) -> str:
    """Return the UID of a task within one job attempt, for all its tries."""
    return _build_uid("task", job_id, str(attempt), role, str(index))


def build_container_uid(attempt_id: str) -> str:
    """Return the UID of one try of a task, which OpenPAI calls its pod or container."""
    return _build_uid("container", attempt_id)


def _append_unused_number(plain: str, taken: set[str]) -> str:
    number = 2
    while f"{plain}{number}" in taken:
        number += 1
    return f"{plain}{number}"


def _build_uid(kind: str, *parts: str) -> str:
    # No part contains NUL, so the parts stay distinct.
    return str(uuid5(_UID_NAMESPACE, "\0".join((kind, *parts))))


def format_group_path(group: str) -> str:
    """Format a group's name as PrimeHub does in paths: research_A -> research-a. Two groups can share one."""
    return group.lower().replace("_", "-")

"""Names that OpenPAI's clients and programs know things by, worked out from ours: nothing of this is stored."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from uuid import UUID, uuid5

_NAMESPACE = UUID("6f1d3c1e-5c0f-5b5e-9a53-0c6a2c1d7b11")  # never change it: what was shown before must stay true
_NOT_PLAIN = re.compile(r"[^a-z0-9]")


def framework_name(user: str, name: str) -> str:
    """A job's full name; no user name holds a tilde, so it can be taken apart again."""
    return f"{user}~{name}"


def debug_id(user: str, name: str) -> str:
    """What OpenPAI's own parts called the job."""
    return hashlib.md5(framework_name(user, name).encode(), usedforsecurity=False).hexdigest()


def plain_role(role: str) -> str:
    """Lower case letters and digits only. Two roles of a job may come out the same: `plain_roles` tells them apart."""
    return _NOT_PLAIN.sub("", role.lower())


def plain_roles(roles: Iterable[str]) -> dict[str, str]:
    """Each role of a job with a plain name of its own, whatever the others are called.

    One that is plain already stays as it is, so no role's plain name is the true name of another. Of the others the
    first to come out as a name has it; a later one, or one with nothing left, gets a number behind it.
    """
    wanted = {role: plain_role(role) for role in roles}
    found = {role: plain for role, plain in wanted.items() if role == plain}
    taken = {*wanted.values(), ""}
    given = {*found.values(), ""}
    for role, plain in wanted.items():
        if role not in found:
            found[role] = plain if plain not in given else _numbered(plain or "role", taken | given)
            given.add(found[role])
    return {role: found[role] for role in wanted}


def framework_uid(job_id: str) -> str:
    return _uid("framework", job_id)


def attempt_uid(job_id: str, attempt: int) -> str:
    """Of one attempt of the whole job."""
    return _uid("attempt", job_id, str(attempt))


def role_uid(job_id: str, attempt: int, role: str) -> str:
    return _uid("role", job_id, str(attempt), role)


def task_uid(job_id: str, attempt: int, role: str, index: int) -> str:
    """Of a task within one attempt of its job, whichever try of it."""
    return _uid("task", job_id, str(attempt), role, str(index))


def container_uid(attempt_id: str) -> str:
    """Of one try of one task: what OpenPAI calls its pod or container."""
    return _uid("container", attempt_id)


def _numbered(plain: str, taken: set[str]) -> str:
    number = 2
    while f"{plain}{number}" in taken:
        number += 1
    return f"{plain}{number}"


def _uid(kind: str, *parts: str) -> str:
    # A NUL stands in no part, so parts never run into each other.
    return str(uuid5(_NAMESPACE, "\0".join((kind, *parts))))


def group_path(group: str) -> str:
    """A group's name as PrimeHub writes it in paths: research_A -> research-a. Two groups may share one."""
    return group.lower().replace("_", "-")

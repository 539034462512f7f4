"""Lookup of a job by name, id or part of an id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, String, bindparam, text

from holdfast.core.errors import Conflict
from holdfast.core.messages import msg
from holdfast.core.records import JobSummary

from ..rows import make_storable
from .listing import load_summaries
from .search import find_newest_hits

_MIN_PART_LENGTH = 4  # letters of an id's beginning or end
_MAX_CANDIDATES = 1000

_BY_ID = text("SELECT seq FROM jobs WHERE id = :id")
_BY_NAME = text("SELECT seq FROM jobs WHERE name = :name ORDER BY seq DESC LIMIT 1")
_BY_NAME_IN_GROUPS = text(
    "SELECT seq FROM jobs WHERE name = :name AND group_name IN :groups ORDER BY seq DESC LIMIT 1"
).bindparams(bindparam("groups", expanding=True, type_=String))
# Bounds of whole index keys: with equal columns, PostgreSQL may read all jobs for a name that does not exist.
# `group_name || ''` prevents SQLite from using the index of groups, which would read all jobs of the groups.
_USER_JOBS_BY_NAME_SQL = (
    "SELECT seq FROM jobs WHERE (user_name, name, seq) >= (:user, :name, 0)"
    " AND (user_name, name, seq) <= (:user, :name, 9223372036854775807)"
)
_NEWEST_FIRST = "ORDER BY user_name DESC, name DESC, seq DESC LIMIT 1"
_SELECT_NEWEST_BY_NAME = text(f"{_USER_JOBS_BY_NAME_SQL} {_NEWEST_FIRST}")
_SELECT_NEWEST_BY_NAME_IN_GROUPS = text(
    f"{_USER_JOBS_BY_NAME_SQL} AND group_name || '' IN :groups {_NEWEST_FIRST}"
).bindparams(bindparam("groups", expanding=True, type_=String))
_SELECT_BY_ID_PREFIX = text("SELECT seq FROM jobs WHERE id >= :first AND id < :last ORDER BY id LIMIT :limit")


def find_job(conn: Connection, ref: str, groups: Sequence[str] | None = None) -> JobSummary | None:
    """Find a job by id, by name (the newest), or by the beginning or end of an id; None if nothing matches.

    `groups` limits the search. Conflict if a part of an id matches several jobs.
    """
    if not ref or make_storable(ref) != ref:
        return None
    for look in (_find_by_id, _find_by_name, _find_by_id_part):
        found = look(conn, ref, groups)
        if found is not None:
            return found
    return None


def find_newest_named_job(
    conn: Connection, user: str, name: str, groups: Sequence[str] | None = None
) -> JobSummary | None:
    """Find the newest job of this user with exactly this name. `groups` limits the search."""
    if make_storable(user) != user or make_storable(name) != name:
        return None
    values: dict[str, Any] = {"user": user, "name": name}
    if groups is None:
        seqs = conn.scalars(_SELECT_NEWEST_BY_NAME, values).all()
    else:
        seqs = conn.scalars(_SELECT_NEWEST_BY_NAME_IN_GROUPS, {**values, "groups": list(groups)}).all()
    found = load_summaries(conn, seqs)
    return found[0] if found else None


def is_name_used(conn: Connection, user: str, name: str) -> bool:
    """Whether this user ever had a job of exactly this name."""
    values = {"user": make_storable(user), "name": make_storable(name)}
    return conn.scalar(_SELECT_NEWEST_BY_NAME, values) is not None


def _find_by_id(conn: Connection, ref: str, groups: Sequence[str] | None) -> JobSummary | None:
    found = _load_visible_jobs(conn, conn.scalars(_BY_ID, {"id": ref}).all(), groups)
    return found[0] if found else None


def _find_by_name(conn: Connection, ref: str, groups: Sequence[str] | None) -> JobSummary | None:
    if groups is None:
        seqs = conn.scalars(_BY_NAME, {"name": ref}).all()
    else:
        seqs = conn.scalars(_BY_NAME_IN_GROUPS, {"name": ref, "groups": list(groups)}).all()
    found = _load_visible_jobs(conn, seqs, groups)
    return found[0] if found else None


def _find_by_id_part(conn: Connection, ref: str, groups: Sequence[str] | None) -> JobSummary | None:
    if len(ref) < _MIN_PART_LENGTH:
        return None
    values: dict[str, Any] = {"first": ref, "last": ref + "\U0010ffff", "limit": _MAX_CANDIDATES}
    beginning = conn.scalars(_SELECT_BY_ID_PREFIX, values).all()
    end = find_newest_hits(conn, f"{ref}\n\n", 0, 2**63 - 1, _MAX_CANDIDATES) or []
    candidates = _load_visible_jobs(conn, {*beginning, *end}, groups)
    fitting = [job for job in candidates if job.id.startswith(ref) or job.id.endswith(ref)]
    if len(fitting) > 1:
        some = ", ".join(job.id for job in fitting[:3]) + (", ..." if len(fitting) > 3 else "")
        raise Conflict(
            msg("“{ref}” matches several jobs: {examples}", ref=ref, examples=some),
            hint=msg("Enter more characters of the job ID."),
        )
    return fitting[0] if fitting else None


def _load_visible_jobs(
    conn: Connection, seqs: Sequence[int] | set[int], groups: Sequence[str] | None
) -> list[JobSummary]:
    found = load_summaries(conn, list(seqs))
    return [job for job in found if groups is None or job.group in groups]

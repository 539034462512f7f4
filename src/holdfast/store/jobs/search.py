"""Which jobs have this text in their name or id: from an index of letter triples, which both databases have."""

from __future__ import annotations

from sqlalchemy import Connection, text

_TRIPLE = 3
_MAX_TRIPLES = 5  # of a long text
_MAX_BEGINNINGS = 200  # triples that may begin with a shorter text

_SQLITE = text(
    "SELECT rowid FROM job_search WHERE job_search MATCH :query AND rowid >= :low AND rowid < :high"
    " ORDER BY rowid DESC LIMIT :most"
)
_TERMS = text("SELECT term FROM job_search_terms WHERE term >= :first AND term < :last LIMIT :limit")
_POSTGRES = text(
    "SELECT seq FROM jobs WHERE search LIKE :pattern ESCAPE '!' AND seq >= :low AND seq < :high"
    " ORDER BY seq DESC LIMIT :most"
)


def newest_hits(conn: Connection, needle: str, low: int, high: int, most: int) -> list[int] | None:
    """The newest jobs with low <= seq < high that may have the text: look again at each. None when the index is no
    help. `needle` is folded and storable.
    """
    values = {"low": low, "high": high, "most": most}
    if conn.dialect.name != "sqlite":
        if len(needle) < _TRIPLE:
            return None
        return list(conn.scalars(_POSTGRES, {**values, "pattern": like_pattern(needle)}))
    query = match_query(needle) if len(needle) >= _TRIPLE else _beginnings_query(conn, needle)
    if not query:
        return [] if query == "" else None
    return list(conn.scalars(_SQLITE, {**values, "query": query}))


def match_query(needle: str) -> str:
    """A few triples side by side, from the end, where names and ids differ most; more would cost more than they rule
    out. Each is quoted: nothing in it has a meaning of its own.
    """
    ends = range(len(needle), _TRIPLE - 1, -_TRIPLE)[:_MAX_TRIPLES]
    return " AND ".join(_quoted(needle[end - _TRIPLE : end]) for end in ends)


def like_pattern(needle: str) -> str:
    for special in "!%_":
        needle = needle.replace(special, "!" + special)
    return f"%{needle}%"


def _beginnings_query(conn: Connection, needle: str) -> str | None:
    """A text too short to be looked up is the beginning of some triples. Empty: of none; None: of too many."""
    values = {"first": needle, "last": needle + "\U0010ffff", "limit": _MAX_BEGINNINGS + 1}
    terms = list(conn.scalars(_TERMS, values))
    return None if len(terms) > _MAX_BEGINNINGS else " OR ".join(map(_quoted, terms))


def _quoted(term: str) -> str:
    return '"' + term.replace('"', '""') + '"'

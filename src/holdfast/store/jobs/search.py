"""Text search in names and ids of jobs, by the trigram index of both databases."""

from __future__ import annotations

from sqlalchemy import Connection, text

_TRIGRAM_SIZE = 3
_MAX_TRIGRAMS = 5  # of a long text
_MAX_PREFIX_TERMS = 200  # trigrams that begin with a shorter text

_SELECT_SQLITE_HITS = text(
    "SELECT rowid FROM job_search WHERE job_search MATCH :query AND rowid >= :low AND rowid < :high"
    " ORDER BY rowid DESC LIMIT :most"
)
_SELECT_TERMS = text("SELECT term FROM job_search_terms WHERE term >= :first AND term < :last LIMIT :limit")
_SELECT_POSTGRES_HITS = text(
    "SELECT seq FROM jobs WHERE search LIKE :pattern ESCAPE '!' AND seq >= :low AND seq < :high"
    " ORDER BY seq DESC LIMIT :most"
)


def find_newest_hits(conn: Connection, needle: str, low: int, high: int, most: int) -> list[int] | None:
    """Return the newest jobs with low <= seq < high that may contain the text: check each. None if the index cannot
    help. `needle` is folded and storable.
    """
    values = {"low": low, "high": high, "most": most}
    if conn.dialect.name != "sqlite":
        if len(needle) < _TRIGRAM_SIZE:
            return None
        return list(conn.scalars(_SELECT_POSTGRES_HITS, {**values, "pattern": build_like_pattern(needle)}))
    query = build_match_query(needle) if len(needle) >= _TRIGRAM_SIZE else _build_prefix_query(conn, needle)
    if not query:
        return [] if query == "" else None
    return list(conn.scalars(_SELECT_SQLITE_HITS, {**values, "query": query}))


def build_match_query(needle: str) -> str:
    """Build a query of a few trigrams from the end, where names and ids differ most; more would cost more than they
    exclude. Each is quoted, so that nothing in it is an operator.
    """
    ends = range(len(needle), _TRIGRAM_SIZE - 1, -_TRIGRAM_SIZE)[:_MAX_TRIGRAMS]
    return " AND ".join(_quote_term(needle[end - _TRIGRAM_SIZE : end]) for end in ends)


def build_like_pattern(needle: str) -> str:
    for special in "!%_":
        needle = needle.replace(special, "!" + special)
    return f"%{needle}%"


def _build_prefix_query(conn: Connection, needle: str) -> str | None:
    """Build a query for a text shorter than a trigram. Empty: no trigram begins with it; None: too many do."""
    values = {"first": needle, "last": needle + "\U0010ffff", "limit": _MAX_PREFIX_TERMS + 1}
    terms = list(conn.scalars(_SELECT_TERMS, values))
    return None if len(terms) > _MAX_PREFIX_TERMS else " OR ".join(map(_quote_term, terms))


def _quote_term(term: str) -> str:
    return '"' + term.replace('"', '""') + '"'

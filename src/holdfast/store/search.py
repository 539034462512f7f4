"""Which jobs have this text in their name or id: from an index of letter triples, which both databases have."""

from __future__ import annotations

from sqlalchemy import Connection, text

_SHORTEST = 3  # letters the index can look up
_MOST_TRIPLES = 24  # of a long text; the rest is checked on what these find

_SQLITE = text(
    "SELECT rowid FROM job_search WHERE job_search MATCH :query AND rowid >= :low AND rowid < :high LIMIT :most"
)
_POSTGRES = text(
    "SELECT seq FROM jobs WHERE search LIKE :pattern ESCAPE '!' AND seq >= :low AND seq < :high LIMIT :most"
)


def text_hits(conn: Connection, needle: str, low: int, high: int, most: int) -> list[int] | None:
    """Every job with low <= seq < high that may have it: look again at each. None when there are more than `most`, or
    when the text is too short to say. `needle` is folded and storable.
    """
    if len(needle) < _SHORTEST:
        return None
    values = {"low": low, "high": high, "most": most + 1}
    if conn.dialect.name == "sqlite":
        hits = list(conn.scalars(_SQLITE, {**values, "query": match_query(needle)}))
    else:
        hits = list(conn.scalars(_POSTGRES, {**values, "pattern": like_pattern(needle)}))
    return None if len(hits) > most else hits


def match_query(needle: str) -> str:
    """Every triple of the text, each quoted: nothing in it has a meaning of its own."""
    triples = dict.fromkeys(needle[i : i + 3] for i in range(len(needle) - 2))
    quoted = ['"' + triple.replace('"', '""') + '"' for triple in triples]
    return " AND ".join(quoted[-_MOST_TRIPLES:])


def like_pattern(needle: str) -> str:
    for special in "!%_":
        needle = needle.replace(special, "!" + special)
    return f"%{needle}%"

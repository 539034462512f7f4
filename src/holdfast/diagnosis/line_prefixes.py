"""Prefixes that loggers and launchers add to each line: times, levels, logger names, ranks."""

from __future__ import annotations

import re
from functools import cache, lru_cache

MAX_PREFIX_LENGTH = 300  # characters of a line that are searched
MAX_PREFIX_PARTS = 6  # parts
_DATE_PATTERN = r"\d{4}[-/]\d\d[-/]\d\d"
_CLOCK_TIME_PATTERN = r"\d\d:\d\d:\d\d(?:[.,:]\d{1,9})?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?"
_TIMESTAMP_PATTERN = (
    rf"[\[(]?(?:{_DATE_PATTERN}[T _]{_CLOCK_TIME_PATTERN}|{_DATE_PATTERN}[T ]\d\d:\d\d"
    rf"|[A-Z][a-z]{{2}} [ \d]\d {_CLOCK_TIME_PATTERN}|{_CLOCK_TIME_PATTERN}"
    r"|\d{10}\.\d{1,9})[\])]?"
    r"(?:\s{0,8}[-|:,])?\s{1,8}"
)
_GLOG_PATTERN = r"[IWEF]\d{4} \d\d:\d\d:[\d.]{2,25}\s{1,8}\d{1,9} [\w./-]{1,80}:\d{1,6}\] "
_RANK_PATTERN = (
    r"\[(?:rank|default|local_rank|Rank |RANK )?:?\d{1,5}(?:,\d{1,5})?\](?:<std(?:err|out)>)?:?\s{0,4}"
    r"|\([\w.-]{1,60} pid=\d{1,9}(?:, ip=[\d.]{1,40})?\)\s{1,4}|[Rr]ank ?\d{1,5}: |[\w.-]{1,60}[-_]\d{1,5} {1,20}\| "
)
_LEVEL_PATTERN = (
    r"(?i)(?:[\[<(](?:error|fatal|critical|warning|warn|info|debug|err|crit|emerg)[\])>]"
    r"|\b(?-i:ERROR|FATAL|CRITICAL|WARNING|WARN|INFO|DEBUG))(?:\s{0,8}[-|:])?\s{1,8}"
)
_PYTEST_PATTERN = r"E {3,8}(?=\S)"
_ROOT_LOGGER_PATTERN = r"(?:ERROR|FATAL|CRITICAL|WARNING):[\w.]{1,80}:"  # default format of Python's logging
_LOGGER_NAME_PATTERN = (
    r"(?:\[(?:[a-z_]\w{0,40}\.){0,8}[a-z_]\w{0,40}(?:\.py)?(?::\d{1,6})?\]:?\s{1,4}"
    r"|[\w.<>]{1,80}(?::[\w.<>]{1,60}){0,2} - "
    r"|(?:[a-z_]\w{0,40}\.){1,8}[a-z_]\w{0,40}: |(?:__main__|root|main): )"
)

_FIRST_PART_PATTERNS = (
    _TIMESTAMP_PATTERN,
    _GLOG_PATTERN,
    _RANK_PATTERN,
    _ROOT_LOGGER_PATTERN,
    _LEVEL_PATTERN,
    _PYTEST_PATTERN,
)
_LATER_PART_PATTERNS = (*_FIRST_PART_PATTERNS, _LOGGER_NAME_PATTERN)


@cache
def _compile_parts(*, logged: bool) -> tuple[re.Pattern[str], ...]:
    """Compile on first use: it would slow down the start of a server."""
    return tuple(map(re.compile, _LATER_PART_PATTERNS if logged else _FIRST_PART_PATTERNS))


@lru_cache(maxsize=4096)
def strip_log_prefix(line: str) -> str:
    """Return the line without its prefix, or the whole line if nothing else remains."""
    at = 0
    for _ in range(MAX_PREFIX_PARTS):
        found = _match_part(line, at, logged=at > 0)
        if not found:
            break
        at = found.end()
    return line[at:] if line[at:].strip() else line


def _match_part(line: str, at: int, *, logged: bool) -> re.Match[str] | None:
    for kind in _compile_parts(logged=logged):
        found = kind.match(line, at, MAX_PREFIX_LENGTH)
        if found:
            return found
    return None

"""What loggers and launchers put before each line: times, levels, names of loggers, ranks."""

from __future__ import annotations

import re
from functools import cache, lru_cache

MAX_LENGTH = 300  # characters in which it is looked for
MAX_COUNT = 6  # parts
_DATE = r"\d{4}[-/]\d\d[-/]\d\d"
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,:]\d{1,9})?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?"
_TIME = (
    rf"[\[(]?(?:{_DATE}[T _]{_CLOCK}|{_DATE}[T ]\d\d:\d\d|[A-Z][a-z]{{2}} [ \d]\d {_CLOCK}|{_CLOCK}"
    r"|\d{10}\.\d{1,9})[\])]?"
    r"(?:\s{0,8}[-|:,])?\s{1,8}"
)
_GLOG = r"[IWEF]\d{4} \d\d:\d\d:[\d.]{2,25}\s{1,8}\d{1,9} [\w./-]{1,80}:\d{1,6}\] "
_RANK = (
    r"\[(?:rank|default|local_rank|Rank |RANK )?:?\d{1,5}(?:,\d{1,5})?\](?:<std(?:err|out)>)?:?\s{0,4}"
    r"|\([\w.-]{1,60} pid=\d{1,9}(?:, ip=[\d.]{1,40})?\)\s{1,4}|[Rr]ank ?\d{1,5}: |[\w.-]{1,60}[-_]\d{1,5} {1,20}\| "
)
_LEVEL = (
    r"(?i)(?:[\[<(](?:error|fatal|critical|warning|warn|info|debug|err|crit|emerg)[\])>]"
    r"|\b(?-i:ERROR|FATAL|CRITICAL|WARNING|WARN|INFO|DEBUG))(?:\s{0,8}[-|:])?\s{1,8}"
)
_PYTEST = r"E {3,8}(?=\S)"
_ROOT = r"(?:ERROR|FATAL|CRITICAL|WARNING):[\w.]{1,80}:"  # as Python's logging has it by itself
_LOGGER = (
    r"(?:\[(?:[a-z_]\w{0,40}\.){0,8}[a-z_]\w{0,40}(?:\.py)?(?::\d{1,6})?\]:?\s{1,4}"
    r"|[\w.<>]{1,80}(?::[\w.<>]{1,60}){0,2} - "
    r"|(?:[a-z_]\w{0,40}\.){1,8}[a-z_]\w{0,40}: |(?:__main__|root|main): )"
)

_PARTS = (_TIME, _GLOG, _RANK, _ROOT, _LEVEL, _PYTEST)
_AFTER_OTHERS = (*_PARTS, _LOGGER)


@cache
def _compile_parts(*, logged: bool) -> tuple[re.Pattern[str], ...]:
    """When the first log is judged: a starting server would need longer for them than for any module."""
    return tuple(map(re.compile, _AFTER_OTHERS if logged else _PARTS))


@lru_cache(maxsize=4096)
def without_prefix(line: str) -> str:
    """What the program says; the line itself where that would be nothing."""
    at = 0
    for _ in range(MAX_COUNT):
        found = _part(line, at, logged=at > 0)
        if not found:
            break
        at = found.end()
    return line[at:] if line[at:].strip() else line


def _part(line: str, at: int, *, logged: bool) -> re.Match[str] | None:
    for kind in _compile_parts(logged=logged):
        found = kind.match(line, at, MAX_LENGTH)
        if found:
            return found
    return None

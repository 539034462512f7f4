"""Errors in structured log lines (JSON or key=value), converted to plain lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

MAX_LAST_LINES = 200  # lines that are parsed, from the end
MAX_FIRST_LINES = 20  # and from the beginning
MAX_LINE_SIZE = 32 * 1024  # bytes of one
MAX_ERROR_DEPTH = 3  # nested errors
MAX_PREFIX_LENGTH = 120  # characters before an object, such as a time and a rank
_ERROR_LEVEL_PATTERN = rb"(?:error|err|fatal|critical|crit|panic|dpanic|emerg|emergency|alert|severe)"
# In lower case. Each starts with plain text, so that the search is fast.
_JSON_ERROR_PATTERN = re.compile(
    rb'"(?:(?:level|levelname|log\.level|loglevel|lvl|severity)"\s{0,2}:\s{0,2}(?:"'
    + _ERROR_LEVEL_PATTERN
    + rb'"|[56]0\b)'
    rb'|(?:err|error|error\.message|exc|exc_info|exc_text|exception|traceback|stack_?trace)"\s{0,2}:\s{0,2}["{])'
)
_KEY_VALUE_ERROR_PATTERN = re.compile(rb'(?:level|lvl|severity)="?' + _ERROR_LEVEL_PATTERN + rb"\b")
_KEY_VALUE_PATTERN = re.compile(r'([\w.@-]{1,60})=(?:"((?:[^"\\]|\\.){0,4000})"|(\S{0,1000}))')
_ESCAPE_PATTERN = re.compile(r"\\([nt\"\\])")
_UNESCAPED_CHARACTERS = {"n": "\n", "t": "\t"}
_LEVEL_KEYS = ("level", "levelname", "log.level", "loglevel", "lvl", "severity")
_HARMLESS_LEVEL_PATTERN = re.compile(
    r"(?:trace|debug|info|information|notice|warn|warning|success|[1-4]0)$", re.IGNORECASE
)
_MESSAGE_KEYS = ("msg", "message", "event", "@message", "log", "text")
_ERROR_KEYS = ("err", "error", "error.message", "exc", "reason", "cause", "detail", "details")
_TRACEBACK_KEYS = (
    "exception",
    "exc_info",
    "exc_text",
    "traceback",
    "stack_trace",
    "stacktrace",
    "error.stack_trace",
    "stack",
)


def find_structured_errors(data: bytes) -> list[tuple[int, int, tuple[bytes, ...]]]:
    """Return (start, end, plain lines) of each structured error."""
    lower = data.lower()
    places = (
        [found.start() for found in _JSON_ERROR_PATTERN.finditer(lower)] if b'":' in lower or b'" :' in lower else []
    )
    if any(key in lower for key in (b"level=", b"lvl=", b"severity=")):
        places = sorted(places + [found.start() for found in _KEY_VALUE_ERROR_PATTERN.finditer(lower)])
    if len(places) > MAX_FIRST_LINES + MAX_LAST_LINES:
        places = places[:MAX_FIRST_LINES] + places[-MAX_LAST_LINES:]
    found, last = [], -1
    for place in places:
        start = max(data.rfind(b"\n", 0, place), data.rfind(b"\r", 0, place)) + 1
        end = data.find(b"\n", place)
        end = len(data) if end < 0 else end
        if start > last and end - start <= MAX_LINE_SIZE:
            last = start
            lines = _render_plain_lines(data[start:end].decode("utf-8", "replace"))
            if lines:
                found.append((start, end, tuple(line.encode() for line in lines)))
    return found


def _render_plain_lines(line: str) -> list[str]:
    fields = _parse_fields(line)
    level = next((str(fields[key]) for key in _LEVEL_KEYS if key in fields), "")
    if not fields or _HARMLESS_LEVEL_PATTERN.match(level):
        return []
    lines_text = [f"ERROR: {text}" for key in _MESSAGE_KEYS for text in _iter_field_texts(fields.get(key), 0)][:1]
    lines = [*lines_text, *_iter_error_lines(fields, 0)]
    return list(dict.fromkeys(lines)) if lines != lines_text or level else []


def _parse_fields(line: str) -> Mapping[str, Any]:
    start = line.find("{", 0, MAX_PREFIX_LENGTH)
    if start >= 0 and line.rstrip().endswith("}"):
        try:
            found = json.loads(line[start:])
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            return found
    return {key: _unescape_text(quoted) if quoted else bare for key, quoted, bare in _KEY_VALUE_PATTERN.findall(line)}


def _unescape_text(text: str) -> str:
    return _ESCAPE_PATTERN.sub(lambda found: _UNESCAPED_CHARACTERS.get(found[1], found[1]), text)


def _iter_error_lines(fields: Mapping[str, Any], depth: int) -> Iterator[str]:
    for key in (*_ERROR_KEYS, *_TRACEBACK_KEYS):
        for text in _iter_field_texts(fields.get(key), depth):
            yield from text.split("\n")


def _iter_field_texts(value: Any, depth: int) -> Iterator[str]:
    """Return the texts of a field that is a string or an error object."""
    if isinstance(value, str) and value.strip() and value.lower() not in ("true", "false", "null", "none"):
        yield value.strip("\n")
    elif isinstance(value, dict) and depth < MAX_ERROR_DEPTH:
        kind = value.get("type") or value.get("name") or value.get("kind")
        message = next((value[key] for key in _MESSAGE_KEYS if isinstance(value.get(key), str)), "")
        if message:
            yield f"{kind}: {message}" if isinstance(kind, str) and kind and not message.startswith(kind) else message
        yield from _iter_error_lines(value, depth + 1)

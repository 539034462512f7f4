"""Log output as plain text for a page, without control characters.

The scripts of the log view show colours (static/js/ansi.js); this text is for reading without scripts.
"""

from __future__ import annotations

import re
from itertools import islice

MAX_LINE_LENGTH = 4096  # characters after which a line is wrapped
MAX_NAMED_CHARACTERS = 20_000  # control characters of a text; with more, it is binary, and each is replaced by a sign
_ESCAPE_SEQUENCE_PATTERN = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]"  # colours, cursor movement
    "|\x1b[\\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\\\)?"  # titles, links and the like
    "|\x1b[ -/]*[0-~]?"
)
# Characters that are invisible or change how others are shown.
_CONTROL_CHARACTER_PATTERN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)
_CONTROL_CHARACTER_RUN_PATTERN = re.compile(_CONTROL_CHARACTER_PATTERN.pattern + "+")


def render_log_text(data: bytes) -> str:
    """Render lines as a terminal would show them, without colours."""
    text = _ESCAPE_SEQUENCE_PATTERN.sub("", data.decode("utf-8", "replace"))
    text = "\n".join(
        _apply_carriage_returns(line) if "\r" in line or "\b" in line else line for line in text.split("\n")
    )
    return "\n".join(map(_wrap_long_line, _replace_control_characters(text).split("\n")))


def _replace_control_characters(text: str) -> str:
    odd = next(islice(_CONTROL_CHARACTER_PATTERN.finditer(text), MAX_NAMED_CHARACTERS, None), None)
    return (
        _CONTROL_CHARACTER_PATTERN.sub(_format_character_name, text)
        if odd is None
        else _CONTROL_CHARACTER_RUN_PATTERN.sub(_build_replacement_characters, text)
    )


def _wrap_long_line(shown: str) -> str:
    if len(shown) <= MAX_LINE_LENGTH:
        return shown
    return "\n↪ ".join(shown[at : at + MAX_LINE_LENGTH] for at in range(0, len(shown), MAX_LINE_LENGTH))


def _apply_carriage_returns(line: str) -> str:
    """Apply carriage returns: the text after one overwrites the beginning of the line."""
    shown: list[str] = []
    for part in line.split("\r"):
        new = _apply_backspaces(part)
        shown[: len(new)] = new
    return "".join(shown)


def _apply_backspaces(part: str) -> list[str]:
    new: list[str] = []
    at = 0
    for character in part:
        if character == "\b":
            at = max(0, at - 1)
            continue
        new[at : at + 1] = [character]
        at += 1
    return new


def _format_character_name(found: re.Match[str]) -> str:
    return f"⟨U+{ord(found[0]):04X}⟩"


def _build_replacement_characters(found: re.Match[str]) -> str:
    return "\ufffd" * len(found[0])

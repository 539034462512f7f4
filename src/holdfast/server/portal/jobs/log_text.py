"""What a job printed, as plain text for a page: nothing in it can colour, move, hide or reorder anything.

The scripts of the log view show colours (static/js/ansi.js); this is what is read without them.
"""

from __future__ import annotations

import re
from itertools import islice

FOLD = 4096  # characters of a line, before it goes on below
MAX_NAMED = 20_000  # odd characters of a text; where there are more it is no text, and a sign stands for each
_ESCAPES = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]"  # colours, cursor movement
    "|\x1b[\\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\\\)?"  # titles, links and the like
    "|\x1b[ -/]*[0-~]?"
)
# What changes how other characters are shown, or is not seen at all.
_ODD = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)
_ODDS = re.compile(_ODD.pattern + "+")


def readable(data: bytes) -> str:
    """Lines as a terminal would leave them, without its colours."""
    text = _ESCAPES.sub("", data.decode("utf-8", "replace"))
    text = "\n".join(_overwritten(line) if "\r" in line or "\b" in line else line for line in text.split("\n"))
    return "\n".join(map(_folded, _named(text).split("\n")))


def _named(text: str) -> str:
    odd = next(islice(_ODD.finditer(text), MAX_NAMED, None), None)
    return _ODD.sub(_name, text) if odd is None else _ODDS.sub(_signs, text)


def _folded(shown: str) -> str:
    if len(shown) <= FOLD:
        return shown
    return "\n↪ ".join(shown[at : at + FOLD] for at in range(0, len(shown), FOLD))


def _overwritten(line: str) -> str:
    """A carriage return goes back to the beginning of the line: what follows is written over it."""
    shown: list[str] = []
    for part in line.split("\r"):
        new = _backspaced(part)
        shown[: len(new)] = new
    return "".join(shown)


def _backspaced(part: str) -> list[str]:
    new: list[str] = []
    at = 0
    for character in part:
        if character == "\b":
            at = max(0, at - 1)
            continue
        new[at : at + 1] = [character]
        at += 1
    return new


def _name(found: re.Match[str]) -> str:
    return f"⟨U+{ord(found[0]):04X}⟩"


def _signs(found: re.Match[str]) -> str:
    return "\ufffd" * len(found[0])

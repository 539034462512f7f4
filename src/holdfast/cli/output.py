"""Everything the CLI prints: results on stdout, the rest on stderr; colours and hints on a terminal alone.

Names, messages and whatever else users wrote pass through `safe`, so that no one can move another's cursor.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

WIDE = 100_000  # columns when nobody looks: nothing is cut
GAP = 2  # spaces between columns
NARROWEST = 8  # characters that a column keeps, however narrow the terminal is
READABLE = 16  # characters that a column should have; others are left out before it gets fewer


class ReaderGone(BaseException):
    """Nobody reads our output any more, as in `| head`: no error, and nothing left to do."""


def is_terminal(stream: IO[str]) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def has_colour(stream: IO[str]) -> bool:
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def safe(text: object) -> str:
    """One line, with every character that could steer a terminal or turn the text around made visible."""
    return "".join(char if _is_plain(char) else _escape(char) for char in str(text))


def _is_plain(char: str) -> bool:
    code = ord(char)
    if code < 0x20 or 0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000:
        return False
    return not (0x202A <= code <= 0x202E or 0x2066 <= code <= 0x2069 or code in (0x200E, 0x200F, 0x2028, 0x2029))


def _escape(char: str) -> str:
    short = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
    code = ord(char)
    return short.get(char) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def emit(text: str = "") -> None:
    """A line of the result."""
    emit_bytes((text + "\n").encode("utf-8", "backslashreplace"))


def emit_bytes(data: bytes) -> None:
    """Part of the result, as it is."""
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise ReaderGone from None


def emit_json(value: object) -> None:
    """Dataclasses, times and all, with the field names as keys. ASCII alone, so that it is safe to look at."""
    from holdfast.sdk.reading import dump

    emit(json.dumps(dump(value), indent=2 if is_terminal(sys.stdout) else None))


def note(text: str, style: str = "") -> None:
    """A line for the person in front of it, on stderr."""
    try:
        sys.stderr.write(styled(text, style, sys.stderr) + "\n")
        sys.stderr.flush()
    except BrokenPipeError:
        raise ReaderGone from None


def hint(*commands: str) -> None:
    """What one would likely do next; only where a person sees it."""
    if is_terminal(sys.stderr):
        note("next: " + "   ".join(commands), "dim")


_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36", "bold red": "1;31"}


def styled(text: str, style: str, stream: IO[str]) -> str:
    if not style or not has_colour(stream):
        return text
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m"


def render(what: RenderableType, stream: IO[str] | None = None) -> str:
    """A rich table or text as plain text, coloured for a terminal."""
    console = console_for(stream or sys.stdout)
    with console.capture() as captured:
        console.print(what)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def console_for(stream: IO[str]) -> Console:
    from rich.console import Console

    seen = is_terminal(stream)
    return Console(
        file=stream,
        width=None if seen else WIDE,
        force_terminal=seen,
        no_color=not has_colour(stream),
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )


def width() -> int:
    """Columns there are to write on."""
    return shutil.get_terminal_size().columns if is_terminal(sys.stdout) else WIDE


def table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], *, cut: Sequence[str] = (), drop: Sequence[str] = ()
) -> None:
    """Columns side by side. When the terminal is too narrow those named in `drop` are left out, the first one first,
    and those in `cut` are shortened; others only where that is not enough. The first column, which is what one would
    type, is never cut."""
    if rows or is_terminal(sys.stdout):
        emit(render(make_table(columns, rows, cut=cut, drop=drop)))


def make_table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], *, cut: Sequence[str] = (), drop: Sequence[str] = ()
) -> RenderableType:
    from rich.table import Table

    cells = [[cell(value) for value in row] for row in rows]
    needed = [max([len(name), *(row[at].cell_len for row in cells)]) for at, name in enumerate(columns)]
    kept = _kept(columns, needed, cut, drop, width())
    if _least(kept, columns, needed, cut) > width():
        cut = columns[1:]
        kept = _kept(columns, needed, cut, [*drop, *reversed(columns[1:])], width())
    names, sizes = [columns[at] for at in kept], [needed[at] for at in kept]
    made = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for at, (name, room) in enumerate(zip(names, _share(names, sizes, cut, width()), strict=True)):
        made.add_column(name, no_wrap=at > 0, overflow="ellipsis" if at else "fold", width=room)
    for row in cells:
        made.add_row(*(row[at] for at in kept))
    return made


def _kept(
    columns: Sequence[str], needed: Sequence[int], cut: Sequence[str], drop: Sequence[str], room: int
) -> list[int]:
    """Which columns are shown, by their places."""
    kept = list(range(len(columns)))
    for name in drop:
        if _least(kept, columns, needed, cut) <= room:
            break
        kept = [at for at in kept if columns[at] != name]
    return kept


def _least(kept: Sequence[int], columns: Sequence[str], needed: Sequence[int], cut: Sequence[str]) -> int:
    """How many characters they need side by side, if those that may be cut are."""
    return sum((min(needed[at], READABLE) if columns[at] in cut else needed[at]) + GAP for at in kept) - GAP


def _share(columns: Sequence[str], needed: Sequence[int], cut: Sequence[str], room: int) -> list[int]:
    """The width of each column: those that may be cut share what the others leave."""
    left = (
        room
        - GAP * (len(columns) - 1)
        - sum(size for name, size in zip(columns, needed, strict=True) if name not in cut)
    )
    sizes = list(needed)
    to_cut = sorted((size, at) for at, size in enumerate(needed) if columns[at] in cut)
    for served, (size, at) in enumerate(to_cut):
        sizes[at] = min(size, max(NARROWEST, left // (len(to_cut) - served)))
        left -= sizes[at]
    return sizes


def cell(value: object) -> Text:
    from rich.text import Text

    return value if isinstance(value, Text) else Text("" if value is None else safe(value))


STATE_STYLES = {
    "Pending": "yellow",
    "Preparing": "cyan",
    "Running": "cyan",
    "Held": "magenta",
    "Succeeded": "green",
    "Failed": "red",
    "Cancelled": "dim",
    "Stopped": "dim",
}


def state_cell(state: str, stopping: bool = False) -> Text:
    from rich.text import Text

    return Text(safe(state) + (" (stopping)" if stopping else ""), style=STATE_STYLES.get(str(state), ""))


@contextmanager
def progress(message: str) -> Iterator[Progress]:
    """A line on stderr that shows that something is going on; nothing where nobody looks."""
    if not is_terminal(sys.stderr):
        yield Progress(None)
        return
    with console_for(sys.stderr).status(safe(message)) as status:
        yield Progress(status)


class Progress:
    def __init__(self, status: Any) -> None:
        self._status = status

    def say(self, message: str) -> None:
        if self._status is not None:
            self._status.update(safe(message))

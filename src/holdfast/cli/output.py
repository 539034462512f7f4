"""Output of the CLI: results on stdout, everything else on stderr; colours and hints only on a terminal.

User-supplied text passes through `safe`, so that it cannot send escape sequences to a terminal.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

UNLIMITED_WIDTH = 100_000  # columns without a terminal: nothing is truncated
COLUMN_GAP = 2  # spaces between columns
MIN_COLUMN_WIDTH = 8  # minimum width of a column, however narrow the terminal is
PREFERRED_COLUMN_WIDTH = 16  # preferred minimum width; other columns are dropped before it gets narrower


class OutputClosed(BaseException):
    """The output pipe is closed, as by `| head`: not an error, and nothing left to do."""


def is_terminal(stream: IO[str]) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def has_colour(stream: IO[str]) -> bool:
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def escape(text: object) -> str:
    """Return one line with control and bidirectional characters escaped."""
    return "".join(char if _is_printable(char) else _escape_char(char) for char in str(text))


def _is_printable(char: str) -> bool:
    code = ord(char)
    if code < 0x20 or 0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000:
        return False
    return not (0x202A <= code <= 0x202E or 0x2066 <= code <= 0x2069 or code in (0x200E, 0x200F, 0x2028, 0x2029))


def _escape_char(char: str) -> str:
    short = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
    code = ord(char)
    return short.get(char) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def emit_line(text: str = "") -> None:
    """Print a line of the result to stdout."""
    emit_bytes((text + "\n").encode("utf-8", "backslashreplace"))


def emit_bytes(data: bytes) -> None:
    """Write part of the result to stdout unchanged."""
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise OutputClosed from None


def emit_json(value: object) -> None:
    """Print a value as JSON, with field names as keys. ASCII only, so that it is safe on a terminal."""
    from holdfast.sdk.json_conversion import to_json

    emit_line(json.dumps(to_json(value), indent=2 if is_terminal(sys.stdout) else None))


def emit_result(value: object, text: str, json: bool) -> None:
    """Print the result of a command: the value as JSON, or else the text."""
    if json:
        emit_json(value)
    else:
        emit_line(text)


def emit_removed(name: str, json: bool, note: str = "") -> None:
    emit_result({"removed": name}, f"Deleted {escape(name)}.{note}", json)


def emit_styled(text: str, style: str) -> None:
    emit_line(style_text(text, style, sys.stdout))


def emit_fields(fields: Iterable[tuple[str, str]], width: int) -> None:
    """Print labels and values, without the empty ones."""
    for label, value in fields:
        if value:
            emit_line(f"  {label:<{width}} {escape(value)}")


def print_note(text: str, style: str = "") -> None:
    """Print a line to stderr."""
    try:
        sys.stderr.write(style_text(text, style, sys.stderr) + "\n")
        sys.stderr.flush()
    except BrokenPipeError:
        raise OutputClosed from None


def print_warning(text: str) -> None:
    print_note(f"warning: {escape(text)}", "yellow")


def print_hint(*commands: str) -> None:
    """Suggest next commands, if stderr is a terminal."""
    if is_terminal(sys.stderr):
        print_note("next: " + "   ".join(commands), "dim")


_STYLE_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36", "bold red": "1;31"}


def style_text(text: str, style: str, stream: IO[str]) -> str:
    if not style or not has_colour(stream):
        return text
    return f"\x1b[{_STYLE_CODES[style]}m{text}\x1b[0m"


def render_to_string(what: RenderableType, stream: IO[str] | None = None) -> str:
    """Render a rich table or text, with colours on a terminal."""
    console = create_console(stream or sys.stdout)
    with console.capture() as captured:
        console.print(what)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def create_console(stream: IO[str]) -> Console:
    from rich.console import Console

    terminal = is_terminal(stream)
    return Console(
        file=stream,
        width=None if terminal else UNLIMITED_WIDTH,
        force_terminal=terminal,
        no_color=not has_colour(stream),
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )


def get_width() -> int:
    """Return the number of columns of stdout."""
    return shutil.get_terminal_size().columns if is_terminal(sys.stdout) else UNLIMITED_WIDTH


def emit_table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], *, cut: Sequence[str] = (), drop: Sequence[str] = ()
) -> None:
    """Print a table. If the terminal is too narrow, columns in `drop` are left out, in that order, and columns in `cut`
    are truncated; others only if that is not enough. The first column, the one to copy, is never truncated."""
    if rows or is_terminal(sys.stdout):
        emit_line(render_to_string(build_table(columns, rows, cut=cut, drop=drop)))


def build_table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], *, cut: Sequence[str] = (), drop: Sequence[str] = ()
) -> RenderableType:
    from rich.table import Table

    cells = [[to_cell(value) for value in row] for row in rows]
    needed = [max([len(name), *(row[at].cell_len for row in cells)]) for at, name in enumerate(columns)]
    kept = _choose_columns(columns, needed, cut, drop, get_width())
    if _compute_min_width(kept, columns, needed, cut) > get_width():
        cut = columns[1:]
        kept = _choose_columns(columns, needed, cut, [*drop, *reversed(columns[1:])], get_width())
    names, sizes = [columns[at] for at in kept], [needed[at] for at in kept]
    table = Table(box=None, pad_edge=False, padding=(0, COLUMN_GAP, 0, 0), header_style="bold")
    for at, (name, width) in enumerate(zip(names, _distribute_width(names, sizes, cut, get_width()), strict=True)):
        table.add_column(name, no_wrap=at > 0, overflow="ellipsis" if at else "fold", width=width)
    for row in cells:
        table.add_row(*(row[at] for at in kept))
    return table


def _choose_columns(
    columns: Sequence[str], needed: Sequence[int], cut: Sequence[str], drop: Sequence[str], width: int
) -> list[int]:
    """Return the indexes of the columns that fit."""
    kept = list(range(len(columns)))
    for name in drop:
        if _compute_min_width(kept, columns, needed, cut) <= width:
            break
        kept = [at for at in kept if columns[at] != name]
    return kept


def _compute_min_width(kept: Sequence[int], columns: Sequence[str], needed: Sequence[int], cut: Sequence[str]) -> int:
    """Return the width of the columns once those in `cut` are truncated."""
    return (
        sum((min(needed[at], PREFERRED_COLUMN_WIDTH) if columns[at] in cut else needed[at]) + COLUMN_GAP for at in kept)
        - COLUMN_GAP
    )


def _distribute_width(columns: Sequence[str], needed: Sequence[int], cut: Sequence[str], width: int) -> list[int]:
    """Return the width of each column; columns in `cut` share what the others leave."""
    left = (
        width
        - COLUMN_GAP * (len(columns) - 1)
        - sum(size for name, size in zip(columns, needed, strict=True) if name not in cut)
    )
    sizes = list(needed)
    to_cut = sorted((size, at) for at, size in enumerate(needed) if columns[at] in cut)
    for served, (size, at) in enumerate(to_cut):
        sizes[at] = min(size, max(MIN_COLUMN_WIDTH, left // (len(to_cut) - served)))
        left -= sizes[at]
    return sizes


def to_cell(value: object) -> Text:
    from rich.text import Text

    return value if isinstance(value, Text) else Text("" if value is None else escape(value))


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


def build_state_cell(state: str, stopping: bool = False) -> Text:
    from rich.text import Text

    return Text(escape(state) + (" (stopping)" if stopping else ""), style=STATE_STYLES.get(str(state), ""))


@contextmanager
def show_progress(message: str) -> Iterator[StatusLine]:
    """Show a status line on stderr, if it is a terminal."""
    if not is_terminal(sys.stderr):
        yield StatusLine(None)
        return
    with create_console(sys.stderr).status(escape(message)) as status:
        yield StatusLine(status)


class StatusLine:
    def __init__(self, status: Any) -> None:
        self._status = status

    def update(self, message: str) -> None:
        if self._status is not None:
            self._status.update(escape(message))

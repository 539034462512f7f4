"""Files on their way between this machine and the server: progress, and names that stay where they should."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from . import output

Told = Callable[[int], None]  # how many more bytes went through


@contextmanager
def bar(label: str, size: int | None) -> Iterator[Told]:
    """A bar on stderr, of a size that may not be known; nothing where nobody looks."""
    if not output.is_terminal(sys.stderr):
        yield lambda count: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=output.console_for(sys.stderr), transient=True) as shown:
        task = shown.add_task(output.safe(label), total=size)
        yield lambda count: shown.update(task, advance=count)


def save(pieces: Iterable[bytes], target: Path, told: Told) -> int:
    """To a file that is there whole or not at all; how many bytes it has."""
    from holdfast.core.errors import UserError

    size = 0
    part = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with part.open("xb") as file:
            for piece in pieces:
                file.write(piece)
                size += len(piece)
                told(len(piece))
        part.replace(target)
    except OSError as error:
        raise UserError(f"Cannot write {target}: {error.strerror}") from None
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    return size


def below(folder: Path, name: str) -> Path:
    """Where a file of that name is saved; a name that leads out of the folder is refused, whoever sent it."""
    from holdfast.core.errors import UserError

    parts = name.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise UserError(f"The server named a file {output.safe(name)!r}, which cannot be saved safely")
    return folder.joinpath(*parts)


def files_in(folder: Path) -> Iterator[tuple[Path, str]]:
    """Every plain file below a folder of this machine, with its name within it. Links are not followed."""
    for above, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(above) / name
            if path.is_file() and not path.is_symlink():
                yield path, path.relative_to(folder).as_posix()

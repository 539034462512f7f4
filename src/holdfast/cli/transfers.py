"""File transfers between this machine and the server: progress bars and safe target paths."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from . import output

ProgressCallback = Callable[[int], None]  # called with the number of bytes transferred since the last call


@contextmanager
def show_progress_bar(label: str, size: int | None) -> Iterator[ProgressCallback]:
    """Show a progress bar on stderr, if it is a terminal. `size` None: unknown."""
    if not output.is_terminal(sys.stderr):
        yield lambda count: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=output.create_console(sys.stderr), transient=True) as shown:
        task = shown.add_task(output.escape(label), total=size)
        yield lambda count: shown.update(task, advance=count)


def save_file(pieces: Iterable[bytes], target: Path, progress: ProgressCallback) -> int:
    """Write a file atomically and return its size."""
    from holdfast.core.errors import UserError

    size = 0
    part = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with part.open("xb") as file:
            for piece in pieces:
                file.write(piece)
                size += len(piece)
                progress(len(piece))
        part.replace(target)
    except OSError as error:
        raise UserError(f"Cannot write {target}: {error.strerror}") from None
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    return size


def resolve_path_below(folder: Path, name: str) -> Path:
    """Return the target path of a file; reject names that point outside the folder."""
    from holdfast.core.errors import UserError

    parts = name.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise UserError(f"The server sent the unsafe file name {output.escape(name)!r}")
    return folder.joinpath(*parts)


def walk_files(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield every regular file below a folder with its relative name; symlinks are skipped."""
    for above, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(above) / name
            if path.is_file() and not path.is_symlink():
                yield path, path.relative_to(folder).as_posix()

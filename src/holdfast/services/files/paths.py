"""Names of files that groups share: what they may look like, and which of them are the platform's own."""

from __future__ import annotations

from holdfast.core.errors import Forbidden, UserError
from holdfast.core.messages import join_messages, msg

MAX_LENGTH = 4000  # bytes
MAX_PART_LENGTH = 255  # bytes; what file systems take
MAX_DEPTH = 64  # folders within folders
ARTIFACTS = "jobArtifacts"
DATASETS = "datasets"
KEPT_APART = ".metadata"  # a folder beside each job's artifacts
TAGS_FILE = ".dataset"  # in each tagged folder


def parse_path(path: str, field: str = "path") -> tuple[str, ...]:
    """The parts of a path that is relative and leads nowhere else; a slash at the end says no more than none."""
    path = path.removesuffix("/")
    parts = tuple(path.split("/"))
    why = _flaw(path, parts)
    if why is not None:
        raise UserError(
            join_messages(" ", (repr(path[:100]), why)), field=field, hint=msg("Write it as models/first/weights.bin.")
        )
    return parts


def parse_folder(path: str, field: str = "path") -> tuple[str, ...]:
    """The same, where nothing at all means the uppermost folder."""
    return parse_path(path, field) if path.strip("/") else ()


def can_be(path: str) -> bool:
    """A file of that path may exist."""
    return _flaw(path, tuple(path.split("/"))) is None


def _flaw(path: str, parts: tuple[str, ...]) -> str | None:
    try:
        raw = path.encode()
    except UnicodeEncodeError:
        return msg("is not UTF-8")
    if "\0" in path:
        return msg("holds a NUL")
    if len(raw) > MAX_LENGTH or len(parts) > MAX_DEPTH:
        return msg(
            "is too long: a path has at most {longest} bytes and {deepest} parts", longest=MAX_LENGTH, deepest=MAX_DEPTH
        )
    if any(part in ("", ".", "..") for part in parts):
        return msg("holds a part that is empty, '.' or '..'")
    if any(len(part.encode()) > MAX_PART_LENGTH for part in parts):
        return msg("holds a part of more than {longest_part} bytes", longest_part=MAX_PART_LENGTH)
    return None


def own_names(folder: str) -> frozenset[str]:
    """Names in this folder ("a/b/") that are the platform's own; folders with a slash at the end."""
    if folder.count("/") != 2:
        return frozenset()
    top = folder.partition("/")[0]
    if top == ARTIFACTS:
        return frozenset({f"{KEPT_APART}/"})
    return frozenset({TAGS_FILE}) if top == DATASETS else frozenset()


def need_changeable(parts: tuple[str, ...]) -> None:
    """Nobody but the platform changes what it notes beside people's files."""
    if is_own(parts):
        raise Forbidden(
            msg("Invalid Operation"), field="path", hint=msg("{x1} is kept by the platform itself.", x1=parts[2])
        )


def is_own(parts: tuple[str, ...]) -> bool:
    if len(parts) < 3:
        return False
    return parts[::2][:2] == (ARTIFACTS, KEPT_APART) or (parts[::2] == (DATASETS, TAGS_FILE) and len(parts) == 3)

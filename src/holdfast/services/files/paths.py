"""Paths of shared files: which are valid, and which are reserved for Holdfast."""

from __future__ import annotations

from holdfast.core.errors import Forbidden, UserError
from holdfast.core.messages import join_messages, msg

MAX_PATH_LENGTH = 4000  # bytes
MAX_COMPONENT_LENGTH = 255  # bytes; the limit of file systems
MAX_DEPTH = 64  # nested folders
ARTIFACTS_FOLDER = "jobArtifacts"
DATASETS_FOLDER = "datasets"
METADATA_FOLDER = ".metadata"  # a folder beside each job's artifacts
TAGS_FILE = ".dataset"  # in each tagged folder


def parse_path(path: str, field: str = "path") -> tuple[str, ...]:
    """Split a relative path into its components. A trailing slash is ignored."""
    path = path.removesuffix("/")
    parts = tuple(path.split("/"))
    why = _find_path_error(path, parts)
    if why is not None:
        raise UserError(
            join_messages(" ", (repr(path[:100]), why)),
            field=field,
            hint=msg("Use a relative path such as models/first/weights.bin."),
        )
    return parts


def parse_folder_path(path: str, field: str = "path") -> tuple[str, ...]:
    """Split the path of a folder; an empty path is the root folder."""
    return parse_path(path, field) if path.strip("/") else ()


def is_valid_path(path: str) -> bool:
    return _find_path_error(path, tuple(path.split("/"))) is None


def _find_path_error(path: str, parts: tuple[str, ...]) -> str | None:
    try:
        raw = path.encode()
    except UnicodeEncodeError:
        return msg("is not valid UTF-8")
    if "\0" in path:
        return msg("contains a NUL byte")
    if len(raw) > MAX_PATH_LENGTH or len(parts) > MAX_DEPTH:
        return msg(
            "is too long: the limit is {max_length} bytes and {max_depth} components",
            max_length=MAX_PATH_LENGTH,
            max_depth=MAX_DEPTH,
        )
    if any(part in ("", ".", "..") for part in parts):
        return msg("contains a component that is empty, '.' or '..'")
    if any(len(part.encode()) > MAX_COMPONENT_LENGTH for part in parts):
        return msg("contains a component longer than {max_part_length} bytes", max_part_length=MAX_COMPONENT_LENGTH)
    return None


def get_reserved_names(folder: str) -> frozenset[str]:
    """Return the names in this folder ("a/b/") that are reserved; folders with a trailing slash."""
    if folder.count("/") != 2:
        return frozenset()
    top = folder.partition("/")[0]
    if top == ARTIFACTS_FOLDER:
        return frozenset({f"{METADATA_FOLDER}/"})
    return frozenset({TAGS_FILE}) if top == DATASETS_FOLDER else frozenset()


def check_writable_path(parts: tuple[str, ...]) -> None:
    """Raise Forbidden for paths that only Holdfast can change."""
    if is_reserved_path(parts):
        raise Forbidden(
            msg("Invalid Operation"),
            field="path",
            hint=msg("{name} is managed by Holdfast and cannot be changed.", name=parts[2]),
        )


def is_reserved_path(parts: tuple[str, ...]) -> bool:
    if len(parts) < 3:
        return False
    return parts[::2][:2] == (ARTIFACTS_FOLDER, METADATA_FOLDER) or (
        parts[::2] == (DATASETS_FOLDER, TAGS_FILE) and len(parts) == 3
    )

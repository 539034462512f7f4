"""Responses with files that users wrote: never served as a page of our own origin."""

from __future__ import annotations

import mimetypes
import re
from functools import cache
from pathlib import PurePosixPath
from urllib.parse import quote

from starlette.responses import Response

from holdfast.services.files.open_file import OpenFile

from .errors import RangeNotSatisfiable
from .streams import AccessWatcher, StreamedResponse

BINARY_TYPE = "application/octet-stream"
_INLINE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp"})
_TEXT_SUFFIXES = frozenset(
    {".txt", ".log", ".csv", ".tsv", ".md", ".json", ".yaml", ".yml", ".py", ".sh", ".ipynb", ".toml"}
)
_ACTIVE_TYPES = ("html", "xml", "svg", "javascript", "ecmascript")  # types that browsers execute
_RANGE_PATTERN = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


def respond_with_file(file: OpenFile, guard: AccessWatcher, *, inline: bool = False, asked: str = "") -> Response:
    """Return a file. `inline`: show it in the browser if its type is harmless. `asked` is a Range header.
    The length is that at opening time; if the file gets shorter, the connection is closed."""
    kind, shown = _guess_media_type(file.name)
    start, end, partial = _parse_range(file, asked)
    headers = {
        "Content-Disposition": _build_content_disposition(file.name, inline=inline and shown),
        "Content-Length": str(end - start),
        "Accept-Ranges": "bytes",
    }
    if partial:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{file.size}"
    status = 206 if partial else 200
    return StreamedResponse(file.iter_chunks(start, end), guard=guard, media_type=kind, status=status, headers=headers)


def _guess_media_type(name: str) -> tuple[str, bool]:
    """Return the media type, and whether a browser can show it."""
    if PurePosixPath(name.lower()).suffix in _TEXT_SUFFIXES:
        return "text/plain; charset=utf-8", True
    kind = _load_media_types().guess_type(name, strict=True)[0] or BINARY_TYPE
    if any(word in kind for word in _ACTIVE_TYPES):
        return BINARY_TYPE, False
    return kind, kind in _INLINE_TYPES


@cache
def _load_media_types() -> mimetypes.MimeTypes:
    """Return the types that Python knows, the same on every machine."""
    return mimetypes.MimeTypes()


def _build_content_disposition(name: str, *, inline: bool) -> str:
    plain = re.sub(r"[^A-Za-z0-9._ -]", "_", name)[:100]
    return f"{'inline' if inline else 'attachment'}; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


def _parse_range(file: OpenFile, asked: str) -> tuple[int, int, bool]:
    """Parse HTTP ranges: a-b with b included, a- and -n. Other values are ignored."""
    found = _RANGE_PATTERN.fullmatch(asked)
    if found is None or found.group(0) == "bytes=-":
        return 0, file.size, False
    first, last = found.groups()
    if not first:
        start, end = max(0, file.size - int(last)), file.size
    else:
        start, end = int(first), min(file.size, int(last) + 1) if last else file.size
    if start >= end:
        file.file.close()
        raise RangeNotSatisfiable(file.size)
    return start, end, True

"""A file that somebody else wrote, as an answer: never as a page that our own address would vouch for."""

from __future__ import annotations

import mimetypes
import re
from functools import cache
from pathlib import PurePosixPath
from urllib.parse import quote

from starlette.responses import Response

from holdfast.services.files.open_file import OpenFile

from .errors import BadRange
from .streams import Guard, Stream

BYTES = "application/octet-stream"
_SHOWN = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp"})
_TEXTS = frozenset({".txt", ".log", ".csv", ".tsv", ".md", ".json", ".yaml", ".yml", ".py", ".sh", ".ipynb", ".toml"})
_ACTIVE = ("html", "xml", "svg", "javascript", "ecmascript")  # what browsers run
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


def answer_file(file: OpenFile, guard: Guard, *, inline: bool = False, asked: str = "") -> Response:
    """`inline`: to be looked at in the browser, if it is of a kind that does nothing there. `asked` is a Range header.
    The length is that of the moment it was opened; a file that became shorter since ends the connection."""
    kind, shown = _kind(file.name)
    start, end, partial = _span(file, asked)
    headers = {
        "Content-Disposition": _disposition(file.name, inline=inline and shown),
        "Content-Length": str(end - start),
        "Accept-Ranges": "bytes",
    }
    if partial:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{file.size}"
    status = 206 if partial else 200
    return Stream(file.chunks(start, end), guard=guard, media_type=kind, status=status, headers=headers)


def _kind(name: str) -> tuple[str, bool]:
    """Its media type, and whether a browser may show it."""
    if PurePosixPath(name.lower()).suffix in _TEXTS:
        return "text/plain; charset=utf-8", True
    kind = _load_types().guess_type(name, strict=True)[0] or BYTES
    if any(word in kind for word in _ACTIVE):
        return BYTES, False
    return kind, kind in _SHOWN


@cache
def _load_types() -> mimetypes.MimeTypes:
    """Those that Python knows, the same on every machine."""
    return mimetypes.MimeTypes()


def _disposition(name: str, *, inline: bool) -> str:
    plain = re.sub(r"[^A-Za-z0-9._ -]", "_", name)[:100]
    return f"{'inline' if inline else 'attachment'}; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


def _span(file: OpenFile, asked: str) -> tuple[int, int, bool]:
    """HTTP's own ranges: a-b with b included, a- and -n. What is none of these is as if it was not asked for."""
    found = _RANGE.fullmatch(asked)
    if found is None or found.group(0) == "bytes=-":
        return 0, file.size, False
    first, last = found.groups()
    if not first:
        start, end = max(0, file.size - int(last)), file.size
    else:
        start, end = int(first), min(file.size, int(last) + 1) if last else file.size
    if start >= end:
        file.file.close()
        raise BadRange(file.size)
    return start, end, True

"""Styles, scripts and images of the portal. Their URLs contain a hash, so browsers cache them forever.

Our own files are served unchanged. `vendor/` is bundled from npm packages at set-up (see web/); without it, pages work
with reduced features and show a note.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path, PurePath

from starlette.requests import Request
from starlette.responses import Response

from ..compression import MIN_COMPRESSED_SIZE, accepts_gzip

STATIC_FOLDER = Path(__file__).with_name("static")
STATIC_PREFIX = "/static"
STYLESHEET_NAME = "portal.css"  # all of css/, sorted by name
_CACHE_FOREVER = "public, max-age=31536000, immutable"
_CONTENT_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
}


@dataclass(frozen=True)
class Asset:
    kind: str
    content: bytes

    @cached_property
    def gzipped(self) -> bytes | None:
        """The gzip-compressed content, computed on first use: compressing all files would delay the first page."""
        return gzip.compress(self.content, 9, mtime=0) if len(self.content) >= MIN_COMPRESSED_SIZE else None


@dataclass(frozen=True, slots=True)
class Assets:
    mark: str  # hash of all files
    files: dict[str, Asset]

    def build_address(self, name: str) -> str:
        return f"{STATIC_PREFIX}/{self.mark}/{name}"

    @property
    def has_vendor(self) -> bool:
        return "js/vendor/htmx.js" in self.files


@cache
def load_assets() -> Assets:
    found = {
        str(path.relative_to(STATIC_FOLDER)): path.read_bytes()
        for path in sorted(STATIC_FOLDER.rglob("*"))
        if _is_served_file(path)
    }
    styles = b"\n".join(data for name, data in found.items() if name.startswith("css/"))
    served = {name: data for name, data in found.items() if not name.startswith("css/")} | {STYLESHEET_NAME: styles}
    digest = hashlib.sha256()
    for name, data in sorted(served.items()):
        digest.update(name.encode() + b"\0" + hashlib.sha256(data).digest())
    files = {name: Asset(_CONTENT_TYPES[PurePath(name).suffix], data) for name, data in served.items()}
    return Assets(digest.hexdigest()[:16], files)


def _is_served_file(path: Path) -> bool:
    return path.is_file() and path.suffix in _CONTENT_TYPES


async def serve_asset(request: Request) -> Response:
    """Serve a file. For a URL of an older release, serve the current file without caching."""
    known = load_assets()
    asset = known.files.get(request.path_params["name"])
    if asset is None:
        return Response("There is no such file", 404, media_type="text/plain")
    current = request.path_params["mark"] == known.mark
    headers = {"Cache-Control": _CACHE_FOREVER if current else "no-store", "Vary": "Accept-Encoding"}
    if accepts_gzip(request.headers.get("accept-encoding", "")) and asset.gzipped is not None:
        return Response(asset.gzipped, headers={**headers, "Content-Encoding": "gzip"}, media_type=asset.kind)
    return Response(asset.content, headers=headers, media_type=asset.kind)

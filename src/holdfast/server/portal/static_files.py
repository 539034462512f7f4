"""Styles, scripts and pictures of the portal, under an address that changes with them: browsers keep them for good.

Our own files are served as they are written. `vendor/` is bundled from npm packages at set-up (see web/); where that
could not be done, pages do without it and say so.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path, PurePath

from starlette.requests import Request
from starlette.responses import Response

from ..compression import WORTH_IT, accepts_gzip

FOLDER = Path(__file__).with_name("static")
PREFIX = "/static"
STYLES = "portal.css"  # all of css/, in order of name
_FOR_GOOD = "public, max-age=31536000, immutable"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
}


@dataclass(frozen=True)
class Asset:
    kind: str
    plain: bytes

    @cached_property
    def small(self) -> bytes | None:
        """Compressed by gzip, when it is first asked for: all of them would delay the first page."""
        return gzip.compress(self.plain, 9, mtime=0) if len(self.plain) >= WORTH_IT else None


@dataclass(frozen=True, slots=True)
class Assets:
    mark: str  # of all of them
    files: dict[str, Asset]

    def address(self, name: str) -> str:
        return f"{PREFIX}/{self.mark}/{name}"

    @property
    def has_vendor(self) -> bool:
        return "js/vendor/htmx.js" in self.files


@cache
def assets() -> Assets:
    """Read once."""
    found = {str(path.relative_to(FOLDER)): path.read_bytes() for path in sorted(FOLDER.rglob("*")) if _is_ours(path)}
    styles = b"\n".join(data for name, data in found.items() if name.startswith("css/"))
    served = {name: data for name, data in found.items() if not name.startswith("css/")} | {STYLES: styles}
    digest = hashlib.sha256()
    for name, data in sorted(served.items()):
        digest.update(name.encode() + b"\0" + hashlib.sha256(data).digest())
    files = {name: Asset(_TYPES[PurePath(name).suffix], data) for name, data in served.items()}
    return Assets(digest.hexdigest()[:16], files)


def _is_ours(path: Path) -> bool:
    return path.is_file() and path.suffix in _TYPES


async def serve_asset(request: Request) -> Response:
    """An address of an older release is answered with what is here now, kept by nobody."""
    known = assets()
    asset = known.files.get(request.path_params["name"])
    if asset is None:
        return Response("There is no such file", 404, media_type="text/plain")
    current = request.path_params["mark"] == known.mark
    headers = {"Cache-Control": _FOR_GOOD if current else "no-store", "Vary": "Accept-Encoding"}
    if accepts_gzip(request.headers.get("accept-encoding", "")) and asset.small is not None:
        return Response(asset.small, headers={**headers, "Content-Encoding": "gzip"}, media_type=asset.kind)
    return Response(asset.plain, headers=headers, media_type=asset.kind)

"""A group's shared files: a folder at a time, with ways to look, fetch, put and remove."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath
from urllib.parse import quote, urlencode

from starlette.responses import Response

from holdfast.core.errors import NotFound, UserError
from holdfast.core.messages import msg
from holdfast.services.files.walk import Listing

from ...fields import Tab
from ...routes import page
from ...visit import Visit
from ..group_pages import group_path_of, tabs_of

ROWS = 500
_PICTURES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp"})
_TEXTS = frozenset({".txt", ".log", ".csv", ".tsv", ".md", ".json", ".yaml", ".yml", ".py", ".sh", ".ipynb", ".toml"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRow:
    name: str
    folder: bool
    size: int
    modified_at: datetime | None
    open: str  # the folder's page; of a file, itself
    view: str  # to be looked at in the browser; empty where it is not of such a kind
    delete: str
    phfs: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesPage:
    group: str
    title: str
    tabs: tuple[Tab, ...]
    path: str  # "" or "a/b"
    crumbs: tuple[tuple[str, str], ...]  # name, address
    rows: tuple[FileRow, ...]
    missing: bool  # the folder is not there yet
    left_out: int
    next: str  # address of what comes after; empty: that is all
    upload: str  # address to put files at, with a slash at its end
    most_bytes: int


async def show_files(visit: Visit) -> Response:
    group = visit.request.path_params["name"]
    path = visit.request.query_params.get("path", "").strip("/")
    after = visit.request.query_params.get("after", "")
    known = await visit.services.groups.get(visit.who, group)  # a group of others is not there at all
    found, missing = await _list(visit, group, path, after)
    more = not found.complete and found.items
    shown = FilesPage(
        group=group,
        title=known.display_name or group,
        tabs=tabs_of(visit, group, "files"),
        path=path,
        crumbs=tuple(_crumbs(group, path)),
        rows=tuple(_row(group, path, item.name, item.size, item.modified_at) for item in found.items),
        missing=missing,
        left_out=found.left_out,
        next=files_path(group, path, after=found.items[-1].name) if more else "",
        upload=rest_path(group, f"{path}/" if path else ""),
        most_bytes=visit.services.settings.files.max_upload_bytes,
    )
    return await visit.show("groups/files.html", shown)


async def _list(visit: Visit, group: str, path: str, after: str) -> tuple[Listing, bool]:
    """And whether the folder is not there: it comes about with the first file in it."""
    await visit.services.files.tree(visit.who, group)  # for members alone, also where everybody sees all groups
    try:
        return await visit.services.files.list(visit.who, group, path, limit=ROWS, after=after), False
    except NotFound:
        return Listing((), True, 0), True


def files_path(group: str, path: str = "", *, after: str = "") -> str:
    asked = {key: value for key, value in (("path", path), ("after", after)) if value}
    return group_path_of(group, "/files") + (f"?{urlencode(asked, safe='/', quote_via=quote)}" if asked else "")


def rest_path(group: str, path: str) -> str:
    """Where the REST API has a file."""
    return f"/api/v1/groups/{quote(group, safe='')}/files/{quote(path, safe='/')}"


def _crumbs(group: str, path: str) -> list[tuple[str, str]]:
    parts = path.split("/") if path else []
    return [(part, files_path(group, "/".join(parts[: number + 1]))) for number, part in enumerate(parts)]


def _row(group: str, path: str, name: str, size: int, modified_at: datetime | None) -> FileRow:
    folder = name.endswith("/")
    plain = name.rstrip("/")
    whole = f"{path}/{plain}" if path else plain
    file = rest_path(group, whole)
    shown = PurePosixPath(plain.lower()).suffix in _PICTURES | _TEXTS
    return FileRow(
        name=plain,
        folder=folder,
        size=size,
        modified_at=modified_at,
        open=files_path(group, whole) if folder else file,
        view=f"{file}?inline=true" if shown and not folder else "",
        delete=group_path_of(group, "/files/delete") + f"?{urlencode({'path': whole}, safe='/', quote_via=quote)}",
        phfs=f"phfs:///{whole}{'/' if folder else ''}",
    )


def parent_of(path: str) -> str:
    return path.rpartition("/")[0]


async def make_folder(visit: Visit) -> Response:
    """Only a way to its page: a folder is there once there is something in it."""
    group = visit.request.path_params["name"]
    inside, name = (visit.request.query_params.get(key, "").strip() for key in ("path", "folder"))
    if not name.strip("/"):
        raise UserError(msg("A folder needs a name"), field="folder")
    return visit.go(files_path(group, f"{inside}/{name.strip('/')}".strip("/")))


routes = [page("/groups/{name}/files", show_files), page("/groups/{name}/files/new-folder", make_folder)]

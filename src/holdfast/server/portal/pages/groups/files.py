"""Shared files of a group: one folder per page, with view, download, upload and delete."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath
from urllib.parse import quote, urlencode

from starlette.responses import Response

from holdfast.core.errors import NotFound, UserError
from holdfast.core.messages import msg
from holdfast.services.files.folder_scan import FileListing

from ...fields import Tab
from ...routes import build_page_route
from ...visit import Visit
from ..group_pages import build_group_path, build_group_tabs

MAX_FILE_ROWS = 500
_IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp"})
_TEXT_SUFFIXES = frozenset(
    {".txt", ".log", ".csv", ".tsv", ".md", ".json", ".yaml", ".yml", ".py", ".sh", ".ipynb", ".toml"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRow:
    name: str
    folder: bool
    size: int
    modified_at: datetime | None
    open: str  # the folder's page; of a file, itself
    view: str  # to view it in the browser; empty for other file types
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
    missing: bool  # the folder does not exist yet
    left_out: int
    next: str  # address of the next page; empty: this is the last one
    upload: str  # address for uploads, ending in a slash
    most_bytes: int


async def show_files(visit: Visit) -> Response:
    group = visit.path_params["name"]
    path = visit.query.get("path", "").strip("/")
    after = visit.query.get("after", "")
    known = await visit.services.groups.get(visit.current_actor, group)  # NotFound for a group of other users
    found, missing = await _list_folder(visit, group, path, after)
    more = not found.complete and found.items
    shown = FilesPage(
        group=group,
        title=known.display_name or group,
        tabs=build_group_tabs(visit, group, "files"),
        path=path,
        crumbs=tuple(_build_breadcrumbs(group, path)),
        rows=tuple(_build_file_row(group, path, item.name, item.size, item.modified_at) for item in found.items),
        missing=missing,
        left_out=found.left_out,
        next=build_files_path(group, path, after=found.items[-1].name) if more else "",
        upload=build_rest_path(group, f"{path}/" if path else ""),
        most_bytes=visit.services.settings.files.max_upload_bytes,
    )
    return await visit.render_response("groups/files.html", shown)


async def _list_folder(visit: Visit, group: str, path: str, after: str) -> tuple[FileListing, bool]:
    """List a folder; and whether it does not exist: the first file in it creates it."""
    files, actor = visit.services.files, visit.current_actor
    await files.get_tree(actor, group)  # for members only, even if all users see all groups
    try:
        return await files.list(actor, group, path, limit=MAX_FILE_ROWS, after=after), False
    except NotFound:
        return FileListing((), True, 0), True


def build_files_path(group: str, path: str = "", *, after: str = "") -> str:
    parameters = {key: value for key, value in (("path", path), ("after", after)) if value}
    return build_group_path(group, "/files") + (
        f"?{urlencode(parameters, safe='/', quote_via=quote)}" if parameters else ""
    )


def build_rest_path(group: str, path: str) -> str:
    """Return the path of a file in the REST API."""
    return f"/api/v1/groups/{quote(group, safe='')}/files/{quote(path, safe='/')}"


def _build_breadcrumbs(group: str, path: str) -> list[tuple[str, str]]:
    parts = path.split("/") if path else []
    return [(part, build_files_path(group, "/".join(parts[: number + 1]))) for number, part in enumerate(parts)]


def _build_file_row(group: str, path: str, name: str, size: int, modified_at: datetime | None) -> FileRow:
    folder = name.endswith("/")
    plain = name.rstrip("/")
    full_path = f"{path}/{plain}" if path else plain
    file = build_rest_path(group, full_path)
    shown = PurePosixPath(plain.lower()).suffix in _IMAGE_SUFFIXES | _TEXT_SUFFIXES
    return FileRow(
        name=plain,
        folder=folder,
        size=size,
        modified_at=modified_at,
        open=build_files_path(group, full_path) if folder else file,
        view=f"{file}?inline=true" if shown and not folder else "",
        delete=build_group_path(group, "/files/delete")
        + f"?{urlencode({'path': full_path}, safe='/', quote_via=quote)}",
        phfs=f"phfs:///{full_path}{'/' if folder else ''}",
    )


def get_parent_path(path: str) -> str:
    return path.rpartition("/")[0]


async def redirect_to_new_folder(visit: Visit) -> Response:
    """Redirect to the page of a new folder, which its first file creates."""
    group = visit.path_params["name"]
    inside, name = (visit.query.get(key, "").strip() for key in ("path", "folder"))
    if not name.strip("/"):
        raise UserError(msg("Enter a folder name"), field="folder")
    return visit.redirect(build_files_path(group, f"{inside}/{name.strip('/')}".strip("/")))


routes = [
    build_page_route("/groups/{name}/files", show_files),
    build_page_route("/groups/{name}/files/new-folder", redirect_to_new_folder),
]

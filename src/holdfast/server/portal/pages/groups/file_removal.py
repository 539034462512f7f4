"""Deletion of shared files, with a confirmation."""

from __future__ import annotations

from starlette.responses import Response

from holdfast.core.errors import NotFound, UserError
from holdfast.core.messages import msg

from ...fields import ConfirmPage, Link, handle_confirmation
from ...forms import Form
from ...routes import build_form_route, build_page_route
from ...visit import Visit
from ..group_pages import build_group_path
from .files import build_files_path, get_parent_path

_FILE_REMOVAL_PATH = "/groups/{name}/files/delete"


async def show_file_removal(visit: Visit) -> Response:
    path = visit.query.get("path", "")
    return await visit.render_response("parts/confirm.html", await _build_file_removal_page(visit, path))


async def delete_files(visit: Visit, form: Form) -> Response:
    group, path = visit.path_params["name"], form.get_raw_text("path")
    if not path.strip("/"):
        raise UserError(msg("No file is selected"), field="path")  # an empty field must not delete everything

    async def delete_and_redirect() -> Response:
        folder = form.get_text("kind") == "folder"
        count = await visit.services.files.delete(visit.current_actor, group, path, recursive=folder)
        message = visit.translate_plural("{count} file was deleted.", "{count} files were deleted.", count, count=count)
        return visit.redirect(build_files_path(group, get_parent_path(path)), message)

    return await handle_confirmation(visit, await _build_file_removal_page(visit, path), delete_and_redirect)


async def _build_file_removal_page(visit: Visit, path: str) -> ConfirmPage:
    _, group = visit.translate_text, visit.path_params["name"]
    folder, count = await _get_kind_and_file_count(visit, group, path)
    points = [_("This deletes it for all members of {group} and cannot be undone.", group=group)]
    if folder:
        text = visit.words.translate_plural("It contains {count} file.", "It contains {count} files.", count)
        points.insert(0, text.format(count=f"{count}+" if count >= _MAX_COUNTED_FILES else count))
    return ConfirmPage(
        title=_("Delete {path}?", path=path),
        points=tuple(points),
        action=build_group_path(group, "/files/delete"),
        submit=_("Delete"),
        back=Link(build_files_path(group, get_parent_path(path)), _("Shared files")),
        hidden={"path": path, "kind": "folder" if folder else "file"},
    )


_MAX_COUNTED_FILES = 1000


async def _get_kind_and_file_count(visit: Visit, group: str, path: str) -> tuple[bool, int]:
    """Return whether the path is a folder, and the number of files in it."""
    try:
        found = await visit.services.files.list(
            visit.current_actor, group, path, recursive=True, limit=_MAX_COUNTED_FILES
        )
        return True, len(found.items)
    except NotFound:
        file = await visit.services.files.open(visit.current_actor, group, path)  # NotFound if nothing exists
        file.file.close()
        return False, 1


routes = [build_page_route(_FILE_REMOVAL_PATH, show_file_removal), build_form_route(_FILE_REMOVAL_PATH, delete_files)]

"""Removing shared files: asked first, on a page that says what goes."""

from __future__ import annotations

from starlette.responses import Response

from holdfast.core.errors import NotFound, UserError
from holdfast.core.messages import msg

from ...fields import ConfirmPage, Link, try_confirm
from ...forms import Form
from ...routes import act, page
from ...visit import Visit
from ..group_pages import group_path_of
from .files import files_path, parent_of

_PATH = "/groups/{name}/files/delete"


async def ask(visit: Visit) -> Response:
    path = visit.request.query_params.get("path", "")
    return await visit.show("parts/confirm.html", await _question(visit, path))


async def delete(visit: Visit, form: Form) -> Response:
    group, path = visit.request.path_params["name"], form.raw("path")
    if not path.strip("/"):
        raise UserError(msg("Say which file is meant"), field="path")  # never all of them by an empty field

    async def work() -> Response:
        folder = form.text("kind") == "folder"
        count = await visit.services.files.delete(visit.who, group, path, recursive=folder)
        text = visit.words.count("{count} file is removed.", "{count} files are removed.", count)
        return visit.go(files_path(group, parent_of(path)), text.format(count=count))

    return await try_confirm(visit, await _question(visit, path), work)


async def _question(visit: Visit, path: str) -> ConfirmPage:
    say, group = visit.say, visit.request.path_params["name"]
    folder, count = await _content(visit, group, path)
    points = [say("It is gone for all members of {group}, and cannot be brought back.", group=group)]
    if folder:
        text = visit.words.count("{count} file lies in it.", "{count} files lie in it.", count)
        points.insert(0, text.format(count=f"{count}+" if count >= _COUNTED else count))
    return ConfirmPage(
        title=say("Remove {path}?", path=path),
        points=tuple(points),
        action=group_path_of(group, "/files/delete"),
        submit=say("Remove"),
        back=Link(files_path(group, parent_of(path)), say("Shared files")),
        hidden={"path": path, "kind": "folder" if folder else "file"},
    )


_COUNTED = 1000


async def _content(visit: Visit, group: str, path: str) -> tuple[bool, int]:
    """Whether it is a folder, and how many files are in it."""
    try:
        found = await visit.services.files.list(visit.who, group, path, recursive=True, limit=_COUNTED)
        return True, len(found.items)
    except NotFound:
        file = await visit.services.files.open(visit.who, group, path)  # NotFound when there is nothing at all
        file.file.close()
        return False, 1


routes = [page(_PATH, ask), act(_PATH, delete)]

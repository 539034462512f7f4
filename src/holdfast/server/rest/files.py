"""/groups/{group}/files: what a group shares."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import Response

from holdfast.api import files as api
from holdfast.services.files.service import MAX_ITEMS

from .. import any_path  # noqa: F401 - {path:any}
from ..access_guard import guard_request, require_files
from ..answers import answer
from ..auth import Ask, Caller
from ..file_answers import answer_file
from .addresses import rest_router
from .views import show_file, show_listing

router = rest_router("files")

BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The file itself.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
FILE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/octet-stream": {}}, "description": "The file itself; a part of it with Range (206)."}
}
Path = Annotated[str, Query(max_length=4000, description="A folder; left out: the uppermost one.")]
Recursive = Annotated[bool, Query(description="With all that lies below.")]
Inline = Annotated[bool, Query(description="To be looked at in a browser, where it is a picture or plain text.")]


@router.get("/groups/{group}/files", response_model=api.FileList)
async def list_files(
    group: str,
    actor: Caller,
    services: Ask,
    path: Path = "",
    recursive: Recursive = False,
    limit: Annotated[int, Query(ge=1, le=MAX_ITEMS)] = 1000,
    after: Annotated[str, Query(max_length=4000, description="`next` of the answer before.")] = "",
) -> Response:
    """What lies in a folder, by name; recursive: files only, wherever they lie below it."""
    found = await services.files.list(actor, group, path, recursive=recursive, limit=limit, after=after)
    return answer(show_listing(found))


@router.delete("/groups/{group}/files", response_model=api.RemovedFiles)
async def remove_files(
    group: str, actor: Caller, services: Ask, path: Path = "", recursive: Recursive = False
) -> Response:
    """A file, or a folder with all that is in it; without a path, everything."""
    return answer({"removed": await services.files.delete(actor, group, path, recursive=recursive)})


@router.get("/groups/{group}/files/{path:any}", response_class=Response, responses=FILE)
async def read_file(
    group: str, path: str, request: Request, actor: Caller, services: Ask, inline: Inline = False
) -> Response:
    file = await services.files.open(actor, group, path)
    return answer_file(
        file,
        guard_request(services, request, require_files(group)),
        inline=inline,
        asked=request.headers.get("range", ""),
    )


@router.put("/groups/{group}/files/{path:any}", response_model=api.File, openapi_extra=BODY)
async def put_file(group: str, path: str, request: Request, actor: Caller, services: Ask) -> Response:
    """The body is the file itself. Folders on the way are made; a file of that path is replaced, once all is there."""
    guard = guard_request(services, request, require_files(group))
    return answer(show_file(await guard.run(services.files.put(actor, group, path, request.stream()))))


@router.delete("/groups/{group}/files/{path:any}", response_model=api.RemovedFiles)
async def remove_file(group: str, path: str, actor: Caller, services: Ask, recursive: Recursive = False) -> Response:
    return answer({"removed": await services.files.delete(actor, group, path, recursive=recursive)})

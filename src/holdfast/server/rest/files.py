"""/groups/{group}/files: the shared files of a group."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import Response

from holdfast.api import files as api
from holdfast.services.files.service import MAX_ITEMS

from .. import any_path  # noqa: F401 - {path:any}
from ..access_guard import guard_request, require_files_access
from ..auth import Caller, ServicesDep
from ..file_responses import respond_with_file
from ..responses import respond_json
from .routing import build_router
from .views import respond_record

router = build_router("files")

BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The content of the file.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
FILE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/octet-stream": {}}, "description": "The file; a part of it with Range (206)."}
}
Path = Annotated[str, Query(max_length=4000, description="A folder; default: the top folder.")]
Recursive = Annotated[bool, Query(description="Include subfolders.")]
Inline = Annotated[bool, Query(description="Show it in the browser if it is an image or plain text.")]


@router.get("/groups/{group}/files", response_model=api.FileList)
async def list_files(
    group: str,
    actor: Caller,
    services: ServicesDep,
    path: Path = "",
    recursive: Recursive = False,
    limit: Annotated[int, Query(ge=1, le=MAX_ITEMS)] = 1000,
    after: Annotated[str, Query(max_length=4000, description="`next` of the previous page.")] = "",
) -> Response:
    """List a folder, sorted by name; recursive: all files below it, without folders."""
    found = await services.files.list(actor, group, path, recursive=recursive, limit=limit, after=after)
    more = not found.complete and bool(found.items)
    return respond_record(api.FileList, found, next=found.items[-1].name if more else None)


@router.delete("/groups/{group}/files", response_model=api.RemovedFiles)
async def remove_files(
    group: str, actor: Caller, services: ServicesDep, path: Path = "", recursive: Recursive = False
) -> Response:
    """Delete a file, or a folder with its content; without a path, everything."""
    return respond_json({"removed": await services.files.delete(actor, group, path, recursive=recursive)})


@router.get("/groups/{group}/files/{path:any}", response_class=Response, responses=FILE)
async def read_file(
    group: str, path: str, request: Request, actor: Caller, services: ServicesDep, inline: Inline = False
) -> Response:
    file = await services.files.open(actor, group, path)
    return respond_with_file(
        file,
        guard_request(services, request, require_files_access(group)),
        inline=inline,
        asked=request.headers.get("range", ""),
    )


@router.put("/groups/{group}/files/{path:any}", response_model=api.File, openapi_extra=BODY)
async def put_file(group: str, path: str, request: Request, actor: Caller, services: ServicesDep) -> Response:
    """The body is the content of the file. Missing folders are created; an existing file is replaced at the end."""
    guard = guard_request(services, request, require_files_access(group))
    uploaded = await guard.run_guarded(services.files.upload(actor, group, path, request.stream()))
    return respond_record(api.File, uploaded)


@router.delete("/groups/{group}/files/{path:any}", response_model=api.RemovedFiles)
async def remove_file(
    group: str, path: str, actor: Caller, services: ServicesDep, recursive: Recursive = False
) -> Response:
    return respond_json({"removed": await services.files.delete(actor, group, path, recursive=recursive)})

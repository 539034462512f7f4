"""/groups/{group}/files: the shared files of a group."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import Response

from holdfast.api import files as api
from holdfast.services.files.service import MAX_LISTED_ENTRIES

from .. import any_path  # noqa: F401 - {path:any}
from ..access_guard import make_files_access_check, make_request_guard
from ..auth import Caller, ServicesDep
from ..file_responses import respond_with_file
from ..responses import respond_json
from .routing import build_router
from .views import respond_record

router = build_router("files")

FILE_REQUEST_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The content of the file.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
FILE_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/octet-stream": {}}, "description": "The file; a part of it with Range (206)."}
}
FolderPath = Annotated[str, Query(max_length=4000, description="A folder; default: the top folder.")]
RecursiveFlag = Annotated[bool, Query(description="Include subfolders.")]
InlineFlag = Annotated[bool, Query(description="Show it in the browser if it is an image or plain text.")]


@router.get("/groups/{group}/files", response_model=api.FileList)
async def list_files(
    group: str,
    actor: Caller,
    services: ServicesDep,
    path: FolderPath = "",
    recursive: RecursiveFlag = False,
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED_ENTRIES)] = 1000,
    after: Annotated[str, Query(max_length=4000, description="`next` of the previous page.")] = "",
) -> Response:
    """List a folder, sorted by name; recursive: all files below it, without folders."""
    found = await services.files.list(actor, group, path, recursive=recursive, limit=limit, after=after)
    more = not found.complete and bool(found.items)
    return respond_record(api.FileList, found, next=found.items[-1].name if more else None)


@router.delete("/groups/{group}/files", response_model=api.FileRemovalResult)
async def remove_files(
    group: str, actor: Caller, services: ServicesDep, path: FolderPath = "", recursive: RecursiveFlag = False
) -> Response:
    """Delete a file, or a folder with its content; without a path, everything."""
    return respond_json({"removed": await services.files.delete(actor, group, path, recursive=recursive)})


@router.get("/groups/{group}/files/{path:any}", response_class=Response, responses=FILE_RESPONSES)
async def read_file(
    group: str, path: str, request: Request, actor: Caller, services: ServicesDep, inline: InlineFlag = False
) -> Response:
    file = await services.files.open(actor, group, path)
    return respond_with_file(
        file,
        make_request_guard(services, request, make_files_access_check(group)),
        inline=inline,
        asked=request.headers.get("range", ""),
    )


@router.put("/groups/{group}/files/{path:any}", response_model=api.File, openapi_extra=FILE_REQUEST_BODY)
async def put_file(group: str, path: str, request: Request, actor: Caller, services: ServicesDep) -> Response:
    """The body is the content of the file. Missing folders are created; an existing file is replaced at the end."""
    guard = make_request_guard(services, request, make_files_access_check(group))
    uploaded = await guard.run_guarded(services.files.upload(actor, group, path, request.stream()))
    return respond_record(api.File, uploaded)


@router.delete("/groups/{group}/files/{path:any}", response_model=api.FileRemovalResult)
async def remove_file(
    group: str, path: str, actor: Caller, services: ServicesDep, recursive: RecursiveFlag = False
) -> Response:
    return respond_json({"removed": await services.files.delete(actor, group, path, recursive=recursive)})

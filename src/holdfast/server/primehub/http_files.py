"""Shared files over plain HTTP, below /api/files/groups/GROUP/: bytes in, bytes out."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from holdfast.core.access import Actor
from holdfast.server import any_path  # noqa: F401 - {path:any}
from holdfast.server.access_guard import guard_request, require_files
from holdfast.server.answers import answer
from holdfast.server.auth import actor_of, services_of
from holdfast.server.file_answers import answer_file

from .errors import INVALID, NOT_FOUND, PhError

FILES = "/api/files/groups/"


async def send_file(request: Request) -> Response:
    """With `download` it is to be kept, without it a browser may show what does nothing there."""
    actor, group = await _group(request)
    services = services_of(request)
    file = await services.files.open(actor, group, request.path_params["path"])
    inline = request.query_params.get("download", "") in ("", "0", "false")
    return answer_file(
        file,
        guard_request(services, request, require_files(group)),
        inline=inline,
        asked=request.headers.get("range", ""),
    )


async def take_file(request: Request) -> Response:
    actor, group = await _group(request)
    services = services_of(request)
    guard = guard_request(services, request, require_files(group))
    await guard.run(services.files.put(actor, group, request.path_params["path"], request.stream()))
    return answer({"success": True})


async def refuse_method(request: Request) -> Response:
    allowed = {"Allow": "GET, HEAD, OPTIONS, POST"}
    if request.method == "OPTIONS":
        return Response(status_code=204, headers=allowed)
    said = "Shared files are read with GET and written with POST here. The mutation deleteFiles removes them."
    response = answer({"code": INVALID, "message": said}, 405)
    response.headers.update(allowed)
    return response


async def refuse_address(request: Request) -> Response:
    raise PhError("There is nothing at this address.", NOT_FOUND)


async def refuse_share(request: Request) -> Response:
    raise PhError("Nothing is shared by link here.", NOT_FOUND)


async def _group(request: Request) -> tuple[Actor, str]:
    actor = await actor_of(request)
    return actor, await services_of(request).files.group_of_path(actor, request.path_params["group"])

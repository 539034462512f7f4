"""Shared files over plain HTTP, below /api/files/groups/GROUP/."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from holdfast.core.access import Actor
from holdfast.server import any_path  # noqa: F401 - {path:any}
from holdfast.server.access_guard import make_files_access_check, make_request_guard
from holdfast.server.auth import authenticate_request, get_services
from holdfast.server.file_responses import respond_with_file
from holdfast.server.responses import respond_json

from .errors import INVALID_BODY_CODE, NOT_FOUND_CODE, PrimeHubError

FILES_PREFIX = "/api/files/groups/"


async def send_file(request: Request) -> Response:
    """Send a file. With `download` as an attachment, otherwise harmless types are shown in the browser."""
    actor, group = await _resolve_actor_and_group(request)
    services = get_services(request)
    file = await services.files.open(actor, group, request.path_params["path"])
    inline = request.query_params.get("download", "") in ("", "0", "false")
    return respond_with_file(
        file,
        make_request_guard(services, request, make_files_access_check(group)),
        inline=inline,
        asked=request.headers.get("range", ""),
    )


async def receive_file(request: Request) -> Response:
    actor, group = await _resolve_actor_and_group(request)
    services = get_services(request)
    guard = make_request_guard(services, request, make_files_access_check(group))
    await guard.run_guarded(services.files.upload(actor, group, request.path_params["path"], request.stream()))
    return respond_json({"success": True})


async def reject_method(request: Request) -> Response:
    allowed = {"Allow": "GET, HEAD, OPTIONS, POST"}
    if request.method == "OPTIONS":
        return Response(status_code=204, headers=allowed)
    message = "Read shared files with GET, write them with POST, and delete them with the mutation deleteFiles."
    response = respond_json({"code": INVALID_BODY_CODE, "message": message}, 405)
    response.headers.update(allowed)
    return response


async def reject_unknown_path(request: Request) -> Response:
    raise PrimeHubError("Not found.", NOT_FOUND_CODE)


async def reject_share_link(request: Request) -> Response:
    raise PrimeHubError("Share links are not supported.", NOT_FOUND_CODE)


async def _resolve_actor_and_group(request: Request) -> tuple[Actor, str]:
    actor = await authenticate_request(request)
    return actor, await get_services(request).files.find_group_by_path(actor, request.path_params["group"])

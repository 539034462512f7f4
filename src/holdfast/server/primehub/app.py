"""PrimeHub's endpoints below /api: GraphQL, logs, files. Holdfast's own API is below /api/v1."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.core.errors import UserError
from holdfast.server.responses import respond_json
from holdfast.services import Services
from holdfast.settings import Settings

from .errors import GRAPHQL_PATH, PrimeHubError, respond_plain_error
from .graphql.bodies import MAX_QUERY_LENGTH
from .http_files import FILES_PREFIX, receive_file, reject_method, reject_share_link, reject_unknown_path, send_file
from .jobs.logs import reject_notebook_log, reject_unsupported_log, send_job_log
from .lazy_graphql import LazyGraphQL
from .people.auth_flow import build_auth_routes
from .report_files import REPORTS_PATH, build_report_routes

MAX_BODY_SIZE = 64 * 1024  # bytes

PRIMEHUB_PREFIXES = (GRAPHQL_PATH, "/api/logs/", "/api/files/", "/api/share/", REPORTS_PATH)

Handler = Callable[[Request], Awaitable[Response]]


def is_primehub_path(path: str) -> bool:
    return path.startswith(PRIMEHUB_PREFIXES)


def get_max_body_size(path: str, settings: Settings) -> int:
    """Return the maximum body size. A form-encoded job has up to three times the bytes, plus the query."""
    if path.startswith(FILES_PREFIX):
        return settings.files.max_upload_bytes
    return 3 * settings.server.max_job_bytes + MAX_QUERY_LENGTH if path == GRAPHQL_PATH else MAX_BODY_SIZE


def build_primehub_routes(services: Services) -> list[Route]:
    graphql = LazyGraphQL(services)
    every = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
    return [
        Route(GRAPHQL_PATH, graphql.handle_request, methods=every),
        Route("/api/health", show_health),
        Route("/api/logs/namespaces/{namespace}/phjobs/{id}", wrap_plain_handler(send_job_log)),
        Route("/api/logs/jupyterhub", wrap_plain_handler(reject_notebook_log)),
        Route("/api/logs/{path:path}", wrap_plain_handler(reject_unsupported_log), methods=every),
        Route(f"{FILES_PREFIX}{{group}}/{{path:any}}", wrap_plain_handler(send_file)),
        Route(f"{FILES_PREFIX}{{group}}/{{path:any}}", wrap_plain_handler(receive_file), methods=["POST"]),
        Route(
            f"{FILES_PREFIX}{{group}}/{{path:any}}",
            wrap_plain_handler(reject_method),
            methods=["PUT", "PATCH", "DELETE", "OPTIONS"],
        ),
        Route("/api/files/{path:path}", wrap_plain_handler(reject_unknown_path), methods=every),
        Route("/api/graphql/{path:path}", wrap_plain_handler(reject_unknown_path), methods=every),
        Route("/api/share/{path:path}", wrap_plain_handler(reject_share_link), methods=every),
        *build_report_routes(wrap_plain_handler),
        *build_auth_routes(),
    ]


async def show_health(request: Request) -> Response:
    """Return 200 without login while the server responds."""
    return respond_json({"status": "ok"})


def wrap_plain_handler(handler: Handler) -> Handler:
    """Return the handler with errors in the shape of PrimeHub's endpoints that are not GraphQL."""

    async def handle_request(request: Request) -> Response:
        try:
            return await handler(request)
        except (PrimeHubError, UserError) as error:
            return respond_plain_error(error)
        except HTTPException as error:  # the body is too large, detected while reading
            return respond_json({"code": "REQUEST_BODY_INVALID", "message": error.detail}, error.status_code)

    return handle_request

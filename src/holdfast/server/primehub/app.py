"""PrimeHub's addresses below /api: GraphQL, logs, files. They stand beside our own below /api/v1."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.core.errors import UserError
from holdfast.server.answers import answer
from holdfast.services import Services
from holdfast.settings import Settings

from .errors import GRAPHQL, PhError, answer_plainly
from .graphql.bodies import MAX_QUERY_LENGTH
from .http_files import FILES, refuse_address, refuse_method, refuse_share, send_file, take_file
from .jobs.logs import refuse_log, send_job_log, send_notebook_log
from .lazy_graphql import GraphQLLater
from .people.auth_flow import auth_routes
from .report_files import REPORTS, report_routes

SMALL_BODY = 64 * 1024  # bytes

PREFIXES = (GRAPHQL, "/api/logs/", "/api/files/", "/api/share/", REPORTS)

Handler = Callable[[Request], Awaitable[Response]]


def is_primehub(path: str) -> bool:
    return path.startswith(PREFIXES)


def most_bytes(path: str, settings: Settings) -> int:
    """Of a body sent there. A job within a form takes up to three times the bytes, and some for the query."""
    if path.startswith(FILES):
        return settings.files.max_upload_bytes
    return 3 * settings.server.max_job_bytes + MAX_QUERY_LENGTH if path == GRAPHQL else SMALL_BODY


def primehub_routes(services: Services) -> list[Route]:
    graphql = GraphQLLater(services)
    every = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
    return [
        Route(GRAPHQL, graphql.answer, methods=every),
        Route("/api/health", show_health),
        Route("/api/logs/namespaces/{namespace}/phjobs/{id}", answering(send_job_log)),
        Route("/api/logs/jupyterhub", answering(send_notebook_log)),
        Route("/api/logs/{path:path}", answering(refuse_log), methods=every),
        Route(f"{FILES}{{group}}/{{path:any}}", answering(send_file)),
        Route(f"{FILES}{{group}}/{{path:any}}", answering(take_file), methods=["POST"]),
        Route(
            f"{FILES}{{group}}/{{path:any}}", answering(refuse_method), methods=["PUT", "PATCH", "DELETE", "OPTIONS"]
        ),
        Route("/api/files/{path:path}", answering(refuse_address), methods=every),
        Route("/api/graphql/{path:path}", answering(refuse_address), methods=every),
        Route("/api/share/{path:path}", answering(refuse_share), methods=every),
        *report_routes(answering),
        *auth_routes(),
    ]


async def show_health(request: Request) -> Response:
    """For anyone; 200 while it can answer at all."""
    return answer({"status": "ok"})


def answering(handler: Handler) -> Handler:
    """With refusals in the shape of PrimeHub's addresses that are not GraphQL."""

    async def answered(request: Request) -> Response:
        try:
            return await handler(request)
        except (PhError, UserError) as error:
            return answer_plainly(error)
        except HTTPException as error:  # the body is too large, found out while reading
            return answer({"code": "REQUEST_BODY_INVALID", "message": error.detail}, error.status_code)

    return answered

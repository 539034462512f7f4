"""The HTTP application: routes in front of the services."""

from __future__ import annotations

import re
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import Scope

from holdfast import __version__
from holdfast.core.errors import Forbidden, NotLoggedIn, UserError
from holdfast.services import Services
from holdfast.settings import Settings

from .auth import read_request_token
from .docs_page import render_docs
from .errors import add_error_handlers, render_unhandled_error, should_render_page
from .forwarded import ForwardedHeadersMiddleware
from .lazy_routes import LazyRoutes, render_error_page, render_missing_page, render_refusal_page
from .openapi import complete_schema
from .openpai.app import RestServer
from .openpai.auth import find_actor as find_openpai_actor
from .openpai.cross_origin import CorsMiddleware, is_cross_origin_path
from .openpai.endpoints import AccessLevel
from .openpai.errors import PaiError
from .openpai.errors import render_unhandled_error as render_for_openpai
from .openpai.jobs.log_manager import list_log_routes
from .openpai.routes import accepts_job_file
from .primehub.app import build_primehub_routes, get_max_body_size, is_primehub_path
from .primehub.errors import render_unhandled_error as render_for_primehub
from .primehub.http_files import FILES_PREFIX
from .prometheus import build_metrics_routes
from .prometheus_requests import RequestMetricsMiddleware
from .request_middleware import BodyLimitLookup, KnownSenderCheck, RequestMiddleware
from .responses import respond_json, respond_text
from .rest import account, holds, inside, installation, jobs, logs, people, stacks, why
from .rest.routing import API_PREFIX
from .rest.sockets import exec as exec_socket
from .rest.sockets import ports as port_sockets
from .sessions import read_session_cookie

IMAGES_PATH = f"{API_PREFIX}/images"
MAX_BODY_SIZE = 1024 * 1024  # bytes; for everything but jobs and images
JOB_FORM_PATH_PATTERN = re.compile(r"/jobs/new|/jobs/new/check|/schedules/new|/schedules/check|/schedules/[^/]+/edit")
FORM_SIZE_FACTOR = 3  # a form-encoded text can be this many times as long
MAX_OPENPAI_BODY_SIZE = 256 * 1024  # bytes; for OpenPAI's clients, whose forms take longer to parse


def create_app(services: Services) -> FastAPI:
    app = FastAPI(
        title="Holdfast",
        version=__version__,
        description="Run batch jobs on shared machines, see why they wait or fail, and debug failed tasks in a shell.",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.services = services
    # First, and without FastAPI's overhead: see rest.jobs.submit_job.
    app.router.routes.append(Route(f"{API_PREFIX}/jobs", jobs.submit_job, methods=["POST"]))
    for module in (jobs, why, holds, logs, inside, exec_socket, port_sockets, stacks, people, account, installation):
        app.router.routes.extend(module.router.routes)
    app.router.routes.append(Mount("/rest-server", RestServer(services)))
    app.router.routes.extend(list_log_routes())
    app.router.routes.extend(build_metrics_routes())
    app.router.routes.extend(build_primehub_routes(services))
    app.state.lazy_routes = lazy_routes = LazyRoutes(app)
    _add_root_routes(app, lazy_routes)
    _install_openapi(app, lazy_routes)
    add_error_handlers(app, render_missing_page, render_error_page)
    app.add_middleware(CorsMiddleware)
    app.add_middleware(
        RequestMiddleware,
        limit=build_body_limit(services.settings),
        refuse=_render_refusal,
        knows=_build_sender_check(services),
        is_streamed=is_streamed_upload,
    )
    app.add_middleware(RequestMetricsMiddleware, vitals=services.server_metrics)
    app.add_middleware(ForwardedHeadersMiddleware, trusted=services.settings.server.trusted_proxies)
    return app


def build_body_limit(settings: Settings) -> BodyLimitLookup:
    """Return a function that gives the maximum body size for a method and path, in bytes."""
    job_paths = {f"{API_PREFIX}/jobs", f"{API_PREFIX}/jobs/plan"}

    def get_limit(method: str, path: str) -> int:
        if path in job_paths or accepts_job_file(method, path):
            return settings.server.max_job_bytes
        if JOB_FORM_PATH_PATTERN.fullmatch(path):
            return FORM_SIZE_FACTOR * settings.server.max_job_bytes + MAX_OPENPAI_BODY_SIZE
        if path == IMAGES_PATH:
            return settings.server.max_image_bytes
        if _is_file_upload(method, path):
            return settings.files.max_upload_bytes
        if is_primehub_path(path):
            return get_max_body_size(path, settings)
        return MAX_OPENPAI_BODY_SIZE if is_cross_origin_path(path) else MAX_BODY_SIZE

    return get_limit


def is_streamed_upload(method: str, path: str) -> bool:
    """Return whether an upload is streamed because it is too large for memory; these handlers have an access guard."""
    return _is_file_upload(method, path) or (
        method == "POST" and (path == IMAGES_PATH or path.startswith(FILES_PREFIX))
    )


def _is_file_upload(method: str, path: str) -> bool:
    return method == "PUT" and path.startswith(f"{API_PREFIX}/groups/") and "/files/" in path


def _build_sender_check(services: Services) -> KnownSenderCheck:
    async def is_known_sender(scope: Scope) -> bool:
        request = Request(scope)
        try:
            if is_cross_origin_path(scope["path"]):  # the OpenPAI API also accepts a user name with a token as password
                await find_openpai_actor(request, services, AccessLevel.USER)
            else:
                await services.tokens.resolve_actor(_read_login_token(request))
        except (Forbidden, NotLoggedIn, PaiError):
            return False
        return True

    return is_known_sender


def _read_login_token(request: Request) -> str:
    """Return the token of the request. The CSRF token can be in the form, which arrives later."""
    session = read_session_cookie(request) if "authorization" not in request.headers else None
    return session or read_request_token(request)


def _render_refusal(scope: Scope, error: UserError | None, request_id: str) -> Response:
    path, request = scope["path"], Request(scope)
    if is_primehub_path(path):
        return render_for_primehub(path, error, request_id)
    if is_cross_origin_path(path):
        return render_for_openpai(error, request_id)
    return (
        render_refusal_page(request, error)
        if should_render_page(request)
        else render_unhandled_error(error, request_id)
    )


def _add_root_routes(app: FastAPI, lazy_routes: LazyRoutes) -> None:
    @app.get(f"{API_PREFIX}/openapi.json", include_in_schema=False)
    async def show_openapi() -> Response:
        await lazy_routes.load_stage_for(API_PREFIX)
        return respond_json(app.openapi())

    @app.get("/api/docs", include_in_schema=False)
    async def show_docs() -> Response:
        await lazy_routes.load_stage_for(API_PREFIX)
        return Response(render_docs(app.openapi()), media_type="text/html")

    @app.get("/healthz", include_in_schema=False)
    async def show_openpai_health() -> Response:
        return respond_text("Pylon ready.", "text/plain")  # OpenPAI's clients find its REST server by this text


def _install_openapi(app: FastAPI, lazy_routes: LazyRoutes) -> None:
    """Build the OpenAPI schema once, with additions that FastAPI cannot derive."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            lazy_routes.load_stage_now(API_PREFIX)
            app.openapi_schema = complete_schema(generate(), API_PREFIX, app.routes)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]

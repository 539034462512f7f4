"""The HTTP application: services behind addresses."""

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

from .answers import answer, answer_text
from .auth import token_of
from .docs_page import render_docs
from .errors import add_handlers, render_outermost, wants_page
from .forwarded import ForwardedHeaders
from .late_routes import LateRoutes, show_fault, show_missing, show_refusal
from .openapi import complete
from .openpai.app import RestServer
from .openpai.auth import find_actor as find_openpai_actor
from .openpai.cross_origin import CrossOrigin, is_open
from .openpai.endpoints import Who
from .openpai.errors import PaiError
from .openpai.errors import render_outermost as render_for_openpai
from .openpai.jobs.log_manager import log_routes
from .openpai.routes import takes_job
from .primehub.app import is_primehub, most_bytes, primehub_routes
from .primehub.errors import render_outermost as render_for_primehub
from .primehub.http_files import FILES
from .prometheus import metrics_routes
from .prometheus_requests import Counted
from .request_middleware import Border, Knows, Limit
from .rest import account, holds, inside, installation, jobs, logs, people, stacks, why
from .rest.addresses import PREFIX
from .rest.sockets import exec as exec_socket
from .rest.sockets import ports as port_sockets
from .sessions import session_of

IMAGES = f"{PREFIX}/images"
SMALL_BODY = 1024 * 1024  # bytes; for what is neither a job nor an image
FORMS_WITH_JOBS = re.compile(r"/jobs/new|/jobs/new/check|/schedules/new|/schedules/check|/schedules/[^/]+/edit")
AS_A_FORM = 3  # times as long as a text may be that a form carries
SMALLER_BODY = 256 * 1024  # bytes; of OpenPAI's clients, whose forms take longer to read


def create_app(services: Services) -> FastAPI:
    app = FastAPI(
        title="Holdfast",
        version=__version__,
        description="Run batch jobs on shared machines, see why they wait or fail, and get inside when they break.",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.services = services
    # First, and without the framework's own machinery: see rest.jobs.submit_job.
    app.router.routes.append(Route(f"{PREFIX}/jobs", jobs.submit_job, methods=["POST"]))
    for module in (jobs, why, holds, logs, inside, exec_socket, port_sockets, stacks, people, account, installation):
        app.router.routes.extend(module.router.routes)
    app.router.routes.append(Mount("/rest-server", RestServer(services)))
    app.router.routes.extend(log_routes())
    app.router.routes.extend(metrics_routes())
    app.router.routes.extend(primehub_routes(services))
    app.state.late_routes = late = LateRoutes(app)
    _add_pages(app, late)
    _describe(app, late)
    add_handlers(app, show_missing, show_fault)
    app.add_middleware(CrossOrigin)
    app.add_middleware(
        Border,
        limit=body_limit(services.settings),
        refuse=_refuse,
        knows=_knows(services),
        is_streamed=is_streamed,
    )
    app.add_middleware(Counted, vitals=services.vitals)
    app.add_middleware(ForwardedHeaders, trusted=services.settings.server.trusted_proxies)
    return app


def body_limit(settings: Settings) -> Limit:
    """How many bytes each address takes."""
    job_paths = {f"{PREFIX}/jobs", f"{PREFIX}/jobs/plan"}

    def limit(method: str, path: str) -> int:
        if path in job_paths or takes_job(method, path):
            return settings.server.max_job_bytes
        if FORMS_WITH_JOBS.fullmatch(path):
            return AS_A_FORM * settings.server.max_job_bytes + SMALLER_BODY
        if path == IMAGES:
            return settings.server.max_image_bytes
        if _puts_file(method, path):
            return settings.files.max_upload_bytes
        if is_primehub(path):
            return most_bytes(path, settings)
        return SMALLER_BODY if is_open(path) else SMALL_BODY

    return limit


def is_streamed(method: str, path: str) -> bool:
    """Uploads too large to be kept in memory; each of their handlers has an access guard."""
    return _puts_file(method, path) or (method == "POST" and (path == IMAGES or path.startswith(FILES)))


def _puts_file(method: str, path: str) -> bool:
    return method == "PUT" and path.startswith(f"{PREFIX}/groups/") and "/files/" in path


def _knows(services: Services) -> Knows:
    async def knows(scope: Scope) -> bool:
        request = Request(scope)
        try:
            if is_open(scope["path"]):  # where a user with a token as password is known, too
                await find_openpai_actor(request, services, Who.USER)
            else:
                await services.tokens.actor(_login_of(request))
        except (Forbidden, NotLoggedIn, PaiError):
            return False
        return True

    return knows


def _login_of(request: Request) -> str:
    """Whose request it seems to be. The proof that a page of ours sent it may stand in the form, which comes later."""
    session = session_of(request) if "authorization" not in request.headers else None
    return session or token_of(request)


def _refuse(scope: Scope, error: UserError | None, request_id: str) -> Response:
    path, request = scope["path"], Request(scope)
    if is_primehub(path):
        return render_for_primehub(path, error, request_id)
    if is_open(path):
        return render_for_openpai(error, request_id)
    return show_refusal(request, error) if wants_page(request) else render_outermost(error, request_id)


def _add_pages(app: FastAPI, late: LateRoutes) -> None:
    @app.get(f"{PREFIX}/openapi.json", include_in_schema=False)
    async def show_openapi() -> Response:
        await late.load(PREFIX)
        return answer(app.openapi())

    @app.get("/api/docs", include_in_schema=False)
    async def show_docs() -> Response:
        await late.load(PREFIX)
        return Response(render_docs(app.openapi()), media_type="text/html")

    @app.get("/healthz", include_in_schema=False)
    async def show_gateway() -> Response:
        return answer_text("Pylon ready.", "text/plain")  # by this OpenPAI's clients know where its REST server is


def _describe(app: FastAPI, late: LateRoutes) -> None:
    """OpenAPI, made once, with what the framework cannot know."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            late.load_now(PREFIX)
            app.openapi_schema = complete(generate(), PREFIX, app.routes)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]

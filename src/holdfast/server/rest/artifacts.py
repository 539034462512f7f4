"""/jobs/{ref}/artifacts: what was kept of a job's files."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from holdfast.api import files as api

from .. import any_path  # noqa: F401 - {path:any}
from ..access_guard import guard_request, require_job
from ..answers import answer
from ..auth import Ask, Caller
from ..file_answers import answer_file
from .addresses import rest_router
from .files import FILE, Inline
from .views import show_file

router = rest_router("jobs")


@router.get("/jobs/{ref}/artifacts", response_model=api.Artifacts)
async def list_artifacts(ref: str, actor: Caller, services: Ask) -> Response:
    found = await services.artifacts.list(actor, ref)
    items = [show_file(item) for item in found.items]
    return answer({"job": found.job.id, "group": found.job.group, "items": items, "complete": found.complete})


@router.get("/jobs/{ref}/artifacts/{path:any}", response_class=Response, responses=FILE)
async def read_artifact(
    ref: str, path: str, request: Request, actor: Caller, services: Ask, inline: Inline = False
) -> Response:
    job, file = await services.artifacts.open_with_job(actor, ref, path)
    return answer_file(
        file, guard_request(services, request, require_job(job)), inline=inline, asked=request.headers.get("range", "")
    )

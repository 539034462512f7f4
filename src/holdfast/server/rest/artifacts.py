"""/jobs/{ref}/artifacts: files that were saved from a job."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from holdfast.api import files as api

from .. import any_path  # noqa: F401 - {path:any}
from ..access_guard import make_job_access_check, make_request_guard
from ..auth import Caller, ServicesDep
from ..file_responses import respond_with_file
from .files import FILE_RESPONSES, InlineFlag
from .routing import build_router
from .views import respond_record

router = build_router("jobs")


@router.get("/jobs/{ref}/artifacts", response_model=api.ArtifactList)
async def list_artifacts(ref: str, actor: Caller, services: ServicesDep) -> Response:
    found = await services.artifacts.list(actor, ref)
    return respond_record(api.ArtifactList, found, job=found.job.id, group=found.job.group)


@router.get("/jobs/{ref}/artifacts/{path:any}", response_class=Response, responses=FILE_RESPONSES)
async def read_artifact(
    ref: str, path: str, request: Request, actor: Caller, services: ServicesDep, inline: InlineFlag = False
) -> Response:
    job, file = await services.artifacts.open_with_job(actor, ref, path)
    return respond_with_file(
        file,
        make_request_guard(services, request, make_job_access_check(job)),
        inline=inline,
        asked=request.headers.get("range", ""),
    )

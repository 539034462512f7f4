"""GET /v2/jobs/<user>~<job>/config: the job file, its secrets masked, as protocol v2."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from starlette.responses import Response

from holdfast.core.job import Job
from holdfast.jobspec.openpai_render import build_openpai_config

from ..call import Call
from ..endpoints import AccessLevel, endpoint
from .lookup import find_job_by_framework


@endpoint(
    "GET",
    "/v2/jobs/{framework}/config",
    who=AccessLevel.READER,
    note="every job as a v2 file, also if it was submitted in another format; secrets are always masked",
)
async def get_config(call: Call) -> Response:
    found = await find_job_by_framework(call, call.get_path_text("framework"))
    job = (await call.services.jobs.load_detail(call.actor, found.id)).job
    text = await asyncio.to_thread(config_to_text, job)
    return Response(text.encode(), media_type="text/yaml")


def config_to_text(job: Job) -> str:
    """Return JSON text, which is also YAML. It never contains a secret."""
    config: dict[str, Any] = build_openpai_config(job)
    return json.dumps(config, indent=2)

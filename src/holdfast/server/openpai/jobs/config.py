"""GET /v2/jobs/<user>~<job>/config: the job file, its secrets masked, as protocol v2."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from starlette.responses import Response

from holdfast.core.job import Job
from holdfast.jobspec.openpai_render import render_openpai

from ..call import Call
from ..endpoints import Who, endpoint
from .lookup import find_framework


@endpoint(
    "GET",
    "/v2/jobs/{framework}/config",
    who=Who.READER,
    note="any job, also one written as v1 or in another dialect, as a v2 file; secrets are masked in every layout",
)
async def get_config(call: Call) -> Response:
    found = await find_framework(call, call.path("framework"))
    job = (await call.services.jobs.record(call.actor, found.id)).job
    text = await asyncio.to_thread(write_config, job)
    return Response(text.encode(), media_type="text/yaml")


def write_config(job: Job) -> str:
    """JSON text, which is YAML as well. It never holds a secret."""
    config: dict[str, Any] = render_openpai(job)
    return json.dumps(config, indent=2)

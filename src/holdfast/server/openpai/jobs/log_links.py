"""URLs of a task's log. Each contains a token that opens this log without a login, for a short time and only while the
user who requested it can read it."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.requests import Request

from holdfast.core.identity import build_container_uid, build_debug_id
from holdfast.core.records import JobSummary, TaskRecord
from holdfast.engines.base import LogStream
from holdfast.server.origin import get_origin
from holdfast.services import Services

from ..auth import read_token
from ..call import Call

# Names of the streams in URLs.
LINK_STREAMS = {"stdout": LogStream.STDOUT, "stderr": LogStream.STDERR, "all": LogStream.MERGED}


async def get_link_token_id(call: Call) -> str:
    """Return the ID of the token that requests the links; empty for a guest."""
    if not call.request.headers.get("authorization", "").strip():
        return ""
    return (await call.services.tokens.get_token(read_token(call.request))).id


def build_log_links(
    services: Services, job: JobSummary, record: TaskRecord, *, maker: str, role: str, machine: str, tail: bool
) -> list[dict[str, str]]:
    """Return name and URL of each stream; `role` is spelled as in responses, `maker` the ID of the token."""
    asked = {
        "username": job.user,
        "framework-name": build_debug_id(job.user, job.name),
        "pod-uid": build_container_uid(record.attempt_id),
        "taskrole": role,
        **({"tail-mode": "true"} if tail else {}),
        "token": services.logs.create_link(record, maker),
    }
    base = f"/log-manager/{machine}:{services.settings.server.port}/api/v1/logs"
    return [{"name": name, "uri": f"{base}/user-{name}?{urlencode(asked)}"} for name in LINK_STREAMS]


def build_log_pages_url(request: Request, services: Services, record: TaskRecord, maker: str) -> str:
    """Return the base URL to which older clients append `user.pai.stdout/?start=0`. It must be absolute."""
    return f"{get_origin(request)}/log-manager/pages/{services.logs.create_link(record, maker)}/"

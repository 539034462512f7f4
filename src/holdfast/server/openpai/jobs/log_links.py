"""Addresses of a task's log. Each carries a token that opens this one log without a login, for a short while and as
long as the user who asked for it may read it."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.requests import Request

from holdfast.core.identity import container_uid, debug_id
from holdfast.core.records import JobSummary, TaskRecord
from holdfast.engines.base import Stream
from holdfast.server.origin import origin_of
from holdfast.services import Services

from ..auth import token_of
from ..call import Call

# How addresses name the streams.
STREAMS = {"stdout": Stream.STDOUT, "stderr": Stream.STDERR, "all": Stream.MERGED}


async def find_maker(call: Call) -> str:
    """The id of the token that came with a request for links; empty for a guest without one."""
    if not call.request.headers.get("authorization", "").strip():
        return ""
    return (await call.services.tokens.which(token_of(call.request))).id


def list_links(
    services: Services, job: JobSummary, record: TaskRecord, *, maker: str, role: str, machine: str, tail: bool
) -> list[dict[str, str]]:
    """Name and address of each stream; `role` is how answers spell it, `maker` the id of the token that asks."""
    asked = {
        "username": job.user,
        "framework-name": debug_id(job.user, job.name),
        "pod-uid": container_uid(record.attempt_id),
        "taskrole": role,
        **({"tail-mode": "true"} if tail else {}),
        "token": services.logs.link(record, maker),
    }
    base = f"/log-manager/{machine}:{services.settings.server.port}/api/v1/logs"
    return [{"name": name, "uri": f"{base}/user-{name}?{urlencode(asked)}"} for name in STREAMS]


def pages_base(request: Request, services: Services, record: TaskRecord, maker: str) -> str:
    """What the first clients put `user.pai.stdout/?start=0` behind. They need the whole address."""
    return f"{origin_of(request)}/log-manager/pages/{services.logs.link(record, maker)}/"

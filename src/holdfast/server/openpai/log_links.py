"""Addresses of a task's log. Each carries a token that opens this one log for a short while, without a login."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.requests import Request

from holdfast.core.identity import container_uid, debug_id
from holdfast.core.records import JobSummary, TaskRecord
from holdfast.engines.base import Stream
from holdfast.server.origin import origin_of
from holdfast.services import Services

# How addresses name the streams.
STREAMS = {"stdout": Stream.STDOUT, "stderr": Stream.STDERR, "all": Stream.MERGED}


def list_links(
    services: Services, job: JobSummary, record: TaskRecord, *, role: str, machine: str, tail: bool
) -> list[dict[str, str]]:
    """Name and address of each stream; `role` is how answers spell it."""
    asked = {
        "username": job.user,
        "framework-name": debug_id(job.user, job.name),
        "pod-uid": container_uid(record.attempt_id),
        "taskrole": role,
        **({"tail-mode": "true"} if tail else {}),
        "token": services.logs.link(record),
    }
    base = f"/log-manager/{machine}:{services.settings.server.port}/api/v1/logs"
    return [{"name": name, "uri": f"{base}/user-{name}?{urlencode(asked)}"} for name in STREAMS]


def pages_base(request: Request, services: Services, record: TaskRecord) -> str:
    """What the first clients put `user.pai.stdout/?start=0` behind. They need the whole address."""
    return f"{origin_of(request)}/log-manager/pages/{services.logs.link(record)}/"

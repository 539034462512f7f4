"""/audit: the audit log."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from holdfast.api import people as api
from holdfast.core.audit import AuditKind, AuditQuery

from ..auth import Caller, ServicesDep
from ..responses import respond_json
from .parameters import parse_time
from .routing import build_router
from .views import record_to_json

router = build_router("installation")


@router.get("/audit", response_model=api.AuditPage)
async def list_audit(
    actor: Caller,
    services: ServicesDep,
    user: str | None = None,
    kind: AuditKind | None = None,
    subject: str | None = None,
    since: str | None = None,
    until: str | None = None,
    before: Annotated[int | None, Query(ge=1, le=2**62)] = None,
    limit: int = 50,
) -> Response:
    """Admins only. Newest first; `before` is the `next` of the previous page."""
    query = AuditQuery(
        actor=user,
        kind=kind,
        subject=subject,
        since=parse_time(since, "since"),
        until=parse_time(until, "until"),
        before=before,
        limit=limit,
    )
    page = await services.audit.list(actor, query)
    items = [record_to_json(api.AuditEvent, event, user=event.actor) for event in page.items]
    return respond_json({"items": items, "next": page.next_before})

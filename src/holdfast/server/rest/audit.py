"""/audit: who changed what about the place."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from starlette.responses import Response

from holdfast.api import people as api
from holdfast.core.audit import AuditEvent, AuditKind, AuditQuery

from ..answers import answer
from ..auth import Ask, Caller
from .addresses import rest_router
from .parameters import parse_time
from .views import show_time

router = rest_router("place")


@router.get("/audit", response_model=api.AuditPage)
async def list_audit(
    actor: Caller,
    services: Ask,
    user: str | None = None,
    kind: AuditKind | None = None,
    subject: str | None = None,
    since: str | None = None,
    until: str | None = None,
    before: Annotated[int | None, Query(ge=1, le=2**62)] = None,
    limit: int = 50,
) -> Response:
    """Admins only. Newest first; `before` is the `next` of the page before."""
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
    return answer({"items": [_show(event) for event in page.items], "next": page.next_before})


def _show(event: AuditEvent) -> dict[str, Any]:
    return {
        "seq": event.seq,
        "at": show_time(event.at),
        "user": event.actor,
        "kind": event.kind.value,
        "act": event.act.value,
        "subject": event.subject,
        "address": event.address,
        "detail": dict(event.detail),
    }

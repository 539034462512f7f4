"""`holdfast audit`: who changed what about the place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from holdfast.core.audit import AuditKind

from .. import output
from ..options import Json, connect
from ..quantities import show_instant, since_instant, utc_now


def audit(
    user: Annotated[str | None, typer.Option(help="What this user did.")] = None,
    kind: Annotated[AuditKind | None, typer.Option(help="What was done to things of this kind.")] = None,
    subject: Annotated[str | None, typer.Option(help="What was done to the thing of this name or id.")] = None,
    since: Annotated[str | None, typer.Option(help="10m, 2d, or a time. Default: ever.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="How many.")] = 50,
    before: Annotated[
        int | None, typer.Option(min=1, help="Older ones: a number that an earlier list ended with.")
    ] = None,
    json: Json = False,
) -> None:
    """Show who changed what about the place, newest first. For admins."""
    with connect() as client:
        page = client.audit(
            user=user,
            kind=kind.value if kind else None,
            subject=subject,
            since=since_instant(since, utc_now()) if since else None,
            before=before,
            limit=limit,
        )
    if json:
        output.emit_json(page)
        return
    rows = [
        [
            show_instant(event.at),
            event.user or "-",
            f"{event.kind} {event.act}",
            event.subject or "-",
            _details(event.detail),
            event.address or "-",
        ]
        for event in page.items
    ]
    output.table(
        ("AT", "USER", "WHAT", "SUBJECT", "DETAILS", "FROM"), rows, cut=("DETAILS", "SUBJECT"), drop=("FROM", "DETAILS")
    )
    if page.next is not None:
        output.hint(f"holdfast audit --before {page.next}")


def _details(detail: Mapping[str, str]) -> str:
    return ", ".join(f"{key}: {value}" for key, value in detail.items())

"""The `audit` command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from holdfast.core.audit import AuditKind

from .. import output
from ..options import JsonOption, open_client
from ..quantities import format_local_time, resolve_since, utc_now


def audit(
    user: Annotated[str | None, typer.Option(help="Only entries of this user.")] = None,
    kind: Annotated[AuditKind | None, typer.Option(help="Only entries about objects of this kind.")] = None,
    subject: Annotated[str | None, typer.Option(help="Only entries about the object with this name or id.")] = None,
    since: Annotated[str | None, typer.Option(help="Only entries since: 10m, 2d or a time.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="Maximum number of entries.")] = 50,
    before: Annotated[int | None, typer.Option(min=1, help="Show older ones: number from the last list.")] = None,
    json: JsonOption = False,
) -> None:
    """Show the audit log, newest first. Admins only."""
    with open_client() as client:
        page = client.list_audit_entries(
            user=user,
            kind=kind.value if kind else None,
            subject=subject,
            since=resolve_since(since, utc_now()) if since else None,
            before=before,
            limit=limit,
        )
    if json:
        output.emit_json(page)
        return
    rows = [
        [
            format_local_time(event.at),
            event.user or "-",
            f"{event.kind} {event.act}",
            event.subject or "-",
            _format_details(event.detail),
            event.address or "-",
        ]
        for event in page.items
    ]
    output.emit_table(
        ("TIME", "USER", "ACTION", "SUBJECT", "DETAILS", "ADDRESS"),
        rows,
        cut=("DETAILS", "SUBJECT"),
        drop=("ADDRESS", "DETAILS"),
    )
    if page.next is not None:
        output.print_hint(f"holdfast audit --before {page.next}")


def _format_details(detail: Mapping[str, str]) -> str:
    return ", ".join(f"{key}: {value}" for key, value in detail.items())

"""The audit log, for admins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from urllib.parse import urlencode

from starlette.responses import Response

from holdfast.core.audit import AuditAction, AuditEvent, AuditKind, AuditQuery

from ..routes import build_page_route
from ..translations import N_
from ..visit import Visit

ENTRIES_PER_PAGE = 50

KIND_LABELS = {
    AuditKind.LOGIN: N_("Logins"),
    AuditKind.PASSWORD: N_("Passwords"),
    AuditKind.TOKEN: N_("Tokens"),
    AuditKind.KEY: N_("SSH keys"),
    AuditKind.RECIPIENT: N_("Notification recipients"),
    AuditKind.USER: N_("Users"),
    AuditKind.GROUP: N_("Groups"),
    AuditKind.MEMBER: N_("Group members"),
    AuditKind.INSTANCE_TYPE: N_("Instance types"),
    AuditKind.IMAGE: N_("Images"),
    AuditKind.IMAGE_ALIAS: N_("Image aliases"),
    AuditKind.DATASET: N_("Datasets"),
    AuditKind.SECRET: N_("Secrets"),
    AuditKind.SCHEDULE: N_("Schedules"),
    AuditKind.STORAGE: N_("Storage"),
}
# Text of each action, about its target.
ACTION_TEXTS: Mapping[tuple[AuditKind, AuditAction], str] = {
    (AuditKind.LOGIN, AuditAction.BEGUN): N_("logged in"),
    (AuditKind.LOGIN, AuditAction.FAILED): N_("login failed"),
    (AuditKind.LOGIN, AuditAction.ENDED): N_("logged out"),
    (AuditKind.LOGIN, AuditAction.CREATED): N_("one-time link created"),
    (AuditKind.PASSWORD, AuditAction.CHANGED): N_("password changed"),
    (AuditKind.TOKEN, AuditAction.CREATED): N_("token created"),
    (AuditKind.TOKEN, AuditAction.REMOVED): N_("token revoked"),
    (AuditKind.KEY, AuditAction.CREATED): N_("SSH key added"),
    (AuditKind.KEY, AuditAction.REMOVED): N_("SSH key deleted"),
    (AuditKind.RECIPIENT, AuditAction.CREATED): N_("notification recipient added"),
    (AuditKind.RECIPIENT, AuditAction.CHANGED): N_("notification recipient changed"),
    (AuditKind.RECIPIENT, AuditAction.REMOVED): N_("notification recipient deleted"),
    (AuditKind.USER, AuditAction.CREATED): N_("user created"),
    (AuditKind.USER, AuditAction.CHANGED): N_("user changed"),
    (AuditKind.USER, AuditAction.REMOVED): N_("user deleted"),
    (AuditKind.GROUP, AuditAction.CREATED): N_("group created"),
    (AuditKind.GROUP, AuditAction.CHANGED): N_("group changed"),
    (AuditKind.GROUP, AuditAction.REMOVED): N_("group deleted"),
    (AuditKind.MEMBER, AuditAction.CHANGED): N_("member added or changed"),
    (AuditKind.MEMBER, AuditAction.REMOVED): N_("member removed"),
    (AuditKind.INSTANCE_TYPE, AuditAction.CREATED): N_("instance type created"),
    (AuditKind.INSTANCE_TYPE, AuditAction.CHANGED): N_("instance type changed"),
    (AuditKind.INSTANCE_TYPE, AuditAction.REMOVED): N_("instance type deleted"),
    (AuditKind.INSTANCE_TYPE, AuditAction.GRANTED): N_("instance type granted"),
    (AuditKind.INSTANCE_TYPE, AuditAction.REVOKED): N_("instance type revoked"),
    (AuditKind.STORAGE, AuditAction.REMOVED): N_("storage pruned"),
    (AuditKind.IMAGE, AuditAction.CREATED): N_("image imported"),
    (AuditKind.IMAGE, AuditAction.REMOVED): N_("image deleted"),
    (AuditKind.IMAGE_ALIAS, AuditAction.CREATED): N_("image alias created"),
    (AuditKind.IMAGE_ALIAS, AuditAction.CHANGED): N_("image alias changed"),
    (AuditKind.IMAGE_ALIAS, AuditAction.REMOVED): N_("image alias deleted"),
    (AuditKind.IMAGE_ALIAS, AuditAction.GRANTED): N_("image alias granted"),
    (AuditKind.IMAGE_ALIAS, AuditAction.REVOKED): N_("image alias revoked"),
    (AuditKind.DATASET, AuditAction.CREATED): N_("dataset created"),
    (AuditKind.DATASET, AuditAction.CHANGED): N_("dataset changed"),
    (AuditKind.DATASET, AuditAction.REMOVED): N_("dataset deleted"),
    (AuditKind.DATASET, AuditAction.GRANTED): N_("dataset granted"),
    (AuditKind.DATASET, AuditAction.REVOKED): N_("dataset revoked"),
    (AuditKind.SECRET, AuditAction.CREATED): N_("secret created"),
    (AuditKind.SECRET, AuditAction.CHANGED): N_("secret changed"),
    (AuditKind.SECRET, AuditAction.REMOVED): N_("secret deleted"),
    (AuditKind.SCHEDULE, AuditAction.CREATED): N_("schedule created"),
    (AuditKind.SCHEDULE, AuditAction.CHANGED): N_("schedule changed"),
    (AuditKind.SCHEDULE, AuditAction.REMOVED): N_("schedule deleted"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    event: AuditEvent
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditListPage:
    rows: tuple[AuditRow, ...]
    kinds: Mapping[str, str]
    asked: Mapping[str, str]
    is_filtered: bool
    keep_days: float
    newer: str = ""  # address of the first page, when this is a later one
    older: str = ""
    problems: Mapping[str, str] = field(default_factory=dict)


async def show_audit(visit: Visit) -> Response:
    params = visit.query
    asked = {key: params.get(key, "").strip()[:200] for key in ("user", "kind", "subject", "since", "until")}
    query, problems = _build_audit_query(visit, asked)
    before = visit.get_query_integer("before") or None
    found = await visit.services.audit.list(visit.current_actor, replace(query, before=before, limit=ENTRIES_PER_PAGE))
    given = {key: value for key, value in asked.items() if value}
    result = AuditListPage(
        rows=tuple(AuditRow(event=event, what=_describe_entry(visit, event)) for event in found.items),
        kinds={kind.value: visit.translate_text(name) for kind, name in KIND_LABELS.items()},
        asked=asked,
        is_filtered=bool(given),
        keep_days=visit.services.settings.server.audit_days,
        newer=_build_audit_address(given) if before else "",
        older=_build_audit_address({**given, "before": str(found.next_before)}) if found.next_before else "",
        problems=problems,
    )
    return await visit.render_response("audit/list.html", result)


def _build_audit_query(visit: Visit, asked: Mapping[str, str]) -> tuple[AuditQuery, dict[str, str]]:
    """Build the query; invalid filters are reported and ignored."""
    problems: dict[str, str] = {}
    days: dict[str, datetime | None] = {}
    for name, later in (("since", timedelta()), ("until", timedelta(days=1))):  # until: including that day
        days[name] = _parse_day(asked[name], later)
        if asked[name] and days[name] is None:
            problems[name] = visit.translate_text("This is not a date such as 2026-01-31.")
    kind = AuditKind(asked["kind"]) if asked["kind"] in set(AuditKind) else None
    query = AuditQuery(
        actor=asked["user"] or None,
        kind=kind,
        subject=asked["subject"] or None,
        since=days["since"],
        until=days["until"],
    )
    return query, problems


def _parse_day(text: str, later: timedelta) -> datetime | None:
    try:
        return datetime.combine(date.fromisoformat(text), time(), UTC) + later
    except (ValueError, OverflowError):
        return None


def _build_audit_address(given: Mapping[str, str]) -> str:
    return f"/admin/audit?{urlencode(given)}" if given else "/admin/audit"


def _describe_entry(visit: Visit, event: AuditEvent) -> str:
    known = ACTION_TEXTS.get((event.kind, event.act))
    return visit.translate_text(known) if known else f"{event.kind} {event.act}"


routes = [build_page_route("/admin/audit", show_audit, admin=True)]

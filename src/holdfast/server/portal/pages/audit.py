"""Who changed what about the place, for admins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from urllib.parse import urlencode

from starlette.responses import Response

from holdfast.core.audit import Act, AuditEvent, AuditKind, AuditQuery

from ..languages import N_
from ..routes import page
from ..visit import Visit

PER_PAGE = 50

KINDS = {
    AuditKind.LOGIN: N_("Logins"),
    AuditKind.PASSWORD: N_("Passwords"),
    AuditKind.TOKEN: N_("Tokens"),
    AuditKind.KEY: N_("SSH keys"),
    AuditKind.RECIPIENT: N_("Recipients of notifications"),
    AuditKind.USER: N_("Users"),
    AuditKind.GROUP: N_("Groups"),
    AuditKind.MEMBER: N_("Members of groups"),
    AuditKind.INSTANCE_TYPE: N_("Instance types"),
    AuditKind.IMAGE: N_("Images"),
    AuditKind.IMAGE_ALIAS: N_("Image aliases"),
    AuditKind.DATASET: N_("Datasets"),
    AuditKind.SECRET: N_("Secrets"),
    AuditKind.SCHEDULE: N_("Recurring jobs"),
    AuditKind.STORAGE: N_("Storage"),
}
# What was done, said of the one thing it was done to.
DEEDS: Mapping[tuple[AuditKind, Act], str] = {
    (AuditKind.LOGIN, Act.BEGUN): N_("logged in"),
    (AuditKind.LOGIN, Act.FAILED): N_("login failed"),
    (AuditKind.LOGIN, Act.ENDED): N_("logged out"),
    (AuditKind.LOGIN, Act.CREATED): N_("one-time link made"),
    (AuditKind.PASSWORD, Act.CHANGED): N_("password changed"),
    (AuditKind.TOKEN, Act.CREATED): N_("token created"),
    (AuditKind.TOKEN, Act.REMOVED): N_("token revoked"),
    (AuditKind.KEY, Act.CREATED): N_("SSH key added"),
    (AuditKind.KEY, Act.REMOVED): N_("SSH key removed"),
    (AuditKind.RECIPIENT, Act.CREATED): N_("recipient of notifications added"),
    (AuditKind.RECIPIENT, Act.CHANGED): N_("recipient of notifications changed"),
    (AuditKind.RECIPIENT, Act.REMOVED): N_("recipient of notifications removed"),
    (AuditKind.USER, Act.CREATED): N_("user created"),
    (AuditKind.USER, Act.CHANGED): N_("user changed"),
    (AuditKind.USER, Act.REMOVED): N_("user removed"),
    (AuditKind.GROUP, Act.CREATED): N_("group created"),
    (AuditKind.GROUP, Act.CHANGED): N_("group changed"),
    (AuditKind.GROUP, Act.REMOVED): N_("group removed"),
    (AuditKind.MEMBER, Act.CHANGED): N_("member set"),
    (AuditKind.MEMBER, Act.REMOVED): N_("member removed"),
    (AuditKind.INSTANCE_TYPE, Act.CREATED): N_("instance type created"),
    (AuditKind.INSTANCE_TYPE, Act.CHANGED): N_("instance type changed"),
    (AuditKind.INSTANCE_TYPE, Act.REMOVED): N_("instance type removed"),
    (AuditKind.INSTANCE_TYPE, Act.GRANTED): N_("instance type granted"),
    (AuditKind.INSTANCE_TYPE, Act.REVOKED): N_("instance type revoked"),
    (AuditKind.STORAGE, Act.REMOVED): N_("storage pruned"),
    (AuditKind.IMAGE, Act.CREATED): N_("image imported"),
    (AuditKind.IMAGE, Act.REMOVED): N_("image removed"),
    (AuditKind.IMAGE_ALIAS, Act.CREATED): N_("image alias created"),
    (AuditKind.IMAGE_ALIAS, Act.CHANGED): N_("image alias changed"),
    (AuditKind.IMAGE_ALIAS, Act.REMOVED): N_("image alias removed"),
    (AuditKind.IMAGE_ALIAS, Act.GRANTED): N_("image alias granted"),
    (AuditKind.IMAGE_ALIAS, Act.REVOKED): N_("image alias revoked"),
    (AuditKind.DATASET, Act.CREATED): N_("dataset created"),
    (AuditKind.DATASET, Act.CHANGED): N_("dataset changed"),
    (AuditKind.DATASET, Act.REMOVED): N_("dataset removed"),
    (AuditKind.DATASET, Act.GRANTED): N_("dataset granted"),
    (AuditKind.DATASET, Act.REVOKED): N_("dataset revoked"),
    (AuditKind.SECRET, Act.CREATED): N_("secret created"),
    (AuditKind.SECRET, Act.CHANGED): N_("secret changed"),
    (AuditKind.SECRET, Act.REMOVED): N_("secret removed"),
    (AuditKind.SCHEDULE, Act.CREATED): N_("recurring job created"),
    (AuditKind.SCHEDULE, Act.CHANGED): N_("recurring job changed"),
    (AuditKind.SCHEDULE, Act.REMOVED): N_("recurring job removed"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    event: AuditEvent
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditListPage:
    rows: tuple[Row, ...]
    kinds: Mapping[str, str]
    asked: Mapping[str, str]
    is_filtered: bool
    keep_days: float
    newer: str = ""  # address of the first page, when this is a later one
    older: str = ""
    problems: Mapping[str, str] = field(default_factory=dict)


async def show_audit(visit: Visit) -> Response:
    params = visit.request.query_params
    asked = {key: params.get(key, "").strip()[:200] for key in ("user", "kind", "subject", "since", "until")}
    query, problems = _query(visit, asked)
    before = visit.number("before") or None
    found = await visit.services.audit.list(visit.who, replace(query, before=before, limit=PER_PAGE))
    given = {key: value for key, value in asked.items() if value}
    result = AuditListPage(
        rows=tuple(Row(event=event, what=_what(visit, event)) for event in found.items),
        kinds={kind.value: visit.say(name) for kind, name in KINDS.items()},
        asked=asked,
        is_filtered=bool(given),
        keep_days=visit.services.settings.server.audit_days,
        newer=_address(given) if before else "",
        older=_address({**given, "before": str(found.next_before)}) if found.next_before else "",
        problems=problems,
    )
    return await visit.show("audit/list.html", result)


def _query(visit: Visit, asked: Mapping[str, str]) -> tuple[AuditQuery, dict[str, str]]:
    """What cannot be understood is told, and left out."""
    problems: dict[str, str] = {}
    days: dict[str, datetime | None] = {}
    for name, later in (("since", timedelta()), ("until", timedelta(days=1))):  # until: that day and no longer
        days[name] = _day(asked[name], later)
        if asked[name] and days[name] is None:
            problems[name] = visit.say("This is not a day such as 2026-01-31.")
    kind = AuditKind(asked["kind"]) if asked["kind"] in set(AuditKind) else None
    query = AuditQuery(
        actor=asked["user"] or None,
        kind=kind,
        subject=asked["subject"] or None,
        since=days["since"],
        until=days["until"],
    )
    return query, problems


def _day(text: str, later: timedelta) -> datetime | None:
    try:
        return datetime.combine(date.fromisoformat(text), time(), UTC) + later
    except (ValueError, OverflowError):
        return None


def _address(given: Mapping[str, str]) -> str:
    return f"/admin/audit?{urlencode(given)}" if given else "/admin/audit"


def _what(visit: Visit, event: AuditEvent) -> str:
    known = DEEDS.get((event.kind, event.act))
    return visit.say(known) if known else f"{event.kind} {event.act}"


routes = [page("/admin/audit", show_audit, admin=True)]

"""Whoever asks, and the place's time zone."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ariadne import QueryType

from holdfast.timezones import machine_timezone, zone

from ..graphql.call import Info, call_of
from .shapes import show_user

query = QueryType()
BINDABLES = (query,)


@query.field("me")
async def show_me(_: Any, info: Info) -> dict[str, Any]:
    call = call_of(info)
    return show_user(await call.services.users.get(call.actor, call.actor.name))


@query.field("timezone")
def show_timezone(_: Any, info: Info) -> dict[str, Any]:
    """With the hours it is ahead of UTC now."""
    name = call_of(info).services.settings.schedules.timezone or machine_timezone()
    ahead = datetime.now(zone(name)).utcoffset()
    return {"name": name, "offset": 0 if ahead is None else ahead.total_seconds() / 3600}

"""The current user, and the installation's time zone."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ariadne import QueryType

from holdfast.timezones import find_machine_timezone, get_zone

from ..graphql.call import Info, get_call
from .shapes import user_to_json

query = QueryType()
BINDABLES = (query,)


@query.field("me")
async def show_me(_: Any, info: Info) -> dict[str, Any]:
    call = get_call(info)
    return user_to_json(await call.services.users.get(call.actor, call.actor.name))


@query.field("timezone")
def show_timezone(_: Any, info: Info) -> dict[str, Any]:
    """Return the time zone with its current offset from UTC in hours."""
    name = get_call(info).services.settings.schedules.timezone or find_machine_timezone()
    ahead = datetime.now(get_zone(name)).utcoffset()
    return {"name": name, "offset": 0 if ahead is None else ahead.total_seconds() / 3600}

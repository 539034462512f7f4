"""Usage reports: which months have one."""

from __future__ import annotations

from typing import Any

from ariadne import QueryType

from .graphql.call import Info, call_of
from .graphql.paging import connect
from .report_files import REPORTS

query = QueryType()
BINDABLES = (query,)


@query.field("usageReportsConnection")
async def list_reports(_: Any, info: Info, **args: Any) -> dict[str, Any]:
    call = call_of(info)
    months = await call.services.usage.months(call.actor)
    shown = [
        {
            "id": f"{year}/{month:02}",
            "summaryUrl": f"{call.origin}{REPORTS}/{year}/{month:02}",
            "detailedUrl": f"{call.origin}{REPORTS}/details/{year}/{month:02}",
        }
        for year, month in months
    ]
    call.spend(len(shown))
    return connect(shown, args)

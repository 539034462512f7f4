"""Usage reports: the list of months."""

from __future__ import annotations

from typing import Any

from ariadne import QueryType

from .graphql.call import Info, get_call
from .graphql.paging import paginate_nodes
from .report_files import REPORTS_PATH

query = QueryType()
BINDABLES = (query,)


@query.field("usageReportsConnection")
async def list_reports(_: Any, info: Info, **args: Any) -> dict[str, Any]:
    call = get_call(info)
    months = await call.services.usage.list_months(call.actor)
    shown = [
        {
            "id": f"{year}/{month:02}",
            "summaryUrl": f"{call.origin}{REPORTS_PATH}/{year}/{month:02}",
            "detailedUrl": f"{call.origin}{REPORTS_PATH}/details/{year}/{month:02}",
        }
        for year, month in months
    ]
    call.spend_rows(len(shown))
    return paginate_nodes(shown, args)

"""Job filters and queries, limited to the groups that the user can read."""

from __future__ import annotations

from dataclasses import replace

from holdfast.core.access import Actor
from holdfast.core.errors import NotFound
from holdfast.core.messages import msg
from holdfast.core.records import JobFilter, OffsetPageQuery

from ..job_lookup import list_readable_groups
from ..name_suggestions import suggest_name


def limit_filter_to_groups(actor: Actor, filter: JobFilter) -> JobFilter:
    groups = list_readable_groups(actor)
    if groups is None:
        return filter
    for group in filter.groups or ():
        if group not in groups:
            hint = suggest_name(group, groups, "holdfast group ls")
            raise NotFound(
                msg("Group {group} not found, or you are not a member", group=group[:100]), field="group", hint=hint
            )
    return replace(filter, groups=filter.groups if filter.groups is not None else groups)


def limit_query_to_groups(actor: Actor, query: OffsetPageQuery) -> OffsetPageQuery:
    groups = list_readable_groups(actor)
    if groups is None:
        return query
    allowed = groups if query.groups is None else tuple(set(groups).intersection(query.groups))
    return replace(query, groups=allowed)

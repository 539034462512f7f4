"""GET /v2/jobs: the job list, with filters, sorting and numbered pages."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.core.identity import build_debug_id
from holdfast.core.records import JobOrder, JobPhase, JobSummary, OffsetPage, OffsetPageQuery
from holdfast.core.states import JobState
from holdfast.jobspec.openpai_extras import PRIORITY_CLASSES

from ..call import Call
from ..endpoints import AccessLevel, endpoint
from ..errors import PaiError
from ..large_responses import MIN_THREADED_ITEMS, respond_large_json
from ..rate_limits import RateLimitedAction
from ..times import count_seconds_until, to_milliseconds
from . import states

HELD_TAG = "holdfast-held"
PRIORITY_NAMES = {number: name for name, number in PRIORITY_CLASSES.items()}

_DEFAULT_LIMIT, _MAX_LIMIT = 5000, 50_000
_MAX_OFFSET = 2**53
_PHASES_BY_STATE = {
    "WAITING": JobPhase.WAITING,
    "RUNNING": JobPhase.RUNNING,
    "STOPPING": JobPhase.STOPPING,
    "STOPPED": JobPhase.CANCELLED,
    "SUCCEEDED": JobPhase.SUCCEEDED,
    "FAILED": JobPhase.FAILED,
}
_ORDERS_BY_FIELD = {
    "jobName": JobOrder.NAME,
    "submissionTime": JobOrder.SUBMITTED,
    "username": JobOrder.USER,
    "vc": JobOrder.GROUP,
    "retries": JobOrder.RETRIES,
    "totalTaskNumber": JobOrder.TASKS,
    "totalGpuNumber": JobOrder.GPUS,
    "state": JobOrder.STATE,
    "completionTime": JobOrder.FINISHED,
    "jobPriority": JobOrder.PRIORITY,
}


@endpoint(
    "GET",
    "/v2/jobs",
    who=AccessLevel.READER,
    limited=RateLimitedAction.LIST,
    note="`keyword` and `jobPriority=default` must both match; in OpenPAI one of them was enough",
)
async def list_jobs(call: Call) -> Response:
    counted = call.get_query_text("withTotalCount") == "true"
    query = parse_job_query(call)
    page = await load_page(call, query, count=counted)
    return await respond_large_json(lambda: page_to_json(page, counted=counted), len(page.items))


async def load_page(call: Call, query: OffsetPageQuery | None, *, count: bool) -> OffsetPage:
    if query is None:
        return OffsetPage((), 0)
    await call.wait_for_slots(large=query.limit > MIN_THREADED_ITEMS)
    return await call.services.jobs.get_numbered_page(call.actor, query, count=count)


def page_to_json(page: OffsetPage, *, counted: bool) -> Any:
    items = [job_to_item(summary) for summary in page.items]
    return {"totalCount": page.total, "data": items} if counted else items


def job_to_item(summary: JobSummary) -> dict[str, Any]:
    return {
        "debugId": build_debug_id(summary.user, summary.name),
        "name": summary.name,
        "username": summary.user,
        **build_job_fields(summary),
        "tags": list_tags(summary),
        "appExitCode": states.get_job_exit_code(summary),
        "virtualCluster": summary.group,
        **build_resource_fields(summary),
        "jobPriority": PRIORITY_NAMES.get(summary.priority),
    }


def build_job_fields(summary: JobSummary) -> dict[str, Any]:
    """Return the fields that list and detail share, for any attempt."""
    stopped = summary.stopping or summary.state is JobState.CANCELLED
    return {
        "state": states.get_job_state(summary),
        "subState": states.get_job_sub_state(summary),
        "executionType": "STOP" if stopped else "START",
        "retries": summary.user_retries + summary.platform_retries,
        "retryDetails": {"user": summary.user_retries, "platform": summary.platform_retries, "resource": 0},
        "retryDelayTime": count_seconds_until(summary.retry_at),
        "submissionTime": to_milliseconds(summary.submitted_at),
        "createdTime": to_milliseconds(summary.submitted_at),
        "launchedTime": to_milliseconds(summary.started_at or summary.finished_at),
        "completedTime": to_milliseconds(summary.finished_at),
    }


def build_resource_fields(summary: JobSummary) -> dict[str, int]:
    return {
        "totalGpuNumber": summary.gpu,
        "totalTaskNumber": summary.task_count,
        "totalTaskRoleNumber": summary.role_count,
    }


def list_tags(summary: JobSummary) -> list[str]:
    held = [HELD_TAG] if summary.state is JobState.HELD and HELD_TAG not in summary.tags else []
    return [*summary.tags, *held]


# -- query parameters


def parse_job_query(call: Call) -> OffsetPageQuery | None:
    """Return None when nothing can match, such as for an unknown state."""
    limit = _parse_number(call, "limit", _DEFAULT_LIMIT, _MAX_LIMIT)
    offset = _parse_number(call, "offset", 0, _MAX_OFFSET)
    phases, classes = _parse_query_list(call, "state"), _parse_query_list(call, "jobPriority")
    found_phases = (
        None if phases is None else tuple(_PHASES_BY_STATE[word] for word in phases if word in _PHASES_BY_STATE)
    )
    priorities = (
        None if classes is None else tuple(PRIORITY_CLASSES[word] for word in classes if word in PRIORITY_CLASSES)
    )
    others = tuple(PRIORITY_NAMES) if classes and "default" in classes else None
    if found_phases == () or (priorities == () and others is None):
        return None
    order, descending = _parse_order(call.get_query_text("order"))
    return OffsetPageQuery(
        named_groups=_parse_query_list(call, "vc"),
        users=_parse_query_list(call, "username"),
        phases=found_phases,
        text=call.get_query_text("keyword") or None,
        tags_any=_parse_query_list(call, "tagsContain"),
        tags_none=_parse_query_list(call, "tagsNotContain"),
        held_tag=HELD_TAG,
        priorities=priorities or None,
        other_priorities=others,
        order=order,
        ordered_priorities=tuple(PRIORITY_NAMES),
        descending=descending,
        offset=offset,
        limit=limit,
    )


def _parse_query_list(call: Call, name: str) -> tuple[str, ...] | None:
    """Return the comma-separated values; None when the parameter is not set."""
    words = tuple(dict.fromkeys(word for word in (call.get_query_text(name) or "").split(",") if word))
    return words or None


def _parse_number(call: Call, name: str, usual: int, most: int) -> int:
    text = call.get_query_text(name)
    if not text:
        return usual
    if not (text.isascii() and text.isdigit() and len(text) < 17 and int(text) <= most):
        raise PaiError(400, "InvalidParametersError", f"{name} must be a number between 0 and {most}.")
    return int(text)


def _parse_order(text: str | None) -> tuple[JobOrder, bool]:
    """Parse the order; invalid values mean the default order."""
    field, _, direction = (text or "").partition(",")
    if field not in _ORDERS_BY_FIELD or direction not in ("ASC", "DESC"):
        return JobOrder.SUBMITTED, True
    return _ORDERS_BY_FIELD[field], direction == "DESC"

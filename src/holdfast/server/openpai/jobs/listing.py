"""GET /v2/jobs: the job list, with its filters, orders and pages by number."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.core.identity import debug_id
from holdfast.core.records import JobSummary, NumberedPage, NumberedQuery, Order, Phase
from holdfast.core.states import JobState
from holdfast.jobspec.openpai_extras import PRIORITIES

from ..big_answers import MANY, answer_big
from ..call import Call
from ..endpoints import Who, endpoint
from ..errors import PaiError
from ..rates import Limited
from ..times import millis, seconds_until
from . import states

HELD_TAG = "holdfast-held"
PRIORITY_NAMES = {number: name for name, number in PRIORITIES.items()}

_USUAL_LIMIT, _MAX_COUNT = 5000, 50_000
_FURTHEST = 2**53
_PHASES = {
    "WAITING": Phase.WAITING,
    "RUNNING": Phase.RUNNING,
    "STOPPING": Phase.STOPPING,
    "STOPPED": Phase.CANCELLED,
    "SUCCEEDED": Phase.SUCCEEDED,
    "FAILED": Phase.FAILED,
}
_ORDERS = {
    "jobName": Order.NAME,
    "submissionTime": Order.SUBMITTED,
    "username": Order.USER,
    "vc": Order.GROUP,
    "retries": Order.RETRIES,
    "totalTaskNumber": Order.TASKS,
    "totalGpuNumber": Order.GPUS,
    "state": Order.STATE,
    "completionTime": Order.FINISHED,
    "jobPriority": Order.PRIORITY,
}


@endpoint(
    "GET",
    "/v2/jobs",
    who=Who.READER,
    limited=Limited.LIST,
    note="`keyword` and `jobPriority=default` must both hold; in OpenPAI either was enough",
)
async def list_jobs(call: Call) -> Response:
    counted = call.query("withTotalCount") == "true"
    query = read_query(call)
    page = await find_page(call, query, count=counted)
    return await answer_big(lambda: show_page(page, counted=counted), len(page.items))


async def find_page(call: Call, query: NumberedQuery | None, *, count: bool) -> NumberedPage:
    if query is None:
        return NumberedPage((), 0)
    await call.wait_for_slots(large=query.limit > MANY)
    return await call.services.jobs.numbered(call.actor, query, count=count)


def show_page(page: NumberedPage, *, counted: bool) -> Any:
    items = [list_item(summary) for summary in page.items]
    return {"totalCount": page.total, "data": items} if counted else items


def list_item(summary: JobSummary) -> dict[str, Any]:
    return {
        "debugId": debug_id(summary.user, summary.name),
        "name": summary.name,
        "username": summary.user,
        **job_part(summary),
        "tags": tags_of(summary),
        "appExitCode": states.exit_code(summary),
        "virtualCluster": summary.group,
        **sizes_of(summary),
        "jobPriority": PRIORITY_NAMES.get(summary.priority),
    }


def job_part(summary: JobSummary) -> dict[str, Any]:
    """What list and detail both tell of a job, whichever attempt is looked at."""
    stopped = summary.stopping or summary.state is JobState.CANCELLED
    return {
        "state": states.job_state(summary),
        "subState": states.job_sub_state(summary),
        "executionType": "STOP" if stopped else "START",
        "retries": summary.user_retries + summary.platform_retries,
        "retryDetails": {"user": summary.user_retries, "platform": summary.platform_retries, "resource": 0},
        "retryDelayTime": seconds_until(summary.retry_at),
        "submissionTime": millis(summary.submitted_at),
        "createdTime": millis(summary.submitted_at),
        "launchedTime": millis(summary.started_at or summary.finished_at),
        "completedTime": millis(summary.finished_at),
    }


def sizes_of(summary: JobSummary) -> dict[str, int]:
    return {
        "totalGpuNumber": summary.gpu,
        "totalTaskNumber": summary.task_count,
        "totalTaskRoleNumber": summary.role_count,
    }


def tags_of(summary: JobSummary) -> list[str]:
    held = [HELD_TAG] if summary.state is JobState.HELD and HELD_TAG not in summary.tags else []
    return [*summary.tags, *held]


# -- what is asked for


def read_query(call: Call) -> NumberedQuery | None:
    """None when nothing can match, such as a state there is not."""
    limit = _number(call, "limit", _USUAL_LIMIT, _MAX_COUNT)
    offset = _number(call, "offset", 0, _FURTHEST)
    phases, classes = _words(call, "state"), _words(call, "jobPriority")
    found_phases = None if phases is None else tuple(_PHASES[word] for word in phases if word in _PHASES)
    priorities = None if classes is None else tuple(PRIORITIES[word] for word in classes if word in PRIORITIES)
    others = tuple(PRIORITY_NAMES) if classes and "default" in classes else None
    if found_phases == () or (priorities == () and others is None):
        return None
    order, descending = _order(call.query("order"))
    return NumberedQuery(
        named_groups=_words(call, "vc"),
        users=_words(call, "username"),
        phases=found_phases,
        text=call.query("keyword") or None,
        tags_any=_words(call, "tagsContain"),
        tags_none=_words(call, "tagsNotContain"),
        held_tag=HELD_TAG,
        priorities=priorities or None,
        other_priorities=others,
        order=order,
        ordered_priorities=tuple(PRIORITY_NAMES),
        descending=descending,
        offset=offset,
        limit=limit,
    )


def _words(call: Call, name: str) -> tuple[str, ...] | None:
    """Any of several, parted by commas; None when it is not asked for."""
    words = tuple(dict.fromkeys(word for word in (call.query(name) or "").split(",") if word))
    return words or None


def _number(call: Call, name: str, usual: int, most: int) -> int:
    text = call.query(name)
    if not text:
        return usual
    if not (text.isascii() and text.isdigit() and len(text) < 17 and int(text) <= most):
        raise PaiError(400, "InvalidParametersError", f"{name} must be a number between 0 and {most}.")
    return int(text)


def _order(text: str | None) -> tuple[Order, bool]:
    """What cannot be read means the usual order."""
    field, _, direction = (text or "").partition(",")
    if field not in _ORDERS or direction not in ("ASC", "DESC"):
        return Order.SUBMITTED, True
    return _ORDERS[field], direction == "DESC"

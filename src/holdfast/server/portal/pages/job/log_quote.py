"""What a failed job's own log says went wrong, quoted on its page: only its end is looked at."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from holdfast.core.errors import Expired, NotFound
from holdfast.engines.base import LogSource
from holdfast.services.logs.service import Selection

from ...jobs.error_quote import first_error
from ...visit import Visit
from ..log import read_span

TAIL = 64 * 1024  # bytes
_OURS = re.compile(rb"^job has finished with exit code -?\d+\n=+\n", re.MULTILINE)  # what we add to a held task's log


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuote:
    text: str
    address: str  # the log, at that place


async def quote_log(visit: Visit, job_id: str, task: str | None) -> LogQuote | None:
    """None where there is no log, or nothing in it looks like an error."""
    if task is None:
        return None
    try:
        chosen = await visit.services.logs.choose(visit.who, Selection(ref=job_id, task=task))
        data, start = await _tail(visit, visit.services.logs.source(chosen))
    except (NotFound, Expired):
        return None
    ours = _OURS.search(data)
    found = await asyncio.to_thread(first_error, data[: ours.start()] if ours else data, start)
    if found is None:
        return None
    query = {"task": task, "attempt": chosen.record.attempt, "try": chosen.record.task.number, "start": found.start}
    return LogQuote(text=found.text, address=f"/jobs/{job_id}/log?{urlencode(query)}")


async def _tail(visit: Visit, source: LogSource) -> tuple[bytes, int]:
    """Whole lines, and where they begin."""
    whole = await visit.services.logs.span(source)
    start = max(whole.start, whole.end - TAIL)
    data = await read_span(source, replace(whole, start=start))
    cut = data.find(b"\n") + 1 if start > whole.start else 0
    return data[cut:], start + cut

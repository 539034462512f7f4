"""The first error in the end of a failed job's log, quoted on its page."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from holdfast.core.errors import Expired, NotFound
from holdfast.engines.base import LogSource
from holdfast.services.logs.service import LogSelection

from ...jobs.error_quote import find_first_error
from ...visit import Visit
from ..log import read_log_bytes

TAIL_SIZE = 64 * 1024  # bytes
# Added to the log of a held task.
_HOLD_MARKER_PATTERN = re.compile(rb"^job has finished with exit code -?\d+\n=+\n", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuote:
    text: str
    address: str  # of the log, at the quote


async def quote_log_error(visit: Visit, job_id: str, task: str | None) -> LogQuote | None:
    """Return the quote; None if there is no log, or no error in it."""
    if task is None:
        return None
    try:
        chosen = await visit.services.logs.select_log(visit.current_actor, LogSelection(ref=job_id, task=task))
        data, start = await _read_tail(visit, visit.services.logs.open_source(chosen))
    except (NotFound, Expired):
        return None
    ours = _HOLD_MARKER_PATTERN.search(data)
    found = await asyncio.to_thread(find_first_error, data[: ours.start()] if ours else data, start)
    if found is None:
        return None
    query = {"task": task, "attempt": chosen.record.attempt, "try": chosen.record.task.number, "start": found.start}
    return LogQuote(text=found.text, address=f"/jobs/{job_id}/log?{urlencode(query)}")


async def _read_tail(visit: Visit, source: LogSource) -> tuple[bytes, int]:
    """Read the last whole lines; return them and their offset."""
    whole = await visit.services.logs.get_full_span(source)
    start = max(whole.start, whole.end - TAIL_SIZE)
    data = await read_log_bytes(source, replace(whole, start=start))
    cut = data.find(b"\n") + 1 if start > whole.start else 0
    return data[cut:], start + cut

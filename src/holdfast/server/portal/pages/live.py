"""`/live/jobs`: which jobs have changed, told to a page that shows some. The page then looks at them again.

A message is {"mark": "...", "jobs": ["job-...", ...]}, or {"mark": "...", "all": true} when more happened than is
remembered. With "waiting": true in it, why jobs wait may be another now ("jobs" may then be empty).

"calls": ["job-...", ...] names jobs of the reader's own that are held, or in which a debugger waits for somebody;
/jobs/ID/calls says what to tell of one.

`?since=MARK` goes on where an earlier message, or the page itself (<body data-mark>), stopped, so that nothing is
missed and nothing has to be asked twice. `?job=ID` tells of that job alone, and of calls.
"""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.core.access import Actor, Verb, may
from holdfast.services import Services
from holdfast.services.job_changes import News

from ..sockets import Line, socket

INTERVAL = 0.3  # seconds between two messages: what happens meanwhile comes together
MAX_NAMED = 500  # jobs in one message


async def tell_changes(line: Line) -> None:
    changes = line.services.changes
    mark = line.query.get("since") or line.mark
    while True:
        news = await changes.after(mark)
        mark = news.mark
        actor = await line.actor()
        message = message_of(news, actor, line.query.get("job"))
        calls = calls_of(news, actor, line.services)
        if calls:
            message = (message or {"mark": news.mark, "jobs": []}) | {"calls": calls}
        if message is not None:
            await line.send(message)
        await asyncio.sleep(INTERVAL)


def message_of(news: News, actor: Actor, only: str | None) -> dict[str, Any] | None:
    """What this reader may know of it; None: nothing."""
    if news.everything:
        return {"mark": news.mark, "all": True}
    seen = {change.job for change in news.jobs if may(actor, Verb.SEE_JOB, change.group)}
    if only is not None:
        seen &= {only}
    if len(seen) > MAX_NAMED:
        return {"mark": news.mark, "all": True}
    if not seen and not news.waiting:
        return None
    message: dict[str, Any] = {"mark": news.mark, "jobs": sorted(seen)}
    return message | {"waiting": True} if news.waiting else message


def calls_of(news: News, actor: Actor, services: Services) -> list[str]:
    """Jobs of the reader's own that changed and call for them. From memory alone."""
    own = {change.job for change in news.jobs if change.user == actor.name}
    return sorted(
        job for job in own if services.holds.of(job) or any(each.is_free for each in services.debuggers.of(job))
    )


routes = [socket("/live/jobs", tell_changes)]

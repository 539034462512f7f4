"""`/live/jobs`: sends the changed jobs to a page, which then reloads them.

A message is {"mark": "...", "jobs": ["job-...", ...]}, or {"mark": "...", "all": true} if more changed than is
remembered. "waiting": true means that the reasons of pending jobs may have changed ("jobs" may then be empty).

"attention": ["job-...", ...] lists jobs of the user that are on hold, or in which a debugger waits; /jobs/ID/attention
has the details.

`?since=MARK` continues after an earlier message or the page itself (<body data-mark>), so that nothing is missed or
sent twice. `?job=ID` limits the messages to that job and to attention.
"""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.core.access import Actor, Permission, has_permission
from holdfast.services import Services
from holdfast.services.job_changes import ChangeSet

from ..sockets import PortalSocket, build_socket_route

MESSAGE_INTERVAL = 0.3  # seconds between two messages; changes are batched
MAX_NAMED_JOBS = 500  # jobs in one message


async def serve_changes(socket: PortalSocket) -> None:
    changes = socket.services.changes
    mark = socket.query.get("since") or socket.mark
    while True:
        news = await changes.wait_for_changes(mark)
        mark = news.mark
        actor = await socket.load_actor()
        message = build_change_message(news, actor, socket.query.get("job"))
        attention = list_jobs_needing_attention(news, actor, socket.services)
        if attention:
            message = (message or {"mark": news.mark, "jobs": []}) | {"attention": attention}
        if message is not None:
            await socket.send(message)
        await asyncio.sleep(MESSAGE_INTERVAL)


def build_change_message(news: ChangeSet, actor: Actor, only: str | None) -> dict[str, Any] | None:
    """Build the message with the changes that the user can see; None: there are none."""
    if news.everything:
        return {"mark": news.mark, "all": True}
    seen = {change.job for change in news.jobs if has_permission(actor, Permission.SEE_JOB, change.group)}
    if only is not None:
        seen &= {only}
    if len(seen) > MAX_NAMED_JOBS:
        return {"mark": news.mark, "all": True}
    if not seen and not news.waiting:
        return None
    message: dict[str, Any] = {"mark": news.mark, "jobs": sorted(seen)}
    return message | {"waiting": True} if news.waiting else message


def list_jobs_needing_attention(news: ChangeSet, actor: Actor, services: Services) -> list[str]:
    """Return the changed jobs of the user that need attention. Reads memory only."""
    own = {change.job for change in news.jobs if change.user == actor.name}
    return sorted(
        job
        for job in own
        if services.holds.list_held_tasks(job)
        or any(each.is_free for each in services.debuggers.list_job_debuggers(job))
    )


routes = [build_socket_route("/live/jobs", serve_changes)]

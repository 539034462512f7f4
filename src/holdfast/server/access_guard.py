"""Access that must stay valid for as long as a stream, a socket or a wait lasts.

Access is checked again whenever users, groups or tokens change and when a token expires: one cached lookup for each
change, none for each chunk that is sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NoReturn, TypeVar

from starlette.requests import HTTPConnection

from holdfast.core.access import Actor, Permission, has_permission
from holdfast.core.errors import Forbidden, JobNotFound
from holdfast.core.messages import msg
from holdfast.core.records import JobSummary
from holdfast.services import Services
from holdfast.services.people.tokens import Tokens
from holdfast.store.errors import StoreError

from .auth import read_request_token

log = logging.getLogger(__name__)

T = TypeVar("T")

RECHECK_INTERVAL = 20.0  # seconds; for changes that no event announces, such as a changed clock
RETRY_INTERVAL = 2.0  # seconds, after the database could not be read

ActorResolver = Callable[[], Awaitable[Actor]]
AccessCheck = Callable[[Actor], None]  # raises a UserError when the actor is denied


class AccessGuard:
    def __init__(self, tokens: Tokens, get_actor: ActorResolver, require: AccessCheck) -> None:
        self._tokens = tokens
        self._get_actor = get_actor
        self._require = require

    async def check_access(self) -> Actor:
        """Return the current actor, or raise the error that a new request would get."""
        actor = await self._get_actor()
        self._require(actor)
        return actor

    async def wait_for_revocation(self) -> NoReturn:
        """Wait until access ends; raise the UserError with the reason."""
        while True:
            mark = self._tokens.generation  # before the check, so that a change during it is not missed
            try:
                await self.check_access()
            except StoreError as error:
                log.warning("could not check access", extra={"event": "access", "error": str(error)})
                await asyncio.sleep(RETRY_INTERVAL)
                continue
            await self._tokens.wait_for_change(mark, RECHECK_INTERVAL)

    async def run_guarded(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`. When access ends, cancel it and raise the UserError."""
        working, watching = asyncio.ensure_future(work), asyncio.ensure_future(self.wait_for_revocation())
        try:
            await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                watching.result()
            result = working.result()
        finally:
            working.cancel()
            watching.cancel()
            await asyncio.gather(working, watching, return_exceptions=True)
        await self.check_access()  # a change may arrive at the same time as the result
        return result


def make_request_guard(services: Services, request: HTTPConnection, require: AccessCheck) -> AccessGuard:
    """Return a guard for the token of a request that was authorised before."""
    token = read_request_token(request)
    return AccessGuard(services.tokens, lambda: services.tokens.resolve_actor(token), require)


def make_job_access_check(job: JobSummary) -> AccessCheck:
    def require_access(actor: Actor) -> None:
        if not has_permission(actor, Permission.SEE_JOB, job.group):
            raise JobNotFound(
                msg("Job {id} not found", id=job.id), hint=msg("Run `holdfast ls` to list the jobs that you can see.")
            )

    return require_access


def make_files_access_check(group: str) -> AccessCheck:
    def require_access(actor: Actor) -> None:
        if not has_permission(actor, Permission.USE_FILES, group):
            raise Forbidden(msg("Only members of {group} can use its shared files", group=group), field="group")

    return require_access


def require_usage_report_access(actor: Actor) -> None:
    if not has_permission(actor, Permission.MANAGE_INSTALLATION):
        raise Forbidden(msg("Only admins can read usage reports"))

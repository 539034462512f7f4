"""Access that must hold for as long as a stream, a socket or a wait lasts.

Access is checked again whenever users, groups or tokens change and when a token expires: one cached look-up for each
change, none for each chunk that is sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NoReturn, TypeVar

from starlette.requests import HTTPConnection

from holdfast.core.access import Actor, Verb, may
from holdfast.core.errors import Forbidden, NotFound
from holdfast.core.messages import msg
from holdfast.core.records import JobSummary
from holdfast.services import Services
from holdfast.services.people.tokens import Tokens
from holdfast.store.errors import StoreError

from .auth import token_of

log = logging.getLogger(__name__)

T = TypeVar("T")

RECHECK_INTERVAL = 20.0  # seconds; for what no change announces, such as a clock that was set
RETRY_INTERVAL = 2.0  # seconds, after the database could not be read

GetActor = Callable[[], Awaitable[Actor]]
Require = Callable[[Actor], None]  # raises a UserError when the actor may not


class AccessGuard:
    def __init__(self, tokens: Tokens, get_actor: GetActor, require: Require) -> None:
        self._tokens = tokens
        self._get_actor = get_actor
        self._require = require

    async def check(self) -> Actor:
        """Return the actor as of now, or raise what a new request would be refused with."""
        actor = await self._get_actor()
        self._require(actor)
        return actor

    async def watch(self) -> NoReturn:
        """Wait until access ends; raise the UserError that says why."""
        while True:
            mark = self._tokens.mark  # before the check, so that a change during it is not missed
            try:
                await self.check()
            except StoreError as error:
                log.warning("could not check access", extra={"event": "access", "error": str(error)})
                await asyncio.sleep(RETRY_INTERVAL)
                continue
            await self._tokens.changed(mark, RECHECK_INTERVAL)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`, which is cancelled when access ends; the UserError is raised then."""
        working, watching = asyncio.ensure_future(work), asyncio.ensure_future(self.watch())
        try:
            await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                watching.result()
            result = working.result()
        finally:
            working.cancel()
            watching.cancel()
            await asyncio.gather(working, watching, return_exceptions=True)
        await self.check()  # a change may have come in the same moment as the result
        return result


def guard_request(services: Services, request: HTTPConnection, require: Require) -> AccessGuard:
    """Guard for the token that came with a request that was let in before."""
    token = token_of(request)
    return AccessGuard(services.tokens, lambda: services.tokens.actor(token), require)


def require_job(job: JobSummary) -> Require:
    def require(actor: Actor) -> None:
        if not may(actor, Verb.SEE_JOB, job.group):
            raise NotFound(
                msg("There is no job {id}", id=job.id), hint=msg("`holdfast ls` lists the jobs that you can see.")
            )

    return require


def require_files(group: str) -> Require:
    def require(actor: Actor) -> None:
        if not may(actor, Verb.USE_FILES, group):
            raise Forbidden(msg("Only members of {group} use its shared files", group=group), field="group")

    return require


def require_admin(actor: Actor) -> None:
    if not may(actor, Verb.MANAGE_PLACE):
        raise Forbidden(msg("Only admins see usage reports"))

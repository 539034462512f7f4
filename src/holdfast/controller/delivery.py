"""Sending notifications: a few at a time, so that receivers which are slow or gone hold up nobody but themselves.

Each is marked as being sent once a connection is there and before anything is sent, by a write that only one can win.
So what is found marked at the start was cut off in the middle: it may have arrived, and is not sent again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from holdfast.core.errors import HoldfastError
from holdfast.core.messages import msg
from holdfast.core.notifications import FEW, NotificationState, wait_after
from holdfast.services.notifications.delivery import DeliveryAttempt, DeliveryResult
from holdfast.services.notifications.sending import Sending
from holdfast.store import people
from holdfast.store.database import Store
from holdfast.store.notifications import records as notification_rows
from holdfast.store.notifications.records import Due, Result

from .event_wait import rest

log = logging.getLogger(__name__)

MAX_CONCURRENT = 32
PER_LANE = 4  # to one machine
PER_USER = 8
MAX_SLEEP = 60.0  # seconds; the clock on the wall may be set meanwhile
TRY_AGAIN = 5.0  # seconds after the store failed
LAST_MOMENT = 2.0  # seconds, when the server ends
UNREADABLE = msg("its address cannot be read")
CUT_OFF = msg("the server ended while it was being sent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    first_wait: timedelta = timedelta(seconds=1)
    give_up: timedelta = timedelta(hours=24)


class Delivery:
    def __init__(
        self,
        store: Store,
        sending: Sending,
        patience: Patience | None = None,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = store
        self._sending = sending
        self._patience = patience or Patience()
        self._clock = clock
        self._stirred = asyncio.Event()
        self._work: dict[asyncio.Task[None], int] = {}  # and which notification it sends
        self._lanes: Counter[str] = Counter()
        self._users: Counter[str] = Counter()

    def stir(self) -> None:
        """There are new notifications."""
        self._stirred.set()

    async def run(self) -> None:
        """Until cancelled. What is under way then is cut off, and known to be at the next start."""
        recovered = False
        try:
            while True:
                try:
                    if not recovered:
                        await self.recover()
                        recovered = True
                    pause = await self._pause()
                except Exception as error:
                    unknown = None if isinstance(error, HoldfastError) else error
                    text = msg("could not send notifications; trying again")
                    log.error(text, extra={"event": "notifications", "error": str(error)}, exc_info=unknown)
                    pause = TRY_AGAIN
                await rest(self._stirred, pause)
        finally:
            await self.close()

    async def recover(self) -> None:
        count = await self._store.write(notification_rows.leave_unconfirmed, self._clock(), CUT_OFF)
        if count:
            log.warning("notifications may or may not have arrived", extra={"event": "notifications", "count": count})

    async def close(self) -> None:
        """Those that are nearly through get a moment."""
        if self._work:
            await asyncio.wait(self._work, timeout=LAST_MOMENT)
        for task in self._work:
            task.cancel()
        if self._work:
            await asyncio.wait(self._work)

    async def _pause(self) -> float:
        """Begin to send what is due, and say how long nothing will be. What is due but has no room waits for the end
        of another try, which stirs."""
        if await self.send_due():
            return 0.0
        now = self._clock()
        next_at = await self._store.read(notification_rows.next_due, now)
        return MAX_SLEEP if next_at is None else min((next_at - now).total_seconds(), MAX_SLEEP)

    async def send_due(self) -> int:
        """Begin to send what is due and has room; how many."""
        room = MAX_CONCURRENT - len(self._work)
        if room <= 0:
            return 0
        found = await self._store.read(
            notification_rows.due_notifications,
            self._clock(),
            lanes=[lane for lane, count in self._lanes.items() if count >= PER_LANE],
            users=[user for user, count in self._users.items() if count >= PER_USER],
            under_way=list(self._work.values()),
            limit=room,
        )
        before = len(self._work)
        for due in found:
            if self._lanes[due.lane] < PER_LANE and self._users[due.notification.user] < PER_USER:
                self._begin(due)
        return len(self._work) - before

    async def idle(self) -> None:
        """Until nothing is being sent."""
        while self._work:
            await asyncio.wait(self._work)

    def _begin(self, due: Due) -> None:
        self._lanes[due.lane] += 1
        self._users[due.notification.user] += 1
        task = asyncio.create_task(self._deliver(due))
        self._work[task] = due.seq
        task.add_done_callback(lambda task: self._ended(task, due))

    def _ended(self, task: asyncio.Task[None], due: Due) -> None:
        self._work.pop(task, None)
        for counter, key in ((self._lanes, due.lane), (self._users, due.notification.user)):
            counter[key] -= 1
            if not counter[key]:
                del counter[key]
        self._stirred.set()

    async def _deliver(self, due: Due) -> None:
        if not due.readable:
            await self._give_up(due)
            return
        claimed = False

        async def claim() -> bool:
            nonlocal claimed
            claimed = await self._store.write(notification_rows.claim, due.seq, due.tries)
            return claimed

        try:
            user = await self._store.read(people.get_user, due.notification.user)
            attempt = await self._sending.send(due.notification, claim, anywhere=user is not None and user.admin)
        except Exception as error:  # a bug of ours
            log.exception(
                "could not send a notification", extra={"event": "notifications", "notification": due.notification.id}
            )
            attempt = DeliveryAttempt(DeliveryResult.LATER, msg("an internal error: {name}", name=type(error).__name__))
        if attempt.result is not DeliveryResult.TAKEN:
            await self._keep(self._result(due, attempt, claimed))

    async def _give_up(self, due: Due) -> None:
        """Nobody knows where it was to go."""
        log.warning(
            "the address of a notification cannot be read",
            extra={"event": "notifications", "notification": due.notification.id},
        )
        failed = NotificationState.FAILED
        tries, now = due.tries + 1, self._clock()
        await self._keep(Result(seq=due.seq, tries=tries, claimed=False, state=failed, at=now, error=UNREADABLE))

    async def _keep(self, result: Result) -> None:
        """Until it is saved: else it would be unknown whether it arrived."""
        while True:
            try:
                await self._store.write(notification_rows.settle, result)
                return
            except HoldfastError as error:
                log.error(
                    "could not note what came of a notification", extra={"event": "notifications", "error": str(error)}
                )
                await asyncio.sleep(TRY_AGAIN)

    def _result(self, due: Due, attempt: DeliveryAttempt, claimed: bool) -> Result:
        now, tries = self._clock(), due.tries + 1
        state, next_at = self._after(due, attempt, tries, now)
        said = "" if state is NotificationState.SENT else attempt.said
        return Result(seq=due.seq, tries=tries, claimed=claimed, state=state, at=now, error=said, next_at=next_at)

    def _after(
        self, due: Due, attempt: DeliveryAttempt, tries: int, now: datetime
    ) -> tuple[NotificationState, datetime | None]:
        if attempt.result is DeliveryResult.SENT:
            return NotificationState.SENT, None
        if attempt.result is DeliveryResult.UNSURE:
            return NotificationState.UNCONFIRMED, None
        chance = random.random()  # noqa: S311 - spreads tries, guards nothing
        next_at = now + max(wait_after(tries, self._patience.first_wait, chance), attempt.wait)
        over = next_at - due.notification.created_at > self._patience.give_up
        if over or (attempt.result is DeliveryResult.REFUSED and tries >= FEW):
            return NotificationState.FAILED, None
        return NotificationState.WAITING, next_at

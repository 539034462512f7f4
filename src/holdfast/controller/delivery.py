"""Sends notifications with limited concurrency, so that slow receivers delay only themselves.

Each is marked as being sent after the connection is open and before data is sent, by a write that only one sender wins.
So one that is found marked at startup was interrupted: it may have arrived, and is not sent again.
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
from holdfast.core.notifications import MAX_REFUSED_TRIES, NotificationState, compute_retry_delay
from holdfast.services.notifications.delivery import DeliveryAttempt, DeliveryResult
from holdfast.services.notifications.sender import NotificationSender
from holdfast.store import people
from holdfast.store.database import Store
from holdfast.store.notifications import records as notification_rows
from holdfast.store.notifications.records import DeliveryOutcome, DueNotification

from .event_wait import wait_until_set

log = logging.getLogger(__name__)

MAX_CONCURRENT_DELIVERIES = 32
MAX_DELIVERIES_PER_HOST = 4
MAX_DELIVERIES_PER_USER = 8
MAX_SLEEP = 60.0  # seconds; the wall clock may be changed
RETRY_INTERVAL = 5.0  # seconds after the store failed
CLOSE_TIMEOUT = 2.0  # seconds for deliveries when the server stops
ADDRESS_UNREADABLE_MESSAGE = msg("its address cannot be decrypted")
INTERRUPTED_MESSAGE = msg("the server stopped during the delivery")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    first_wait: timedelta = timedelta(seconds=1)
    give_up: timedelta = timedelta(hours=24)


class DeliveryRunner:
    def __init__(
        self,
        store: Store,
        sending: NotificationSender,
        retry_policy: RetryPolicy | None = None,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = store
        self._sender = sending
        self._retry_policy = retry_policy or RetryPolicy()
        self._clock = clock
        self._wake_event = asyncio.Event()
        self._deliveries: dict[asyncio.Task[None], int] = {}  # and which notification it sends
        self._lanes: Counter[str] = Counter()
        self._users: Counter[str] = Counter()

    def wake(self) -> None:
        self._wake_event.set()

    async def run(self) -> None:
        """Send until cancelled. Deliveries in progress are then interrupted, and recovered at the next start."""
        recovered = False
        try:
            while True:
                try:
                    if not recovered:
                        await self.recover_interrupted_deliveries()
                        recovered = True
                    pause = await self._run_delivery_round()
                except Exception as error:
                    unknown = None if isinstance(error, HoldfastError) else error
                    text = msg("could not send notifications; retrying")
                    log.error(text, extra={"event": "notifications", "error": str(error)}, exc_info=unknown)
                    pause = RETRY_INTERVAL
                await wait_until_set(self._wake_event, pause)
        finally:
            await self.close()

    async def recover_interrupted_deliveries(self) -> None:
        count = await self._store.write(
            notification_rows.mark_interrupted_notifications, self._clock(), INTERRUPTED_MESSAGE
        )
        if count:
            log.warning("notifications may or may not have arrived", extra={"event": "notifications", "count": count})

    async def close(self) -> None:
        """Give deliveries in progress a short time to finish."""
        if self._deliveries:
            await asyncio.wait(self._deliveries, timeout=CLOSE_TIMEOUT)
        for task in self._deliveries:
            task.cancel()
        if self._deliveries:
            await asyncio.wait(self._deliveries)

    async def _run_delivery_round(self) -> float:
        """Return the pause in seconds. A finished delivery ends it for those without a slot."""
        if await self.start_due_deliveries():
            return 0.0
        now = self._clock()
        next_at = await self._store.read(notification_rows.find_next_due_time, now)
        return MAX_SLEEP if next_at is None else min((next_at - now).total_seconds(), MAX_SLEEP)

    async def start_due_deliveries(self) -> int:
        """Start due deliveries within the limits; return their number."""
        room = MAX_CONCURRENT_DELIVERIES - len(self._deliveries)
        if room <= 0:
            return 0
        found = await self._store.read(
            notification_rows.list_due_notifications,
            self._clock(),
            lanes=[lane for lane, count in self._lanes.items() if count >= MAX_DELIVERIES_PER_HOST],
            users=[user for user, count in self._users.items() if count >= MAX_DELIVERIES_PER_USER],
            under_way=list(self._deliveries.values()),
            limit=room,
        )
        before = len(self._deliveries)
        for due in found:
            if (
                self._lanes[due.lane] < MAX_DELIVERIES_PER_HOST
                and self._users[due.notification.user] < MAX_DELIVERIES_PER_USER
            ):
                self._start_delivery(due)
        return len(self._deliveries) - before

    async def wait_until_idle(self) -> None:
        while self._deliveries:
            await asyncio.wait(self._deliveries)

    def _start_delivery(self, due: DueNotification) -> None:
        self._lanes[due.lane] += 1
        self._users[due.notification.user] += 1
        task = asyncio.create_task(self._deliver_notification(due))
        self._deliveries[task] = due.seq
        task.add_done_callback(lambda task: self._finish_delivery(task, due))

    def _finish_delivery(self, task: asyncio.Task[None], due: DueNotification) -> None:
        self._deliveries.pop(task, None)
        for counter, key in ((self._lanes, due.lane), (self._users, due.notification.user)):
            counter[key] -= 1
            if not counter[key]:
                del counter[key]
        self._wake_event.set()

    async def _deliver_notification(self, due: DueNotification) -> None:
        if not due.readable:
            await self._fail_unreadable_notification(due)
            return
        claimed = False

        async def claim_notification() -> bool:
            nonlocal claimed
            claimed = await self._store.write(notification_rows.claim_notification, due.seq, due.tries)
            return claimed

        try:
            user = await self._store.read(people.get_user, due.notification.user)
            attempt = await self._sender.send_notification(
                due.notification, claim_notification, anywhere=user is not None and user.admin
            )
        except Exception as error:  # a bug
            log.exception(
                "could not send a notification", extra={"event": "notifications", "notification": due.notification.id}
            )
            attempt = DeliveryAttempt(DeliveryResult.DEFERRED, msg("internal error: {name}", name=type(error).__name__))
        if attempt.result is not DeliveryResult.CLAIMED_ELSEWHERE:
            await self._save_result(self._build_result(due, attempt, claimed))

    async def _fail_unreadable_notification(self, due: DueNotification) -> None:
        """Fail a notification whose address cannot be decrypted."""
        log.warning(
            "the address of a notification cannot be decrypted",
            extra={"event": "notifications", "notification": due.notification.id},
        )
        failed = NotificationState.FAILED
        tries, now = due.tries + 1, self._clock()
        await self._save_result(
            DeliveryOutcome(
                seq=due.seq, tries=tries, claimed=False, state=failed, at=now, error=ADDRESS_UNREADABLE_MESSAGE
            )
        )

    async def _save_result(self, result: DeliveryOutcome) -> None:
        """Retry until the result is saved; otherwise it is unknown whether it arrived."""
        while True:
            try:
                await self._store.write(notification_rows.record_delivery, result)
                return
            except HoldfastError as error:
                log.error(
                    "could not save the result of a notification", extra={"event": "notifications", "error": str(error)}
                )
                await asyncio.sleep(RETRY_INTERVAL)

    def _build_result(self, due: DueNotification, attempt: DeliveryAttempt, claimed: bool) -> DeliveryOutcome:
        now, tries = self._clock(), due.tries + 1
        state, next_at = self._decide_next_state(due, attempt, tries, now)
        message = "" if state is NotificationState.SENT else attempt.message
        return DeliveryOutcome(
            seq=due.seq, tries=tries, claimed=claimed, state=state, at=now, error=message, next_at=next_at
        )

    def _decide_next_state(
        self, due: DueNotification, attempt: DeliveryAttempt, tries: int, now: datetime
    ) -> tuple[NotificationState, datetime | None]:
        if attempt.result is DeliveryResult.SENT:
            return NotificationState.SENT, None
        if attempt.result is DeliveryResult.UNCONFIRMED:
            return NotificationState.UNCONFIRMED, None
        chance = random.random()  # noqa: S311 - spreads tries, guards nothing
        next_at = now + max(compute_retry_delay(tries, self._retry_policy.first_wait, chance), attempt.wait)
        over = next_at - due.notification.created_at > self._retry_policy.give_up
        if over or (attempt.result is DeliveryResult.REFUSED and tries >= MAX_REFUSED_TRIES):
            return NotificationState.FAILED, None
        return NotificationState.WAITING, next_at

"""Creates notifications for events, and deletes old ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from holdfast.core.attempt import JobSnapshot
from holdfast.core.errors import HoldfastError
from holdfast.core.messages import msg
from holdfast.services.notifications.creation import NotificationCreator
from holdfast.services.notifications.service import Notifications

from .event_wait import wait_until_set

log = logging.getLogger(__name__)

MAX_SLEEP = 60.0  # seconds between two checks without a wake-up
RETRY_INTERVAL = 5.0  # seconds after the store failed
SWEEP_INTERVAL = 3600.0  # seconds


class NotificationWatcher:
    def __init__(self, making: NotificationCreator, made: Callable[[], None]) -> None:
        """`made` is called when there are new notifications."""
        self._creator = making
        self._on_created = made
        self._wake_event = asyncio.Event()

    def handle_job_change(self, snapshot: JobSnapshot) -> None:
        if self._creator.is_relevant(snapshot):
            self._wake_event.set()

    def wake(self) -> None:
        self._wake_event.set()

    async def run(self) -> None:
        begun = False
        while True:
            pause = MAX_SLEEP
            try:
                if not begun:
                    await self._creator.initialize()
                    begun = True
                if await self._creator.create_notifications():
                    self._on_created()
            except Exception as error:
                unknown = None if isinstance(error, HoldfastError) else error
                text = msg("could not create notifications; retrying")
                log.error(text, extra={"event": "notifications", "error": str(error)}, exc_info=unknown)
                pause = RETRY_INTERVAL
            await wait_until_set(self._wake_event, pause)


class NotificationRetention:
    def __init__(self, notifications: Notifications) -> None:
        self._notifications = notifications

    async def run(self) -> None:
        while True:
            try:
                await self._notifications.delete_old_notifications()
            except Exception:
                log.exception("could not remove old notifications", extra={"event": "retention"})
            await asyncio.sleep(SWEEP_INTERVAL)

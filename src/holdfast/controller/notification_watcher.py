"""Watching what happens, so that notifications are made of it; and forgetting old ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from holdfast.core.attempt import JobSnapshot
from holdfast.core.errors import HoldfastError
from holdfast.core.messages import msg
from holdfast.services.notifications.creation import Making
from holdfast.services.notifications.service import Notifications

from .event_wait import rest

log = logging.getLogger(__name__)

MAX_SLEEP = 60.0  # seconds between two looks at what happened, though nobody seems to want to be told
TRY_AGAIN = 5.0  # seconds after the store failed
SWEEP_INTERVAL = 3600.0


class NotificationWatcher:
    def __init__(self, making: Making, made: Callable[[], None]) -> None:
        """`made` is called when there are new notifications."""
        self._making = making
        self._made = made
        self._stirred = asyncio.Event()

    def job_changed(self, snapshot: JobSnapshot) -> None:
        if self._making.wants(snapshot):
            self._stirred.set()

    def stir(self) -> None:
        self._stirred.set()

    async def run(self) -> None:
        """Until cancelled."""
        begun = False
        while True:
            pause = MAX_SLEEP
            try:
                if not begun:
                    await self._making.begin()
                    begun = True
                if await self._making.make():
                    self._made()
            except Exception as error:
                unknown = None if isinstance(error, HoldfastError) else error
                text = msg("could not make notifications; trying again")
                log.error(text, extra={"event": "notifications", "error": str(error)}, exc_info=unknown)
                pause = TRY_AGAIN
            await rest(self._stirred, pause)


class NotificationRetention:
    def __init__(self, notifications: Notifications) -> None:
        self._notifications = notifications

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self._notifications.sweep()
            except Exception:
                log.exception("could not remove old notifications", extra={"event": "retention"})
            await asyncio.sleep(SWEEP_INTERVAL)

"""Mails, handed to the mail server that the admin named."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from holdfast.core.messages import msg
from holdfast.settings import MailSettings
from holdfast.store.notifications.records import NewNotification

from .delivery import MailAttempt

MAX_CONCURRENT = 4


class Mailing:
    def __init__(self, settings: MailSettings, *, timeout: float) -> None:
        self._settings = settings
        self._timeout = timeout
        self._workers = ThreadPoolExecutor(MAX_CONCURRENT, thread_name_prefix="mail")

    @property
    def ready(self) -> bool:
        return bool(self._settings.host and self._settings.sender)

    def refusal(self, address: str) -> str | None:
        """Why no mail goes there; None: one may."""
        if not self.ready:
            return msg("this server sends no mails")
        domain = address.rpartition("@")[2].lower()
        known = [each.lower() for each in self._settings.domains]
        if known and not any(domain == each or domain.endswith(f".{each}") for each in known):
            return msg("this server sends no mails to {domain}", domain=domain)
        return None

    async def send(self, notification: NewNotification, claim: Callable[[], Awaitable[bool]]) -> MailAttempt:
        """`claim` is asked right before anything of the mail is sent; without it nothing is."""
        from .smtp import Smtp  # most servers send no mails, and start quicker without

        loop, server = asyncio.get_running_loop(), Smtp(self._settings, self._timeout)

        async def ask() -> bool:
            return await claim()

        def claim_now() -> bool:
            return asyncio.run_coroutine_threadsafe(ask(), loop).result(self._timeout)

        return await loop.run_in_executor(self._workers, server.send, notification, claim_now)

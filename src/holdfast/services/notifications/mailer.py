"""Send mails through the configured mail server."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from holdfast.core.messages import msg
from holdfast.settings_sections import MailSettings
from holdfast.store.notifications.records import NewNotification

from .delivery import ClaimCallback, DeliveryAttempt

MAX_CONCURRENT_MAILS = 4


class Mailer:
    def __init__(self, settings: MailSettings, *, timeout: float) -> None:
        self._settings = settings
        self._timeout = timeout
        self._workers = ThreadPoolExecutor(MAX_CONCURRENT_MAILS, thread_name_prefix="mail")

    @property
    def is_ready(self) -> bool:
        return bool(self._settings.host and self._settings.sender)

    def find_refusal(self, address: str) -> str | None:
        """Return why mail to this address is not allowed; None if it is."""
        if not self.is_ready:
            return msg("mail is disabled on this server")
        domain = address.rpartition("@")[2].lower()
        known = [each.lower() for each in self._settings.domains]
        if known and not any(domain == each or domain.endswith(f".{each}") for each in known):
            return msg("mail to {domain} is not allowed on this server", domain=domain)
        return None

    async def send_mail(self, notification: NewNotification, claim: ClaimCallback) -> DeliveryAttempt:
        """Send a mail. `claim` is called right before sending; if it returns False, nothing is sent."""
        from .smtp import SmtpClient  # imported late: most servers send no mail and start faster without it

        loop, server = asyncio.get_running_loop(), SmtpClient(self._settings, self._timeout)

        async def await_claim() -> bool:
            return await claim()

        def claim_now() -> bool:
            return asyncio.run_coroutine_threadsafe(await_claim(), loop).result(self._timeout)

        return await loop.run_in_executor(self._workers, server.send_mail, notification, claim_now)

"""Mails, handed to the mail server that the admin named."""

from __future__ import annotations

import asyncio
import re
import smtplib
import ssl
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from holdfast.settings import MailSettings
from holdfast.store.notices import NewNotice

from .notice_texts import mail_of

AT_ONCE = 4
_LINE_START = re.compile(rb"^\.", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    said: str
    sent: bool = False
    refused: bool = False  # for good
    unsure: bool = False  # all of it was sent, and no answer came
    taken: bool = False  # somebody else is sending it


class Mailing:
    def __init__(self, settings: MailSettings, *, timeout: float) -> None:
        self._settings = settings
        self._timeout = timeout
        self._workers = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="mail")

    @property
    def ready(self) -> bool:
        return bool(self._settings.host and self._settings.sender)

    def refusal(self, address: str) -> str | None:
        """Why no mail goes there; None: one may."""
        if not self.ready:
            return "this server sends no mails"
        domain = address.rpartition("@")[2].lower()
        known = [each.lower() for each in self._settings.domains]
        if known and not any(domain == each or domain.endswith(f".{each}") for each in known):
            return f"this server sends no mails to {domain}"
        return None

    async def send(self, notice: NewNotice, claim: Callable[[], Awaitable[bool]]) -> Tried:
        """`claim` is asked right before anything of the mail is sent; without it nothing is."""
        loop = asyncio.get_running_loop()

        async def ask() -> bool:
            return await claim()

        def claim_now() -> bool:
            return asyncio.run_coroutine_threadsafe(ask(), loop).result(self._timeout)

        return await loop.run_in_executor(self._workers, self._send, notice, claim_now)

    def _send(self, notice: NewNotice, claim_now: Callable[[], bool]) -> Tried:
        """In a thread."""
        try:
            server = self._connected()
        except smtplib.SMTPResponseException as error:
            return Tried(said=f"the mail server answered {error.smtp_code}")
        except (OSError, smtplib.SMTPException):
            return Tried(said="the mail server could not be reached")
        try:
            return self._hand_over(server, notice, claim_now)
        finally:
            with suppress(OSError, smtplib.SMTPException):
                server.quit()
            server.close()

    def _connected(self) -> smtplib.SMTP:
        settings = self._settings
        context = ssl.create_default_context() if settings.security != "none" else None
        if settings.security == "tls":
            server: smtplib.SMTP = smtplib.SMTP_SSL(
                settings.host, settings.port, timeout=self._timeout, context=context
            )
        else:
            server = smtplib.SMTP(settings.host, settings.port, timeout=self._timeout)
        try:
            server.ehlo_or_helo_if_needed()
            if settings.security == "starttls":
                server.starttls(context=context)
            if settings.user:
                server.login(settings.user, self._password())
        except BaseException:
            server.close()
            raise
        return server

    def _password(self) -> str:
        if self._settings.password or not self._settings.password_file:
            return self._settings.password
        return Path(self._settings.password_file).read_text().partition("\n")[0].strip()

    def _hand_over(self, server: smtplib.SMTP, notice: NewNotice, claim_now: Callable[[], bool]) -> Tried:
        before = (lambda: server.mail(self._settings.sender), lambda: server.rcpt(notice.address))
        for step in before:
            refusal = _refusal(step)
            if refusal:
                return refusal
        if not claim_now():
            return Tried(said="", taken=True)
        return (
            _refusal(lambda: server.docmd("DATA"))
            or _refusal(lambda: self._give(server, notice), last=True)
            or Tried(said="the mail server took it", sent=True)
        )

    def _give(self, server: smtplib.SMTP, notice: NewNotice) -> tuple[int, bytes]:
        text = mail_of(notice, self._settings.sender).as_bytes()
        server.send(_LINE_START.sub(b"..", text) + b".\r\n")
        return server.getreply()


def _refusal(step: Callable[[], tuple[int, bytes]], *, last: bool = False) -> Tried | None:
    """None: the server agrees. After the `last` step it has the whole mail."""
    try:
        code, _ = step()
    except smtplib.SMTPException as error:
        late = last and isinstance(error.__context__, TimeoutError)
        said = "the mail server did not answer in time" if late else "the mail server hung up"
        return Tried(said=said, unsure=late)
    if 200 <= code < 400:
        return None
    return Tried(said=f"the mail server answered {code}", refused=500 <= code < 600)

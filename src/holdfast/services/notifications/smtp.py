"""One mail, over one connection to the mail server. Everything here blocks, and is called in threads."""

from __future__ import annotations

import re
import smtplib
import ssl
from collections.abc import Callable
from contextlib import suppress
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path

from holdfast.core.messages import msg
from holdfast.settings import MailSettings
from holdfast.store.notifications.records import NewNotification

from .delivery import MailAttempt
from .texts import one_line

_LINE_START = re.compile(rb"^\.", re.MULTILINE)
_POLICY = SMTP.clone(cte_type="7bit")  # for mail servers of every age


class Smtp:
    def __init__(self, settings: MailSettings, timeout: float) -> None:
        self._settings = settings
        self._timeout = timeout

    def send(self, notification: NewNotification, claim_now: Callable[[], bool]) -> MailAttempt:
        try:
            server = self._connected()
        except smtplib.SMTPResponseException as error:
            return MailAttempt(said=msg("the mail server answered {smtp_code}", smtp_code=error.smtp_code))
        except (OSError, smtplib.SMTPException):
            return MailAttempt(said=msg("the mail server could not be reached"))
        try:
            return self._hand_over(server, notification, claim_now)
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

    def _hand_over(
        self, server: smtplib.SMTP, notification: NewNotification, claim_now: Callable[[], bool]
    ) -> MailAttempt:
        before = (lambda: server.mail(self._settings.sender), lambda: server.rcpt(notification.address))
        for step in before:
            refusal = _refusal(step)
            if refusal:
                return refusal
        if not claim_now():
            return MailAttempt(said="", taken=True)
        return (
            _refusal(lambda: server.docmd("DATA"))
            or _refusal(lambda: self._give(server, notification), last=True)
            or MailAttempt(said=msg("the mail server took it"), sent=True)
        )

    def _give(self, server: smtplib.SMTP, notification: NewNotification) -> tuple[int, bytes]:
        text = mail_of(notification, self._settings.sender).as_bytes()
        server.send(_LINE_START.sub(b"..", text) + b".\r\n")
        return server.getreply()


def _refusal(step: Callable[[], tuple[int, bytes]], *, last: bool = False) -> MailAttempt | None:
    """None: the server agrees. After the `last` step it has the whole mail."""
    try:
        code, _ = step()
    except smtplib.SMTPException as error:
        late = last and isinstance(error.__context__, TimeoutError)
        said = msg("the mail server did not answer in time") if late else msg("the mail server hung up")
        return MailAttempt(said=said, unsure=late)
    if 200 <= code < 400:
        return None
    return MailAttempt(said=msg("the mail server answered {code}", code=code), refused=500 <= code < 600)


def mail_of(notification: NewNotification, sender: str) -> EmailMessage:
    message = EmailMessage(policy=_POLICY)
    message["From"] = sender
    message["To"] = notification.address
    message["Subject"] = msg("[holdfast] {subject}", subject=one_line(notification.subject))
    message["Date"] = notification.created_at
    message["Message-ID"] = f"<{notification.id}@{sender.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    message["Holdfast-Notification"] = notification.id
    message.set_content(f"{notification.body['text']}\n")
    return message

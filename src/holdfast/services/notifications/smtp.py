"""Send one mail over one connection to the mail server. All functions block and run in threads."""

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
from holdfast.settings_sections import MailSettings
from holdfast.store.notifications.records import NewNotification

from .delivery import DeliveryAttempt, DeliveryResult
from .texts import to_one_line

_LEADING_DOT_PATTERN = re.compile(rb"^\.", re.MULTILINE)
_MAIL_POLICY = SMTP.clone(cte_type="7bit")  # for mail servers of every age


class SmtpClient:
    def __init__(self, settings: MailSettings, timeout: float) -> None:
        self._settings = settings
        self._timeout = timeout

    def send_mail(self, notification: NewNotification, claim_now: Callable[[], bool]) -> DeliveryAttempt:
        try:
            server = self._open_connection()
        except smtplib.SMTPResponseException as error:
            message = msg("the mail server responded with {smtp_code}", smtp_code=error.smtp_code)
            return DeliveryAttempt(DeliveryResult.DEFERRED, message)
        except (OSError, smtplib.SMTPException):
            return DeliveryAttempt(DeliveryResult.DEFERRED, msg("the mail server could not be reached"))
        try:
            return self._deliver_mail(server, notification, claim_now)
        finally:
            with suppress(OSError, smtplib.SMTPException):
                server.quit()
            server.close()

    def _open_connection(self) -> smtplib.SMTP:
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
                server.login(settings.user, self._load_password())
        except BaseException:
            server.close()
            raise
        return server

    def _load_password(self) -> str:
        if self._settings.password or not self._settings.password_file:
            return self._settings.password
        return Path(self._settings.password_file).read_text().partition("\n")[0].strip()

    def _deliver_mail(
        self, server: smtplib.SMTP, notification: NewNotification, claim_now: Callable[[], bool]
    ) -> DeliveryAttempt:
        before = (lambda: server.mail(self._settings.sender), lambda: server.rcpt(notification.address))
        for step in before:
            refusal = _run_step(step)
            if refusal:
                return refusal
        if not claim_now():
            return DeliveryAttempt(DeliveryResult.CLAIMED_ELSEWHERE)
        return (
            _run_step(lambda: server.docmd("DATA"))
            or _run_step(lambda: self._send_data(server, notification), last=True)
            or DeliveryAttempt(DeliveryResult.SENT, msg("the mail server accepted the mail"))
        )

    def _send_data(self, server: smtplib.SMTP, notification: NewNotification) -> tuple[int, bytes]:
        text = build_mail(notification, self._settings.sender).as_bytes()
        server.send(_LEADING_DOT_PATTERN.sub(b"..", text) + b".\r\n")
        return server.getreply()


def _run_step(step: Callable[[], tuple[int, bytes]], *, last: bool = False) -> DeliveryAttempt | None:
    """Run one step; return None if the server accepts it. After the `last` step it has the whole mail."""
    try:
        code, _ = step()
    except smtplib.SMTPException as error:
        late = last and isinstance(error.__context__, TimeoutError)
        if late:
            return DeliveryAttempt(DeliveryResult.UNCONFIRMED, msg("the mail server did not respond in time"))
        return DeliveryAttempt(DeliveryResult.DEFERRED, msg("the mail server closed the connection"))
    if 200 <= code < 400:
        return None
    result = DeliveryResult.REFUSED if 500 <= code < 600 else DeliveryResult.DEFERRED
    return DeliveryAttempt(result, msg("the mail server responded with {code}", code=code))


def build_mail(notification: NewNotification, sender: str) -> EmailMessage:
    message = EmailMessage(policy=_MAIL_POLICY)
    message["From"] = sender
    message["To"] = notification.address
    message["Subject"] = msg("[holdfast] {subject}", subject=to_one_line(notification.subject))
    message["Date"] = notification.created_at
    message["Message-ID"] = f"<{notification.id}@{sender.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    message["Holdfast-Notification"] = notification.id
    message.set_content(f"{notification.body['text']}\n")
    return message

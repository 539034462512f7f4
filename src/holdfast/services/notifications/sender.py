"""One attempt to send a notification, and its result."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from datetime import datetime

from holdfast.core.messages import msg
from holdfast.core.notifications import Channel, find_address_problem
from holdfast.store.notifications.records import NewNotification

from .delivery import ClaimCallback, DeliveryAttempt, DeliveryResult, WebhookRequest
from .mailer import Mailer
from .texts import build_slack_body, build_webhook_body
from .webhook_targets import HostNotResolved, WebhookHostNotAllowed, WebhookHostResolver

USER_AGENT = b"holdfast-notifications/1"


class NotificationSender:
    def __init__(
        self,
        receivers: WebhookHostResolver,
        mailing: Mailer,
        derive: Callable[[bytes], bytes] | None,
        *,
        timeout: float,
        clock: Callable[[], datetime],
    ) -> None:
        self._receiver_resolver = receivers
        self._mailer = mailing
        self._derive = derive or (lambda purpose: hashlib.sha256(purpose).digest())
        self._timeout = timeout
        self._clock = clock

    async def send_notification(
        self, notification: NewNotification, claim: ClaimCallback, *, anywhere: bool = False
    ) -> DeliveryAttempt:
        """Send a notification. `anywhere`: to any address that the server can reach."""
        problem = find_address_problem(notification.way, notification.address)
        if problem:
            return DeliveryAttempt(DeliveryResult.REFUSED, msg("the address {problem}", problem=problem))
        if notification.way is Channel.MAIL:
            return await self._send_mail(notification, claim)
        return await self._send_webhook(notification, claim, anywhere)

    def derive_signing_secret(self, user: str, address: str) -> str:
        """One for each user and address, so that a receiver cannot forge notifications to others."""
        return self._derive(b"notices\0" + user.encode() + b"\0" + address.encode()).hex()

    async def _send_mail(self, notification: NewNotification, claim: ClaimCallback) -> DeliveryAttempt:
        refusal = self._mailer.find_refusal(notification.address)
        if refusal:
            return DeliveryAttempt(DeliveryResult.REFUSED, refusal)
        return await self._mailer.send_mail(notification, claim)

    async def _send_webhook(
        self, notification: NewNotification, claim: ClaimCallback, anywhere: bool
    ) -> DeliveryAttempt:
        from .webhook_request import (
            post_webhook,  # imported late: most servers send nothing and start faster without it
        )

        try:
            receiver = await self._receiver_resolver.resolve_webhook_host(notification.address, anywhere=anywhere)
        except WebhookHostNotAllowed as error:
            return DeliveryAttempt(DeliveryResult.REFUSED, str(error))
        except HostNotResolved as error:
            return DeliveryAttempt(DeliveryResult.DEFERRED, str(error))
        return await post_webhook(
            receiver, self._build_webhook_request(notification), claim, self._timeout, self._clock()
        )

    def _build_webhook_request(self, notification: NewNotification) -> WebhookRequest:
        body = (
            build_webhook_body(notification) if notification.way is Channel.WEBHOOK else build_slack_body(notification)
        )
        text = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        moment = str(int(self._clock().timestamp())).encode()
        key = self.derive_signing_secret(notification.user, notification.address).encode()
        signature = hmac.new(key, moment + b"." + text, "sha256").hexdigest().encode()
        headers = [
            (b"Content-Type", b"application/json"),
            (b"User-Agent", USER_AGENT),
            (b"Holdfast-Notification", notification.id.encode()),
            (b"Holdfast-Signature", b"t=" + moment + b",v1=" + signature),
            (b"Connection", b"close"),
        ]
        return WebhookRequest(notification.address.partition("#")[0], headers, text)

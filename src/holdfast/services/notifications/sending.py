"""One try to send a notification, and what is to be made of what came back."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from datetime import datetime

from holdfast.core.messages import msg
from holdfast.core.notifications import Way, address_problem
from holdfast.store.notifications.records import NewNotification

from .delivery import Claim, DeliveryAttempt, DeliveryResult, Request
from .mailing import Mailing
from .texts import slack_body, webhook_body
from .webhook_targets import NotAllowed, NotFoundByName, Receivers

AGENT = b"holdfast-notifications/1"


class Sending:
    def __init__(
        self,
        receivers: Receivers,
        mailing: Mailing,
        derive: Callable[[bytes], bytes] | None,
        *,
        timeout: float,
        clock: Callable[[], datetime],
    ) -> None:
        self._receivers = receivers
        self._mailing = mailing
        self._derive = derive or (lambda purpose: hashlib.sha256(purpose).digest())
        self._timeout = timeout
        self._clock = clock

    async def send(self, notification: NewNotification, claim: Claim, *, anywhere: bool = False) -> DeliveryAttempt:
        """`anywhere`: to whatever the server can reach."""
        problem = address_problem(notification.way, notification.address)
        if problem:
            return DeliveryAttempt(DeliveryResult.REFUSED, msg("the address {problem}", problem=problem))
        if notification.way is Way.MAIL:
            return await self._mail(notification, claim)
        return await self._post(notification, claim, anywhere)

    def secret(self, user: str, address: str) -> str:
        """What a receiver checks signatures with: one for each user and address, so that no receiver can pretend to be
        another's sender."""
        return self._derive(b"notices\0" + user.encode() + b"\0" + address.encode()).hex()

    async def _mail(self, notification: NewNotification, claim: Claim) -> DeliveryAttempt:
        refusal = self._mailing.refusal(notification.address)
        if refusal:
            return DeliveryAttempt(DeliveryResult.REFUSED, refusal)
        tried = await self._mailing.send(notification, claim)
        if tried.sent:
            return DeliveryAttempt(DeliveryResult.SENT, tried.said)
        if tried.taken:
            return DeliveryAttempt(DeliveryResult.TAKEN)
        if tried.unsure:
            return DeliveryAttempt(DeliveryResult.UNSURE, tried.said)
        return DeliveryAttempt(DeliveryResult.REFUSED if tried.refused else DeliveryResult.LATER, tried.said)

    async def _post(self, notification: NewNotification, claim: Claim, anywhere: bool) -> DeliveryAttempt:
        from .webhook_request import post  # most servers send nothing, and start quicker without

        try:
            receiver = await self._receivers.find(notification.address, anywhere=anywhere)
        except NotAllowed as error:
            return DeliveryAttempt(DeliveryResult.REFUSED, str(error))
        except NotFoundByName as error:
            return DeliveryAttempt(DeliveryResult.LATER, str(error))
        return await post(receiver, self._request(notification), claim, self._timeout, self._clock())

    def _request(self, notification: NewNotification) -> Request:
        body = webhook_body(notification) if notification.way is Way.WEBHOOK else slack_body(notification)
        text = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        moment = str(int(self._clock().timestamp())).encode()
        key = self.secret(notification.user, notification.address).encode()
        signature = hmac.new(key, moment + b"." + text, "sha256").hexdigest().encode()
        headers = [
            (b"Content-Type", b"application/json"),
            (b"User-Agent", AGENT),
            (b"Holdfast-Notification", notification.id.encode()),
            (b"Holdfast-Signature", b"t=" + moment + b",v1=" + signature),
            (b"Connection", b"close"),
        ]
        return Request(notification.address.partition("#")[0], headers, text)

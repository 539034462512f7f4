"""Notifications: recipients of users, sent notifications and test deliveries."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from holdfast.core.access import Actor
from holdfast.core.audit import AuditAction, AuditKind
from holdfast.core.errors import Conflict, Forbidden, NotFound, UserError
from holdfast.core.messages import msg
from holdfast.core.notifications import (
    DEFAULT_EVENTS,
    SELECTABLE_EVENTS,
    Channel,
    NotificationEvent,
    NotificationRecord,
    NotificationState,
    Recipient,
    StoredRecipient,
    find_address_problem,
    list_event_names,
    mask_address,
    parse_events,
)
from holdfast.store.notifications import creation as making_rows
from holdfast.store.notifications import recipients as recipient_rows
from holdfast.store.notifications import records as notification_rows
from holdfast.store.notifications.records import DeliveryOutcome

from ..audit import AuditedStore, AuditEntry
from ..errors import TooManyRequests
from ..name_suggestions import suggest_name
from .creation import NotificationCreator
from .delivery import DeliveryAttempt, DeliveryResult
from .sender import NotificationSender
from .texts import render_test_notification

MAX_RECIPIENTS = 20  # of each user
MAX_LISTED = 500
BATCH_SIZE = 1000
UNREADABLE_ADDRESS_MESSAGE = msg("The address of this recipient cannot be read")
UNREADABLE_HINT = msg("Remove it and add it again.")

_TEST_STATES = {
    DeliveryResult.SENT: NotificationState.SENT,
    DeliveryResult.DEFERRED: NotificationState.FAILED,
    DeliveryResult.REFUSED: NotificationState.FAILED,
    DeliveryResult.UNCONFIRMED: NotificationState.UNCONFIRMED,
    DeliveryResult.CLAIMED_ELSEWHERE: NotificationState.FAILED,
}


@dataclass(frozen=True, slots=True)
class NotificationPage:
    items: tuple[NotificationRecord, ...]
    next_before: int | None  # cursor of the next page; None: this is the last


class Notifications:
    def __init__(
        self,
        store: AuditedStore,
        making: NotificationCreator,
        sending: NotificationSender,
        *,
        per_hour: int,
        keep: timedelta,
        mail_ready: bool,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self.creator = making
        self.sender = sending
        self.mail_ready = mail_ready
        self._per_hour = per_hour
        self._retention = keep
        self._clock = clock
        self._testing_users: set[str] = set()

    # -- recipients

    async def list_recipients(self, actor: Actor, user: str | None = None) -> list[StoredRecipient]:
        """Return the recipients of the actor, or for admins of any user, in the order they were added."""
        return await self._store.read(recipient_rows.list_recipients, _resolve_user(actor, user))

    async def add_recipient(
        self, actor: Actor, way: str, address: str, events: Iterable[str] | None = None
    ) -> StoredRecipient:
        """Add a recipient of the actor for these events; default: all but started, stopped and retried."""
        recipient = Recipient(way=_parse_channel(way), address=address.strip(), events=_parse_events(events))
        self._check_recipient(recipient)
        known = [(each.recipient.way, each.recipient.address) for each in await self.list_recipients(actor)]
        if (recipient.way, recipient.address) in known:
            raise Conflict(
                msg("You already have this recipient"), field="address", hint=msg("To change it, remove it first.")
            )
        id = f"to-{secrets.token_hex(4)}"
        added = StoredRecipient(id=id, user=actor.name, recipient=recipient, created_at=self._clock())
        entry = _build_recipient_entry(actor, AuditAction.CREATED, added)
        await self._write_and_reload(self._store.write(entry, recipient_rows.add_recipient, added, MAX_RECIPIENTS))
        return added

    async def set_events(self, actor: Actor, id: str, events: Iterable[str]) -> StoredRecipient:
        known, chosen = await self._require_recipient(actor, id), _parse_events(list(events))
        changed = replace(known, recipient=replace(known.recipient, events=chosen))
        entry = _build_recipient_entry(actor, AuditAction.CHANGED, changed)
        await self._write_and_reload(self._store.write(entry, recipient_rows.set_recipient_events, known.id, chosen))
        return changed

    async def remove_recipient(self, actor: Actor, id: str) -> None:
        """Remove a recipient; notifications already created for it are still sent."""
        known = await self._require_recipient(actor, id)
        entry = _build_recipient_entry(actor, AuditAction.REMOVED, known)
        await self._write_and_reload(self._store.write(entry, recipient_rows.remove_recipient, known.id))

    async def _write_and_reload(self, writing: Awaitable[object]) -> None:
        await writing
        await self.creator.reload_users()

    async def _require_recipient(self, actor: Actor, id: str) -> StoredRecipient:
        known = await self.list_recipients(actor)
        for each in known:
            if each.id == id:
                return each
        hint = suggest_name(id, [each.id for each in known], "holdfast notifications recipients")
        raise NotFound(msg("Recipient {id} not found", id=id[:100]), hint=hint)

    def _check_recipient(self, recipient: Recipient) -> None:
        _check_address(recipient.way, recipient.address)
        if recipient.way is Channel.MAIL and not self.mail_ready:
            hint = msg("Ask an admin to set mail.host and mail.sender.")
            raise UserError(msg("Mail is disabled on this server"), field="way", hint=hint)

    def get_webhook_secret(self, actor: Actor, address: str) -> str:
        _check_address(Channel.WEBHOOK, address)
        return self.sender.derive_signing_secret(actor.name, address)

    # -- tests

    async def send_test(self, actor: Actor, id: str) -> DeliveryAttempt:
        known = await self._require_recipient(actor, id)
        if not known.readable:
            raise Conflict(UNREADABLE_ADDRESS_MESSAGE, hint=UNREADABLE_HINT)
        if actor.name in self._testing_users:
            raise Conflict(msg("You already have a test in progress"), hint=msg("Wait until it has finished."))
        now = self._clock()
        if await self._store.read(making_rows.count_recent_events, actor.name, now) >= self._per_hour:
            raise TooManyRequests(
                msg("You have reached the limit of {per_hour} notification events per hour", per_hour=self._per_hour),
                retry_after=3600,
            )
        self._testing_users.add(actor.name)
        try:
            return await self._send_test_notification(actor, known, now)
        finally:
            self._testing_users.discard(actor.name)

    async def _send_test_notification(self, actor: Actor, known: StoredRecipient, now: datetime) -> DeliveryAttempt:
        recipient = known.recipient
        text = render_test_notification(actor.name, now)
        notification = text.to_notification(actor.name, recipient.way, recipient.address, at=now)
        seq = await self._store.write_unaudited(
            notification_rows.insert_notification, notification, NotificationState.SENDING
        )
        attempt = await self.sender.send_notification(notification, _claim_test, anywhere=actor.admin)
        state = _TEST_STATES[attempt.result]
        error = "" if state is NotificationState.SENT else attempt.message
        await self._store.write_unaudited(
            notification_rows.record_delivery,
            DeliveryOutcome(seq=seq, tries=1, claimed=True, state=state, at=self._clock(), error=error),
        )
        return attempt

    # -- sent notifications

    async def list(
        self, actor: Actor, user: str | None = None, *, before: int | None = None, limit: int = 50
    ) -> NotificationPage:
        """Return the notifications of the actor, or for admins of any user, newest first."""
        if not 1 <= limit <= MAX_LISTED:
            raise UserError(msg("limit must be between 1 and {max_listed}", max_listed=MAX_LISTED), field="limit")
        found = await self._store.read(
            notification_rows.list_notifications, _resolve_user(actor, user), before, limit + 1
        )
        shown = tuple(found[:limit])
        return NotificationPage(shown, shown[-1].seq if len(found) > limit else None)

    async def delete_old_notifications(self) -> int:
        removed, done = 0, BATCH_SIZE
        while done == BATCH_SIZE:
            done = await self._store.write_unaudited(
                notification_rows.delete_notifications, self._clock() - self._retention, BATCH_SIZE
            )
            removed += done
        return removed


async def _claim_test() -> bool:
    """Always allow sending: no other sender knows a test notification."""
    return True


def _resolve_user(actor: Actor, user: str | None) -> str:
    if user in (None, actor.name):
        return actor.name
    if not actor.admin:
        raise Forbidden(msg("Only admins can see the notifications of other users"))
    assert user is not None
    return user


def _parse_channel(word: str) -> Channel:
    try:
        return Channel(word)
    except ValueError:
        known = ", ".join(way.value for way in Channel)
        raise UserError(
            msg("{value} is not a delivery method", value=repr(word[:100])),
            field="way",
            hint=msg("Use {known}.", known=known),
        ) from None


def _parse_events(names: Iterable[str] | None) -> frozenset[NotificationEvent]:
    if names is None:
        return DEFAULT_EVENTS
    try:
        chosen = parse_events(names)
    except KeyError as error:
        known = ", ".join(event.value for event in SELECTABLE_EVENTS)
        message = msg("{name} is not a notification event", name=repr(str(error.args[0])[:100]))
        raise UserError(message, field="events", hint=msg("Use {known}.", known=known)) from None
    if not chosen:
        raise UserError(msg("Choose at least one event"), field="events")
    return chosen


def _check_address(way: Channel, address: str) -> None:
    problem = find_address_problem(way, address)
    if problem:
        raise UserError(msg("The address {problem}", problem=problem), field="address")


def _build_recipient_entry(actor: Actor, act: AuditAction, known: StoredRecipient) -> AuditEntry:
    recipient = known.recipient
    detail = {
        "way": recipient.way.value,
        "to": mask_address(recipient.way, recipient.address),
        "events": list_event_names(recipient.events),
    }
    return AuditEntry(actor.name, AuditKind.RECIPIENT, act, known.id, detail)

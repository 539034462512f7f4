"""Telling people outside: their recipients, what was sent to them, and a way to try one out."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from holdfast.core.access import Actor
from holdfast.core.audit import Act, AuditKind
from holdfast.core.errors import Conflict, Forbidden, NotFound, UserError
from holdfast.core.messages import msg
from holdfast.core.notifications import (
    CHOICES,
    USUAL,
    KnownRecipient,
    NotificationEvent,
    NotificationRecord,
    NotificationState,
    Recipient,
    Way,
    address_problem,
    in_order,
    read_events,
    shown_address,
)
from holdfast.store.notifications import creation as making_rows
from holdfast.store.notifications import recipients as recipient_rows
from holdfast.store.notifications import records as notification_rows
from holdfast.store.notifications.records import NewNotification, Result

from ..audit import AuditedStore, AuditEntry
from ..name_suggestions import nearest
from ..refusals import TooManyRequests
from .creation import Making, notification_id
from .delivery import DeliveryAttempt, DeliveryResult
from .sending import Sending
from .texts import tell_of_test

MAX_RECIPIENTS = 20  # of each user
MAX_LISTED = 500
BATCH = 1000
UNREADABLE = msg("The address of this recipient cannot be read")
UNREADABLE_HINT = msg("Remove it, and add it again.")

_AFTER_TEST = {
    DeliveryResult.SENT: NotificationState.SENT,
    DeliveryResult.LATER: NotificationState.FAILED,
    DeliveryResult.REFUSED: NotificationState.FAILED,
    DeliveryResult.UNSURE: NotificationState.UNCONFIRMED,
    DeliveryResult.TAKEN: NotificationState.FAILED,
}


@dataclass(frozen=True, slots=True)
class NotificationPage:
    items: tuple[NotificationRecord, ...]
    next_before: int | None  # ask with it for the next page; None: this is the last


class Notifications:
    def __init__(
        self,
        store: AuditedStore,
        making: Making,
        sending: Sending,
        *,
        per_hour: int,
        keep: timedelta,
        mail_ready: bool,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self.making = making
        self.sending = sending
        self.mail_ready = mail_ready
        self._per_hour = per_hour
        self._keep = keep
        self._clock = clock
        self._testing: set[str] = set()  # users who try one out just now

    # -- recipients

    async def recipients(self, actor: Actor, user: str | None = None) -> list[KnownRecipient]:
        """One's own, in the order they were added; for admins, any user's."""
        return await self._store.read(recipient_rows.list_recipients, _whose(actor, user))

    async def add(self, actor: Actor, way: str, address: str, events: Iterable[str] | None = None) -> KnownRecipient:
        """Tell oneself of these events from now on; left out: all but started, stopped and retried."""
        recipient = Recipient(way=_way(way), address=address.strip(), events=_events(events))
        self._check(recipient)
        if any(_is_same(known.recipient, recipient) for known in await self.recipients(actor)):
            raise Conflict(
                msg("You have this recipient already"), field="address", hint=msg("Remove it first to change it.")
            )
        made = KnownRecipient(
            id=f"to-{secrets.token_hex(4)}", user=actor.name, recipient=recipient, created_at=self._clock()
        )
        deed = _deed(actor, Act.CREATED, made)
        await self._changed(self._store.write(deed, recipient_rows.add_recipient, made, MAX_RECIPIENTS))
        return made

    async def choose(self, actor: Actor, id: str, events: Iterable[str]) -> KnownRecipient:
        """Other events for a recipient of one's own."""
        known, chosen = await self._own(actor, id), _events(list(events))
        recipient = Recipient(way=known.recipient.way, address=known.recipient.address, events=chosen)
        made = KnownRecipient(id=known.id, user=known.user, recipient=recipient, created_at=known.created_at)
        await self._changed(
            self._store.write(_deed(actor, Act.CHANGED, made), recipient_rows.set_events, known.id, chosen)
        )
        return made

    async def remove(self, actor: Actor, id: str) -> None:
        """What was made for it before is still sent."""
        known = await self._own(actor, id)
        deed = _deed(actor, Act.REMOVED, known)
        await self._changed(self._store.write(deed, recipient_rows.remove_recipient, known.id))

    async def _changed(self, writing: Awaitable[object]) -> None:
        await writing
        await self.making.look_for_users()

    async def _own(self, actor: Actor, id: str) -> KnownRecipient:
        known = await self.recipients(actor)
        for each in known:
            if each.id == id:
                return each
        hint = nearest(id, [each.id for each in known], "holdfast notifications recipients")
        raise NotFound(msg("You have no recipient {id}", id=id[:100]), hint=hint)

    def _check(self, recipient: Recipient) -> None:
        problem = address_problem(recipient.way, recipient.address)
        if problem:
            raise UserError(msg("The address {problem}", problem=problem), field="address")
        if recipient.way is Way.MAIL and not self.mail_ready:
            hint = msg("The admin sets it up: mail.host and mail.sender.")
            raise UserError(msg("This server sends no mails"), field="way", hint=hint)

    # -- what receivers check signatures with

    def secret(self, actor: Actor, address: str) -> str:
        """For notifications of one's own to this address, whether it is a recipient's or a job's."""
        problem = address_problem(Way.WEBHOOK, address)
        if problem:
            raise UserError(msg("The address {problem}", problem=problem), field="address")
        return self.sending.secret(actor.name, address)

    # -- trying one out

    async def test(self, actor: Actor, id: str) -> DeliveryAttempt:
        """Send a notification now, once, and say what came back."""
        known = await self._own(actor, id)
        if not known.readable:
            raise Conflict(UNREADABLE, hint=UNREADABLE_HINT)
        if actor.name in self._testing:
            raise Conflict(msg("Another test of yours is under way"), hint=msg("Wait until it is done."))
        now = self._clock()
        if await self._store.read(making_rows.count_recent, actor.name, now) >= self._per_hour:
            raise TooManyRequests(
                msg("You were told of {per_hour} events in the last hour", per_hour=self._per_hour), retry_after=3600
            )
        self._testing.add(actor.name)
        try:
            return await self._try_out(actor, known, now)
        finally:
            self._testing.discard(actor.name)

    async def _try_out(self, actor: Actor, known: KnownRecipient, now: datetime) -> DeliveryAttempt:
        told = tell_of_test(actor.name, now)
        id = notification_id()
        notification = NewNotification(
            id=id,
            user=actor.name,
            way=known.recipient.way,
            address=known.recipient.address,
            event=told.event,
            happening=id,
            job_id=None,
            subject=told.subject,
            body=told.body,
            created_at=now,
        )
        seq = await self._store.write_quietly(
            notification_rows.insert_notification, notification, NotificationState.SENDING
        )
        attempt = await self.sending.send(notification, _at_once, anywhere=actor.admin)
        state = _AFTER_TEST[attempt.result]
        error = "" if state is NotificationState.SENT else attempt.said
        await self._store.write_quietly(
            notification_rows.settle, Result(seq=seq, tries=1, claimed=True, state=state, at=self._clock(), error=error)
        )
        return attempt

    # -- what was sent

    async def list(
        self, actor: Actor, user: str | None = None, *, before: int | None = None, limit: int = 50
    ) -> NotificationPage:
        """Newest first; one's own, or for admins any user's."""
        if not 1 <= limit <= MAX_LISTED:
            raise UserError(msg("limit is between 1 and {most_listed}", most_listed=MAX_LISTED), field="limit")
        found = await self._store.read(notification_rows.list_notifications, _whose(actor, user), before, limit + 1)
        shown = tuple(found[:limit])
        return NotificationPage(shown, shown[-1].seq if len(found) > limit else None)

    async def sweep(self) -> int:
        """Forget what is old; how many."""
        removed, done = 0, BATCH
        while done == BATCH:
            done = await self._store.write_quietly(
                notification_rows.delete_notifications, self._clock() - self._keep, BATCH
            )
            removed += done
        return removed


async def _at_once() -> bool:
    """Nobody else knows of it."""
    return True


def _whose(actor: Actor, user: str | None) -> str:
    if user in (None, actor.name):
        return actor.name
    if not actor.admin:
        raise Forbidden(msg("Only admins see others' notifications"))
    assert user is not None
    return user


def _way(word: str) -> Way:
    try:
        return Way(word)
    except ValueError:
        known = ", ".join(way.value for way in Way)
        raise UserError(
            msg("{word} is no way to tell somebody", word=repr(word[:100])),
            field="way",
            hint=msg("Use {known}.", known=known),
        ) from None


def _events(words: Iterable[str] | None) -> frozenset[NotificationEvent]:
    if words is None:
        return USUAL
    try:
        chosen = read_events(words)
    except KeyError as error:
        known = ", ".join(event.value for event in CHOICES)
        said = msg("{x1} is nothing that notifications tell of", x1=repr(str(error.args[0])[:100]))
        raise UserError(said, field="events", hint=msg("Use {known}.", known=known)) from None
    if not chosen:
        raise UserError(msg("Choose at least one event"), field="events")
    return chosen


def _is_same(one: Recipient, other: Recipient) -> bool:
    return (one.way, one.address) == (other.way, other.address)


def _deed(actor: Actor, act: Act, known: KnownRecipient) -> AuditEntry:
    recipient = known.recipient
    detail = {
        "way": recipient.way.value,
        "to": shown_address(recipient.way, recipient.address),
        "events": in_order(recipient.events),
    }
    return AuditEntry(actor=actor.name, kind=AuditKind.RECIPIENT, act=act, subject=known.id, detail=detail)

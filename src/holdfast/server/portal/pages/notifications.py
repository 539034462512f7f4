"""Who is told of one's jobs, of what, and what became of the notifications."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from starlette.responses import Response

from holdfast.core.errors import UserError
from holdfast.core.notifications import (
    CHOICES,
    MAX_ADDRESS_LENGTH,
    USUAL,
    KnownRecipient,
    NotificationEvent,
    NotificationRecord,
    NotificationState,
    Way,
    shown_address,
)
from holdfast.services.notifications.delivery import DeliveryResult

from ..forms import Form
from ..routes import act, page
from ..visit import Visit

SHOWN = 50  # notifications
_FIELDS = ("way", "address", "events")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipientView:
    known: KnownRecipient
    address: str  # as it may be shown
    events: tuple[str, ...]
    chosen: Collection[str]  # the same, as forms send them
    problem: str = ""  # with what was just chosen
    problem_of_address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationView:
    record: NotificationRecord
    address: str
    event: str
    state: str
    tone: str  # of its badge


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationsPage:
    recipients: tuple[RecipientView, ...]
    notifications: tuple[NotificationView, ...]
    older: str
    mail_ready: bool
    choices: Mapping[str, str]  # event -> in words
    ways: Mapping[str, str]
    way: str = Way.WEBHOOK.value
    address: str = ""
    events: Collection[str] = field(default_factory=lambda: {event.value for event in USUAL})
    problems: Mapping[str, str] = field(default_factory=dict)


async def show_notifications(visit: Visit) -> Response:
    return await visit.show("me/notifications.html", await _page(visit))


async def _page(visit: Visit) -> NotificationsPage:
    notifications = visit.services.notifications
    found = await notifications.list(visit.who, before=visit.number("before"), limit=SHOWN)
    known = await notifications.recipients(visit.who)
    return NotificationsPage(
        recipients=tuple(_recipient(visit, each) for each in known),
        notifications=tuple(_notification(visit, each) for each in found.items),
        older=f"/me/notifications?before={found.next_before}" if found.next_before else "",
        mail_ready=notifications.mail_ready,
        choices={event.value: event_words(visit)[event] for event in CHOICES},
        ways=_way_words(visit),
    )


def _recipient(visit: Visit, known: KnownRecipient) -> RecipientView:
    words, recipient = event_words(visit), known.recipient
    told = tuple(words[event] for event in NotificationEvent if event in recipient.events)
    hint = visit.say("Its address cannot be read any more. Remove it, and add it again.")
    return RecipientView(
        known=known,
        address=shown_address(recipient.way, recipient.address),
        events=told,
        chosen={event.value for event in recipient.events},
        problem_of_address="" if known.readable else hint,
    )


def _notification(visit: Visit, record: NotificationRecord) -> NotificationView:
    state, tone = _state_words(visit)[record.state]
    address = shown_address(record.way, record.address)
    return NotificationView(
        record=record, address=address, event=event_words(visit)[record.event], state=state, tone=tone
    )


def event_words(visit: Visit) -> dict[NotificationEvent, str]:
    return {
        NotificationEvent.STARTED: visit.say("A job started"),
        NotificationEvent.SUCCEEDED: visit.say("A job succeeded"),
        NotificationEvent.FAILED: visit.say("A job failed"),
        NotificationEvent.STOPPED: visit.say("A job was stopped"),
        NotificationEvent.RETRIED: visit.say("A job is tried again"),
        NotificationEvent.HELD: visit.say("A failed task is held"),
        NotificationEvent.DEBUGGER_WAITING: visit.say("A debugger waits"),
        NotificationEvent.HOLD_ENDING: visit.say("A hold ends soon"),
        NotificationEvent.SCHEDULE_SKIPPED: visit.say("A recurring run was skipped"),
        NotificationEvent.TEST: visit.say("A test"),
        NotificationEvent.LEFT_OUT: visit.say("Further notifications were left out"),
    }


def _way_words(visit: Visit) -> dict[str, str]:
    return {
        Way.WEBHOOK.value: visit.say("Webhook (JSON)"),
        Way.SLACK.value: visit.say("Slack (or compatible)"),
        Way.MAIL.value: visit.say("Email"),
    }


def _state_words(visit: Visit) -> dict[NotificationState, tuple[str, str]]:
    return {
        NotificationState.WAITING: (visit.say("waiting"), "state-pending"),
        NotificationState.SENDING: (visit.say("being sent"), "state-running"),
        NotificationState.SENT: (visit.say("sent"), "state-succeeded"),
        NotificationState.UNCONFIRMED: (visit.say("unconfirmed"), "state-unknown"),
        NotificationState.FAILED: (visit.say("not delivered"), "state-failed"),
    }


# -- acting


async def add_recipient(visit: Visit, form: Form) -> Response:
    try:
        made = await visit.services.notifications.add(visit.who, form.text("way"), form.text("address"), _chosen(form))
    except UserError as error:
        name = error.field if error.field in _FIELDS else "address"
        found = replace(
            await _page(visit),
            way=form.text("way"),
            address=form.text("address")[:MAX_ADDRESS_LENGTH],
            events=_chosen(form),
            problems={name: visit.tell_error(error)},
        )
        return await visit.show("me/notifications.html", found, 400)
    address = shown_address(made.recipient.way, made.recipient.address)
    return visit.go(
        "/me/notifications", visit.say("{address} is told from now on. Send a test to see it arrive.", address=address)
    )


async def choose_events(visit: Visit, form: Form) -> Response:
    id = visit.request.path_params["id"]
    try:
        changed = await visit.services.notifications.choose(visit.who, id, _chosen(form))
    except UserError as error:
        if error.field != "events":
            raise
        return await _show_wrong_choice(visit, form, id, visit.tell_error(error))
    address = shown_address(changed.recipient.way, changed.recipient.address)
    return visit.go("/me/notifications", visit.say("What {address} is told of is changed.", address=address))


async def _show_wrong_choice(visit: Visit, form: Form, id: str, problem: str) -> Response:
    found = await _page(visit)
    shown = tuple(
        replace(each, chosen=_chosen(form), problem=problem) if each.known.id == id else each
        for each in found.recipients
    )
    return await visit.show("me/notifications.html", replace(found, recipients=shown), 400)


async def remove_recipient(visit: Visit, form: Form) -> Response:
    await visit.services.notifications.remove(visit.who, visit.request.path_params["id"])
    return visit.go("/me/notifications", visit.say("The recipient is removed."))


async def test_recipient(visit: Visit, form: Form) -> Response:
    attempt = await visit.services.notifications.test(visit.who, visit.request.path_params["id"])
    if attempt.result is DeliveryResult.SENT:
        return visit.go("/me/notifications", visit.say("The test arrived."))
    return visit.go("/me/notifications", visit.say("The test did not arrive: {why}", why=visit.tell(attempt.said)))


def _chosen(form: Form) -> Sequence[str]:
    return form.all("events")


routes = [
    page("/me/notifications", show_notifications),
    act("/me/notifications", add_recipient),
    act("/me/notifications/{id}/events", choose_events),
    act("/me/notifications/{id}/remove", remove_recipient),
    act("/me/notifications/{id}/test", test_recipient),
]

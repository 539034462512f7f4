"""Notification recipients of the user, and the notifications sent."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from starlette.responses import Response

from holdfast.core.errors import UserError
from holdfast.core.notifications import (
    DEFAULT_EVENTS,
    MAX_ADDRESS_LENGTH,
    SELECTABLE_EVENTS,
    Channel,
    NotificationEvent,
    NotificationRecord,
    NotificationState,
    StoredRecipient,
    mask_address,
)
from holdfast.services.notifications.delivery import DeliveryResult

from ..forms import Form
from ..routes import build_form_route, build_page_route
from ..visit import Visit

MAX_SHOWN_NOTIFICATIONS = 50  # notifications
_PATH = "/me/notifications"
_FORM_FIELDS = ("way", "address", "events")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipientView:
    known: StoredRecipient
    address: str  # masked for display
    events: tuple[str, ...]
    chosen: Collection[str]  # the values of the form
    problem: str = ""  # of the chosen events
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
    choices: Mapping[str, str]  # event -> label
    channels: Mapping[str, str]
    way: str = Channel.WEBHOOK.value
    address: str = ""
    events: Collection[str] = field(default_factory=lambda: {event.value for event in DEFAULT_EVENTS})
    problems: Mapping[str, str] = field(default_factory=dict)


async def show_notifications(visit: Visit) -> Response:
    return await visit.render_response("me/notifications.html", await _build_notifications_page(visit))


async def _build_notifications_page(visit: Visit) -> NotificationsPage:
    notifications = visit.services.notifications
    found = await notifications.list(
        visit.current_actor, before=visit.get_query_integer("before"), limit=MAX_SHOWN_NOTIFICATIONS
    )
    known = await notifications.list_recipients(visit.current_actor)
    return NotificationsPage(
        recipients=tuple(_build_recipient_view(visit, each) for each in known),
        notifications=tuple(_build_notification_view(visit, each) for each in found.items),
        older=f"/me/notifications?before={found.next_before}" if found.next_before else "",
        mail_ready=notifications.mail_ready,
        choices={event.value: build_event_labels(visit)[event] for event in SELECTABLE_EVENTS},
        channels=_build_channel_labels(visit),
    )


def _build_recipient_view(visit: Visit, known: StoredRecipient) -> RecipientView:
    labels, recipient = build_event_labels(visit), known.recipient
    hint = visit.translate_text("Its address cannot be read. Delete the recipient and add it again.")
    return RecipientView(
        known=known,
        address=mask_address(recipient.way, recipient.address),
        events=tuple(labels[event] for event in NotificationEvent if event in recipient.events),
        chosen={event.value for event in recipient.events},
        problem_of_address="" if known.readable else hint,
    )


def _build_notification_view(visit: Visit, record: NotificationRecord) -> NotificationView:
    state, tone = _build_state_badges(visit)[record.state]
    address = mask_address(record.way, record.address)
    return NotificationView(
        record=record, address=address, event=build_event_labels(visit)[record.event], state=state, tone=tone
    )


def build_event_labels(visit: Visit) -> dict[NotificationEvent, str]:
    return {
        NotificationEvent.STARTED: visit.translate_text("A job started"),
        NotificationEvent.SUCCEEDED: visit.translate_text("A job succeeded"),
        NotificationEvent.FAILED: visit.translate_text("A job failed"),
        NotificationEvent.STOPPED: visit.translate_text("A job was stopped"),
        NotificationEvent.RETRIED: visit.translate_text("A job is retried"),
        NotificationEvent.HELD: visit.translate_text("A failed task is on hold"),
        NotificationEvent.DEBUGGER_WAITING: visit.translate_text("A debugger is waiting"),
        NotificationEvent.HOLD_ENDING: visit.translate_text("A hold expires soon"),
        NotificationEvent.SCHEDULE_SKIPPED: visit.translate_text("A scheduled run was skipped"),
        NotificationEvent.TEST: visit.translate_text("Test notification"),
        NotificationEvent.DROPPED: visit.translate_text("Further notifications were suppressed"),
    }


def _build_channel_labels(visit: Visit) -> dict[str, str]:
    return {
        Channel.WEBHOOK.value: visit.translate_text("Webhook (JSON)"),
        Channel.SLACK.value: visit.translate_text("Slack (or compatible)"),
        Channel.MAIL.value: visit.translate_text("Email"),
    }


def _build_state_badges(visit: Visit) -> dict[NotificationState, tuple[str, str]]:
    return {
        NotificationState.WAITING: (visit.translate_text("waiting"), "state-pending"),
        NotificationState.SENDING: (visit.translate_text("sending"), "state-running"),
        NotificationState.SENT: (visit.translate_text("sent"), "state-succeeded"),
        NotificationState.UNCONFIRMED: (visit.translate_text("unconfirmed"), "state-unknown"),
        NotificationState.FAILED: (visit.translate_text("not delivered"), "state-failed"),
    }


# -- acting


async def add_recipient(visit: Visit, form: Form) -> Response:
    try:
        made = await visit.services.notifications.add_recipient(
            visit.current_actor, form.get_text("way"), form.get_text("address"), form.get_all("events")
        )
    except UserError as error:
        name = error.field if error.field in _FORM_FIELDS else "address"
        found = replace(
            await _build_notifications_page(visit),
            way=form.get_text("way"),
            address=form.get_text("address")[:MAX_ADDRESS_LENGTH],
            events=form.get_all("events"),
            problems={name: visit.translate_error(error)},
        )
        return await visit.render_response("me/notifications.html", found, 400)
    address = mask_address(made.recipient.way, made.recipient.address)
    return visit.redirect(
        _PATH,
        visit.translate_text(
            "{address} now receives notifications. Send a test to check the delivery.", address=address
        ),
    )


async def set_recipient_events(visit: Visit, form: Form) -> Response:
    id = visit.path_params["id"]
    try:
        changed = await visit.services.notifications.set_events(visit.current_actor, id, form.get_all("events"))
    except UserError as error:
        if error.field != "events":
            raise
        return await _show_event_problem(visit, form, id, visit.translate_error(error))
    address = mask_address(changed.recipient.way, changed.recipient.address)
    return visit.redirect(_PATH, visit.translate_text("The events for {address} were changed.", address=address))


async def _show_event_problem(visit: Visit, form: Form, id: str, problem: str) -> Response:
    found = await _build_notifications_page(visit)
    shown = tuple(
        replace(each, chosen=form.get_all("events"), problem=problem) if each.known.id == id else each
        for each in found.recipients
    )
    return await visit.render_response("me/notifications.html", replace(found, recipients=shown), 400)


async def remove_recipient(visit: Visit, form: Form) -> Response:
    await visit.services.notifications.remove_recipient(visit.current_actor, visit.path_params["id"])
    return visit.redirect(_PATH, visit.translate_text("The recipient was deleted."))


async def send_test_notification(visit: Visit, form: Form) -> Response:
    attempt = await visit.services.notifications.send_test(visit.current_actor, visit.path_params["id"])
    if attempt.result is DeliveryResult.SENT:
        return visit.redirect(_PATH, visit.translate_text("The test notification was delivered."))
    why = visit.translate_message(attempt.message)
    return visit.redirect(_PATH, visit.translate_text("The test notification was not delivered: {why}", why=why))


routes = [
    build_page_route("/me/notifications", show_notifications),
    build_form_route("/me/notifications", add_recipient),
    build_form_route("/me/notifications/{id}/events", set_recipient_events),
    build_form_route("/me/notifications/{id}/remove", remove_recipient),
    build_form_route("/me/notifications/{id}/test", send_test_notification),
]

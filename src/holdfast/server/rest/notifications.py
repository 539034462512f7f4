"""/me/notifications, /users/{name}/notifications: who is told of what outside, and what came of it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from starlette.responses import Response

from holdfast.api import notifications as api
from holdfast.api.pages import Items
from holdfast.core.access import Actor
from holdfast.core.notifications import KnownRecipient, NotificationRecord, Way, in_order, shown_address
from holdfast.services import Services
from holdfast.services.notifications.delivery import DeliveryResult
from holdfast.services.notifications.service import UNREADABLE, UNREADABLE_HINT, NotificationPage

from ..answers import answer, answer_nothing
from ..auth import Ask, Caller
from .addresses import rest_router
from .schemas import Body
from .views import show_time

router = rest_router("people")
Before = Annotated[int | None, Query(ge=1, le=2**62, description="The `next` of the page before.")]


@router.get("/me/notifications", response_model=api.NotificationPage)
async def list_notifications(actor: Caller, services: Ask, before: Before = None, limit: int = 50) -> Response:
    """What one was told, and what came of each try; newest first."""
    return answer(_show_page(await services.notifications.list(actor, before=before, limit=limit)))


@router.get("/users/{name}/notifications", response_model=api.NotificationPage)
async def list_notifications_of(
    name: str, actor: Caller, services: Ask, before: Before = None, limit: int = 50
) -> Response:
    """The same of any user; for admins."""
    return answer(_show_page(await services.notifications.list(actor, name, before=before, limit=limit)))


@router.get("/me/notifications/recipients", response_model=Items[api.Recipient])
async def list_recipients(actor: Caller, services: Ask) -> Response:
    """Where one is told of what."""
    found = await services.notifications.recipients(actor)
    return answer({"items": [_show_own(each, actor, services) for each in found]})


@router.get("/users/{name}/notifications/recipients", response_model=Items[api.Recipient])
async def list_recipients_of(name: str, actor: Caller, services: Ask) -> Response:
    """The same of any user; for admins."""
    return answer({"items": [_show(each) for each in await services.notifications.recipients(actor, name)]})


@router.post("/me/notifications/recipients", response_model=api.Recipient, status_code=201)
async def add_recipient(body: Body[api.NewRecipient], actor: Caller, services: Ask) -> Response:
    """409 when one has it already."""
    made = await services.notifications.add(actor, body["way"], body["address"], body.get("events"))
    return answer(_show_own(made, actor, services), 201)


@router.patch("/me/notifications/recipients/{id}", response_model=api.Recipient)
async def change_recipient(id: str, body: Body[api.RecipientChange], actor: Caller, services: Ask) -> Response:
    """Other events for it."""
    return answer(_show_own(await services.notifications.choose(actor, id, body["events"]), actor, services))


@router.delete("/me/notifications/recipients/{id}", status_code=204)
async def remove_recipient(id: str, actor: Caller, services: Ask) -> Response:
    await services.notifications.remove(actor, id)
    return answer_nothing()


@router.post("/me/notifications/recipients/{id}/test", response_model=api.NotificationTest)
async def try_recipient(id: str, actor: Caller, services: Ask) -> Response:
    """Send a notification there now, once. Says what came back, never more of it than a status."""
    attempt = await services.notifications.test(actor, id)
    return answer({"arrived": attempt.result is DeliveryResult.SENT, "said": attempt.said})


@router.post("/me/notifications/secret", response_model=api.NotificationSecret)
async def show_secret(body: Body[api.NotificationAddress], actor: Caller, services: Ask) -> Response:
    """What the receiver at this address checks the signatures of one's notifications with."""
    return answer({"secret": services.notifications.secret(actor, body["address"])})


def _show_page(page: NotificationPage) -> dict[str, Any]:
    return {"items": [_show_notification(each) for each in page.items], "next": page.next_before}


def _show_notification(notification: NotificationRecord) -> dict[str, Any]:
    return {
        "id": notification.id,
        "event": notification.event.value,
        "job": notification.job_id,
        "subject": notification.subject,
        "way": notification.way.value,
        "address": shown_address(notification.way, notification.address),
        "state": notification.state.value,
        "tries": notification.tries,
        "error": notification.error,
        "created_at": show_time(notification.created_at),
        "next_at": show_time(notification.next_at),
        "ended_at": show_time(notification.ended_at),
    }


def _show(known: KnownRecipient, secret: str | None = None) -> dict[str, Any]:
    recipient = known.recipient
    return {
        "id": known.id,
        "way": recipient.way.value,
        "address": shown_address(recipient.way, recipient.address),
        "events": in_order(recipient.events),
        "created_at": show_time(known.created_at),
        "secret": secret,
        "problem": None if known.readable else f"{UNREADABLE}. {UNREADABLE_HINT}",
    }


def _show_own(known: KnownRecipient, actor: Actor, services: Services) -> dict[str, Any]:
    signed = known.readable and known.recipient.way is not Way.MAIL
    return _show(known, services.notifications.secret(actor, known.recipient.address) if signed else None)

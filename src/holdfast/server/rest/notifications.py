"""/me/notifications, /users/{name}/notifications: recipients, and the notifications sent to them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from starlette.responses import Response

from holdfast.api import notifications as api
from holdfast.api.pages import ItemList
from holdfast.core.access import Actor
from holdfast.core.notifications import Channel, StoredRecipient, list_event_names, mask_address
from holdfast.services import Services
from holdfast.services.notifications.delivery import DeliveryResult
from holdfast.services.notifications.service import UNREADABLE_ADDRESS_MESSAGE, UNREADABLE_HINT, NotificationPage

from ..auth import Caller, ServicesDep
from ..responses import respond_empty, respond_json
from .routing import build_router
from .schemas import Body
from .views import record_to_json

router = build_router("people")
BeforeCursor = Annotated[int | None, Query(ge=1, le=2**62, description="The `next` of the previous page.")]


@router.get("/me/notifications", response_model=api.NotificationPage)
async def list_notifications(
    actor: Caller, services: ServicesDep, before: BeforeCursor = None, limit: int = 50
) -> Response:
    """Your notifications and their delivery attempts, newest first."""
    return respond_json(_page_to_json(await services.notifications.list(actor, before=before, limit=limit)))


@router.get("/users/{name}/notifications", response_model=api.NotificationPage)
async def list_user_notifications(
    name: str, actor: Caller, services: ServicesDep, before: BeforeCursor = None, limit: int = 50
) -> Response:
    """The notifications of any user; admins only."""
    return respond_json(_page_to_json(await services.notifications.list(actor, name, before=before, limit=limit)))


@router.get("/me/notifications/recipients", response_model=ItemList[api.Recipient])
async def list_recipients(actor: Caller, services: ServicesDep) -> Response:
    """Your recipients and their events."""
    found = await services.notifications.list_recipients(actor)
    return respond_json({"items": [_own_recipient_to_json(each, actor, services) for each in found]})


@router.get("/users/{name}/notifications/recipients", response_model=ItemList[api.Recipient])
async def list_user_recipients(name: str, actor: Caller, services: ServicesDep) -> Response:
    """The recipients of any user; admins only."""
    return respond_json(
        {"items": [_recipient_to_json(each) for each in await services.notifications.list_recipients(actor, name)]}
    )


@router.post("/me/notifications/recipients", response_model=api.Recipient, status_code=201)
async def add_recipient(body: Body[api.NewRecipient], actor: Caller, services: ServicesDep) -> Response:
    """409 if you already have it."""
    made = await services.notifications.add_recipient(actor, body["way"], body["address"], body.get("events"))
    return respond_json(_own_recipient_to_json(made, actor, services), 201)


@router.patch("/me/notifications/recipients/{id}", response_model=api.Recipient)
async def change_recipient(id: str, body: Body[api.RecipientChange], actor: Caller, services: ServicesDep) -> Response:
    """Change its events."""
    return respond_json(
        _own_recipient_to_json(await services.notifications.set_events(actor, id, body["events"]), actor, services)
    )


@router.delete("/me/notifications/recipients/{id}", status_code=204)
async def remove_recipient(id: str, actor: Caller, services: ServicesDep) -> Response:
    await services.notifications.remove_recipient(actor, id)
    return respond_empty()


@router.post("/me/notifications/recipients/{id}/test", response_model=api.NotificationTestResult)
async def send_test_notification(id: str, actor: Caller, services: ServicesDep) -> Response:
    """Send one test notification now. The response contains the delivery result, at most an HTTP status."""
    attempt = await services.notifications.send_test(actor, id)
    return respond_json({"delivered": attempt.result is DeliveryResult.SENT, "detail": attempt.message})


@router.post("/me/notifications/secret", response_model=api.NotificationSecret)
async def show_secret(body: Body[api.NotificationAddress], actor: Caller, services: ServicesDep) -> Response:
    """The secret with which the receiver at this address verifies the signatures of your notifications."""
    return respond_json({"secret": services.notifications.get_webhook_secret(actor, body["address"])})


def _page_to_json(page: NotificationPage) -> dict[str, Any]:
    items = [
        record_to_json(api.Notification, each, job=each.job_id, address=mask_address(each.way, each.address))
        for each in page.items
    ]
    return {"items": items, "next": page.next_before}


def _recipient_to_json(known: StoredRecipient, secret: str | None = None) -> dict[str, Any]:
    recipient = known.recipient
    return record_to_json(
        api.Recipient,
        known,
        way=recipient.way,
        address=mask_address(recipient.way, recipient.address),
        events=list_event_names(recipient.events),
        secret=secret,
        problem=None if known.readable else f"{UNREADABLE_ADDRESS_MESSAGE}. {UNREADABLE_HINT}",
    )


def _own_recipient_to_json(known: StoredRecipient, actor: Actor, services: Services) -> dict[str, Any]:
    signed = known.readable and known.recipient.way is not Channel.MAIL
    return _recipient_to_json(
        known, services.notifications.get_webhook_secret(actor, known.recipient.address) if signed else None
    )

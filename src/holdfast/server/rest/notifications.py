"""/me/notices, /users/{name}/notices: who is told of what outside, and what came of it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from starlette.responses import Response

from holdfast.api import notifications as api
from holdfast.api.pages import Items
from holdfast.core.access import Actor
from holdfast.core.notifications import KnownRecipient, NoticeRecord, Way, in_order, shown_address
from holdfast.services import Services
from holdfast.services.notifications.delivery import DeliveryResult
from holdfast.services.notifications.service import UNREADABLE, UNREADABLE_HINT, NoticePage

from ..answers import answer, answer_nothing
from ..auth import Ask, Caller
from .addresses import rest_router
from .schemas import Body
from .views import show_time

router = rest_router("people")
Before = Annotated[int | None, Query(ge=1, le=2**62, description="The `next` of the page before.")]


@router.get("/me/notices", response_model=api.NoticePage)
async def list_notices(actor: Caller, services: Ask, before: Before = None, limit: int = 50) -> Response:
    """What one was told, and what came of each try; newest first."""
    return answer(_show_page(await services.notices.list(actor, before=before, limit=limit)))


@router.get("/users/{name}/notices", response_model=api.NoticePage)
async def list_notices_of(name: str, actor: Caller, services: Ask, before: Before = None, limit: int = 50) -> Response:
    """The same of any user; for admins."""
    return answer(_show_page(await services.notices.list(actor, name, before=before, limit=limit)))


@router.get("/me/notices/recipients", response_model=Items[api.Recipient])
async def list_recipients(actor: Caller, services: Ask) -> Response:
    """Where one is told of what."""
    found = await services.notices.recipients(actor)
    return answer({"items": [_show_own(each, actor, services) for each in found]})


@router.get("/users/{name}/notices/recipients", response_model=Items[api.Recipient])
async def list_recipients_of(name: str, actor: Caller, services: Ask) -> Response:
    """The same of any user; for admins."""
    return answer({"items": [_show(each) for each in await services.notices.recipients(actor, name)]})


@router.post("/me/notices/recipients", response_model=api.Recipient, status_code=201)
async def add_recipient(body: Body[api.NewRecipient], actor: Caller, services: Ask) -> Response:
    """409 when one has it already."""
    made = await services.notices.add(actor, body["way"], body["address"], body.get("events"))
    return answer(_show_own(made, actor, services), 201)


@router.patch("/me/notices/recipients/{id}", response_model=api.Recipient)
async def change_recipient(id: str, body: Body[api.RecipientChange], actor: Caller, services: Ask) -> Response:
    """Other events for it."""
    return answer(_show_own(await services.notices.choose(actor, id, body["events"]), actor, services))


@router.delete("/me/notices/recipients/{id}", status_code=204)
async def remove_recipient(id: str, actor: Caller, services: Ask) -> Response:
    await services.notices.remove(actor, id)
    return answer_nothing()


@router.post("/me/notices/recipients/{id}/test", response_model=api.NoticeTest)
async def try_recipient(id: str, actor: Caller, services: Ask) -> Response:
    """Send a notice there now, once. Says what came back, never more of it than a status."""
    attempt = await services.notices.test(actor, id)
    return answer({"arrived": attempt.result is DeliveryResult.SENT, "said": attempt.said})


@router.post("/me/notices/secret", response_model=api.NoticeSecret)
async def show_secret(body: Body[api.NoticeAddress], actor: Caller, services: Ask) -> Response:
    """What the receiver at this address checks the signatures of one's notices with."""
    return answer({"secret": services.notices.secret(actor, body["address"])})


def _show_page(page: NoticePage) -> dict[str, Any]:
    return {"items": [_show_notice(each) for each in page.items], "next": page.next_before}


def _show_notice(notice: NoticeRecord) -> dict[str, Any]:
    return {
        "id": notice.id,
        "event": notice.event.value,
        "job": notice.job_id,
        "subject": notice.subject,
        "way": notice.way.value,
        "address": shown_address(notice.way, notice.address),
        "state": notice.state.value,
        "tries": notice.tries,
        "error": notice.error,
        "created_at": show_time(notice.created_at),
        "next_at": show_time(notice.next_at),
        "ended_at": show_time(notice.ended_at),
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
    return _show(known, services.notices.secret(actor, known.recipient.address) if signed else None)

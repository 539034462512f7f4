"""The page of notifications, as the server renders it."""

from __future__ import annotations

import re

import pytest

from holdfast.store.tables import notification_recipients
from tests.server.rig import Rig
from tests.services.damage import damage

from .page_client import PASSWORD, open_desk, text_of

pytestmark = pytest.mark.anyio

HOOK = "https://chat.example.net/services/T000/very-secret"


async def test_a_recipient_is_added_shown_in_part_and_removed(rig: Rig) -> None:
    ann = await rig.house.user("ann", "default", password=PASSWORD)
    async with open_desk(rig, "ann") as desk:
        assert "No recipients yet" in text_of((await desk.get("/me/notifications")).text)
        sent = {"way": "slack", "address": HOOK, "events": ["failed", "held"]}
        assert (await desk.post("/me/notifications", sent)).status_code == 303
        page = (await desk.get("/me/notifications")).text
        assert "very-secret" not in page
        assert "chat.example.net" in page
        assert "A job failed, A failed task is on hold" in text_of(page)
        (known,) = await rig.house.services.notifications.list_recipients(ann)
        assert (await desk.post(f"/me/notifications/{known.id}/remove", {})).status_code == 303
        assert not await rig.house.services.notifications.list_recipients(ann)


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ({"way": "webhook", "address": "ftp://x", "events": ["failed"]}, "must begin with https:// or http://"),
        ({"way": "webhook", "address": "https://x/\r\nEvil: yes", "events": ["failed"]}, "The address"),
        ({"way": "pigeon", "address": HOOK, "events": ["failed"]}, "pigeon"),
        ({"way": "mail", "address": "ann@example.org", "events": ["failed"]}, "Mail is disabled on this server"),
        ({"way": "webhook", "address": HOOK, "events": []}, "event"),
    ],
)
async def test_what_is_wrong_is_said_and_what_was_typed_is_kept(rig: Rig, sent: dict[str, object], told: str) -> None:
    async with open_desk(rig) as desk:
        answer = await desk.post("/me/notifications", sent)
        assert answer.status_code == 400
        assert told in text_of(answer.text)
        assert str(sent["address"]).splitlines()[0] in answer.text


async def test_those_of_others_are_nobodys_business(rig: Rig) -> None:
    ann = await rig.house.user("ann", "default", password=PASSWORD)
    await rig.house.user("ben", "default", password=PASSWORD)
    async with open_desk(rig, "ann") as desk, open_desk(rig, "ben") as other:
        await desk.post("/me/notifications", {"way": "webhook", "address": HOOK, "events": ["failed"]})
        (known,) = await rig.house.services.notifications.list_recipients(ann)
        for act in ("remove", "test", "events"):
            sent = {"events": ["held"]}
            assert (await other.post(f"/me/notifications/{known.id}/{act}", sent)).status_code == 404
        assert "chat.example.net" not in (await other.get("/me/notifications")).text


async def test_what_a_recipient_is_told_of_is_changed(rig: Rig) -> None:
    ann = await rig.house.user("ann", "default", password=PASSWORD)
    async with open_desk(rig, "ann") as desk:
        for address in (HOOK, f"{HOOK}/other"):
            await desk.post("/me/notifications", {"way": "webhook", "address": address, "events": ["failed", "held"]})
        by_address = {
            each.recipient.address: each for each in await rig.house.services.notifications.list_recipients(ann)
        }
        known, other = by_address[HOOK], by_address[f"{HOOK}/other"]
        where = f"/me/notifications/{known.id}/events"
        page = (await desk.get("/me/notifications")).text
        assert _ticked(page, where) == ["failed", "held"]
        answer = await desk.post(where, {"events": ["started", "failed"]})
        assert (answer.status_code, answer.headers["location"]) == (303, "/me/notifications")
        page = (await desk.get("/me/notifications")).text
        assert _ticked(page, where) == ["started", "failed"]
        assert _ticked(page, f"/me/notifications/{other.id}/events") == ["failed", "held"]
        assert "A job started, A job failed" in text_of(page)
        for events, told in (([], "Choose at least one event"), (["nonsense"], "is not a notification event")):
            wrong = await desk.post(where, {"events": events})
            assert wrong.status_code == 400
            form = _form(wrong.text, where)
            assert told in text_of(form)
            assert told not in text_of(wrong.text.replace(form, ""))
            assert "<details open>" in wrong.text
        kept = {each.id: each.recipient.events for each in await rig.house.services.notifications.list_recipients(ann)}
        assert kept[known.id] == {"started", "failed"}


async def test_one_whose_address_is_damaged_is_shown_as_that_and_removed(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        await desk.post("/me/notifications", {"way": "webhook", "address": HOOK, "events": ["failed"]})
        (known,) = await rig.house.services.notifications.list_recipients(rig.house.admin)
        await damage(rig.house, notification_recipients, known.id)
        page = (await desk.get("/me/notifications")).text
        assert "Its address cannot be read. Delete the recipient and add it again." in text_of(page)
        assert f"/me/notifications/{known.id}/test" not in page
        assert (await desk.post(f"/me/notifications/{known.id}/remove", {})).status_code == 303
        assert "No recipients yet" in text_of((await desk.get("/me/notifications")).text)


def _form(page: str, where: str) -> str:
    return page.partition(f'action="{where}"')[2].partition("</form>")[0]


def _ticked(page: str, where: str) -> list[str]:
    return re.findall(r'value="([a-z-]+)" checked', _form(page, where))

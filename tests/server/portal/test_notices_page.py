"""Who is told of one's jobs: the page as the server makes it."""

from __future__ import annotations

import pytest

from tests.server.rig import Rig

from .desk import PASSWORD, open_desk, text_of

pytestmark = pytest.mark.anyio

HOOK = "https://chat.example.net/services/T000/very-secret"


async def test_a_recipient_is_added_shown_in_part_and_removed(rig: Rig) -> None:
    ann = await rig.house.user("ann", "default", password=PASSWORD)
    async with open_desk(rig, "ann") as desk:
        assert "Nobody is told yet" in text_of((await desk.get("/me/notices")).text)
        sent = {"way": "slack", "address": HOOK, "events": ["failed", "held"]}
        assert (await desk.post("/me/notices", sent)).status_code == 303
        page = (await desk.get("/me/notices")).text
        assert "very-secret" not in page
        assert "chat.example.net" in page
        assert "A job failed, A failed task is held" in text_of(page)
        (known,) = await rig.house.services.notices.recipients(ann)
        assert (await desk.post(f"/me/notices/{known.id}/remove", {})).status_code == 303
        assert not await rig.house.services.notices.recipients(ann)


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ({"way": "webhook", "address": "ftp://x", "events": ["failed"]}, "must begin with https:// or http://"),
        ({"way": "webhook", "address": "https://x/\r\nEvil: yes", "events": ["failed"]}, "The address"),
        ({"way": "pigeon", "address": HOOK, "events": ["failed"]}, "pigeon"),
        ({"way": "mail", "address": "ann@example.org", "events": ["failed"]}, "This server sends no mails"),
        ({"way": "webhook", "address": HOOK, "events": []}, "event"),
    ],
)
async def test_what_is_wrong_is_said_and_what_was_typed_is_kept(rig: Rig, sent: dict[str, object], told: str) -> None:
    async with open_desk(rig) as desk:
        answer = await desk.post("/me/notices", sent)
        assert answer.status_code == 400
        assert told in text_of(answer.text)
        assert str(sent["address"]).splitlines()[0] in answer.text


async def test_those_of_others_are_nobodys_business(rig: Rig) -> None:
    ann = await rig.house.user("ann", "default", password=PASSWORD)
    await rig.house.user("ben", "default", password=PASSWORD)
    async with open_desk(rig, "ann") as desk, open_desk(rig, "ben") as other:
        await desk.post("/me/notices", {"way": "webhook", "address": HOOK, "events": ["failed"]})
        (known,) = await rig.house.services.notices.recipients(ann)
        for act in ("remove", "test"):
            assert (await other.post(f"/me/notices/{known.id}/{act}", {})).status_code == 404
        assert "chat.example.net" not in (await other.get("/me/notices")).text

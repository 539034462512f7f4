"""Notifications over HTTP: whole addresses go in and never come out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.store.tables import notification_recipients
from tests.services.damage import damage
from tests.services.webhook_receiver import Hook

from .rig import Rig, error_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    yield made
    made.close()


async def test_a_recipient_from_beginning_to_end(rig: Rig, hook: Hook) -> None:
    body = {"way": "webhook", "address": hook.url, "events": ["failed", "held"]}
    made = await rig.post("/me/notifications/recipients", json=body)
    assert made.status_code == 201
    assert made.json()["address"] == f"http://127.0.0.1:{hook.port}/…mnop"
    assert len(made.json()["secret"]) == 64
    error_of(await rig.post("/me/notifications/recipients", json=body), 409)
    id = made.json()["id"]
    changed = await rig.ask("PATCH", f"/me/notifications/recipients/{id}", json={"events": ["started"]})
    assert changed.json() == {**made.json(), "events": ["started"]}
    assert (await rig.get("/me/notifications/recipients")).json()["items"] == [changed.json()]
    tested = await rig.post(f"/me/notifications/recipients/{id}/test")
    assert tested.json() == {"delivered": True, "detail": "responded with 200"}
    told = await rig.get("/me/notifications", params={"limit": 1})
    (notification,) = told.json()["items"]
    assert (notification["id"], notification["event"], notification["state"]) == (hook.posts[0].id, "test", "sent")
    asked = await rig.post("/me/notifications/secret", json={"address": hook.url})
    assert asked.json() == {"secret": made.json()["secret"]}
    assert not any("abcdefgh" in reply.text for reply in (made, changed, tested, told))
    assert "secret words" not in tested.text + told.text
    assert (await rig.ask("DELETE", f"/me/notifications/recipients/{id}")).status_code == 204
    error_of(await rig.ask("DELETE", f"/me/notifications/recipients/{id}"), 404)


async def test_one_that_cannot_be_read_is_listed_with_what_to_do(rig: Rig, hook: Hook) -> None:
    made = (await rig.post("/me/notifications/recipients", json={"way": "webhook", "address": hook.url})).json()
    assert made["problem"] is None
    await damage(rig.house, notification_recipients, made["id"])
    (shown,) = (await rig.get("/me/notifications/recipients")).json()["items"]
    assert (shown["address"], shown["secret"]) == ("…", None)
    assert shown["problem"] == "The address of this recipient cannot be read. Remove it and add it again."
    error_of(await rig.post(f"/me/notifications/recipients/{made['id']}/test"), 409)
    assert (await rig.ask("DELETE", f"/me/notifications/recipients/{made['id']}")).status_code == 204


async def test_who_may(rig: Rig, hook: Hook) -> None:
    ann = await rig.token_of("ann", "red")
    made = await rig.post("/me/notifications/recipients", json={"way": "slack", "address": hook.url}, headers=ann)
    assert (await rig.get("/me/notifications/recipients")).json()["items"] == []
    (shown,) = (await rig.get("/users/ann/notifications/recipients")).json()["items"]
    assert shown == {**made.json(), "secret": None}
    assert (await rig.get("/users/ann/notifications")).json() == {"items": [], "next": None}
    for path in ("/users/admin/notifications", "/users/admin/notifications/recipients"):
        error_of(await rig.get(path, headers=ann), 403)
    error_of(await rig.get("/me/notifications", headers={"Authorization": ""}), 401)


@pytest.mark.parametrize(
    "body",
    [
        {"way": "webhook"},
        {"way": "pigeon", "address": "https://example.org"},
        {"way": "webhook", "address": "https://example.org", "events": []},
        {"way": "webhook", "address": "https://example.org", "events": ["x"] * 21},
        {"way": "webhook", "address": "x" * 2001},
        {"way": "webhook", "address": "https://example.org", "more": 1},
    ],
)
async def test_what_is_wrong(rig: Rig, body: dict[str, object]) -> None:
    reply = await rig.post("/me/notifications/recipients", json=body)
    assert reply.status_code in (400, 422), reply.text


async def test_jobs_ask_by_query(rig: Rig) -> None:
    text = "name: a\ncommand: echo hi\n"
    made = await rig.post("/jobs", content=text, params={"notify": "failed,held"})
    assert made.status_code == 201
    again = await rig.post(f"/jobs/{made.json()['id']}/rerun", params={"notify": "started"})
    record = await rig.house.services.jobs.load_detail(rig.house.admin, again.json()["id"])
    assert [len(each.events) for each in record.job.notify] == [3]
    error_of(await rig.post("/jobs", content=text, params={"notify": "nonsense"}), 400)
    planned = (await rig.post("/jobs/plan", content=text, params={"notify": "failed"})).json()
    assert "notify:\n- failed" in planned["yaml"] or "notify: [failed]" in planned["yaml"]

"""Secrets over HTTP: what is sent never comes back."""

from __future__ import annotations

import logging

import pytest

from .rig import Rig, error_of

pytestmark = pytest.mark.anyio

VALUE = "correct-horse"
KEY = {"name": "key", "display_name": "", "kind": "opaque", "registry_host": "", "username": ""}
REGISTRY = {"name": "reg", "kind": "registry", "registry_host": "ghcr.io", "username": "ann", "value": VALUE}


async def test_a_secret_from_beginning_to_end(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    made = await rig.post("/secrets", json={"name": "key", "value": VALUE})
    assert (made.status_code, made.json()) == (201, KEY)
    changed = await rig.ask("PATCH", "/secrets/key", json={"display_name": "x", "value": f"{VALUE}-2"})
    assert changed.json() == {**KEY, "display_name": "x"}
    listed = await rig.get("/secrets")
    one = await rig.get("/secrets/key")
    assert one.json() == listed.json()["items"][0]
    taken = await rig.post("/secrets", json={"name": "key", "value": VALUE})
    error_of(taken, 409)
    assert not any(VALUE in response.text for response in (made, changed, listed, one, taken))
    assert VALUE not in caplog.text
    assert await rig.house.services.secrets.load_value("key") == f"{VALUE}-2"
    assert (await rig.ask("DELETE", "/secrets/key")).status_code == 204
    error_of(await rig.get("/secrets/key"), 404)
    error_of(await rig.ask("DELETE", "/secrets/key"), 404)


async def test_who_may(rig: Rig) -> None:
    ann = await rig.token_of("ann", "red")
    for body in ({"name": "key", "value": VALUE}, REGISTRY):
        assert (await rig.post("/secrets", json=body)).status_code == 201
    assert [one["name"] for one in (await rig.get("/secrets", headers=ann)).json()["items"]] == ["reg"]
    error_of(await rig.get("/secrets/key", headers=ann), 404)
    error_of(await rig.post("/secrets", json={"name": "a", "value": VALUE}, headers=ann), 403)
    error_of(await rig.ask("PATCH", "/secrets/reg", json={"value": "x"}, headers=ann), 403)
    error_of(await rig.ask("DELETE", "/secrets/reg", headers=ann), 403)
    error_of(await rig.get("/secrets", headers={"Authorization": ""}), 401)


@pytest.mark.parametrize(
    "body",
    [
        {"name": "a"},
        {"name": "a", "value": ""},
        {"name": "a", "value": [VALUE]},
        {"name": "a", "value": VALUE * 10_000},
        {"name": "a", "value": f"{VALUE}\0"},
        {"name": "a b", "value": VALUE},
        {"name": "a", "valeu": VALUE},
        {"name": "a", "kind": "other", "value": VALUE},
        {"name": "a", "kind": "registry", "value": VALUE},
    ],
)
async def test_what_is_refused_is_not_said_back(rig: Rig, body: dict[str, object]) -> None:
    refused = await rig.post("/secrets", json=body)
    assert refused.status_code in (400, 413)
    assert VALUE not in refused.text


async def test_one_in_use_says_by_what(rig: Rig) -> None:
    await rig.post("/secrets", json={"name": "key", "value": VALUE})
    data = {"url": "file:///nowhere", "secret": "key"}
    assert (await rig.post("/datasets", json={"name": "code", "kind": "git", "data": data})).status_code == 201
    assert "dataset code" in error_of(await rig.ask("DELETE", "/secrets/key"), 409)["message"]

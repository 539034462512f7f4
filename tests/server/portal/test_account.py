"""Logging in and out, one's own account, tokens and SSH keys, as the server makes the pages."""

from __future__ import annotations

import html
import json
import re

import httpx
import pytest

from holdfast.core.access import Actor
from holdfast.server.rest.account import CODE_TTL
from tests.server.rig import Rig

from .page_client import PASSWORD, Desk, open_desk, text_of

pytestmark = pytest.mark.anyio

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ3FOZgDx2DGuNLLzK4ydj1Hmh3Emr3SvNPXd7CGcTCU ann@home"
NEW = "another good password"


def stranger(rig: Rig, **headers: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(rig.app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://test", headers={"Accept": "text/html", **headers})


async def ann(rig: Rig) -> Actor:
    return await rig.house.user("ann", "default", "red", password=PASSWORD)


# -- logging in


async def test_one_comes_back_to_where_one_wanted_to_go(rig: Rig) -> None:
    await ann(rig)
    async with stranger(rig) as client:
        sent = await client.get("/me/keys?x=1")
        assert sent.headers["location"] == "/login?next=/me/keys%3Fx%3D1"
        page = (await client.get(sent.headers["location"])).text
        assert 'name="next" value="/me/keys?x=1"' in page
        wrong = await client.post("/login", data={"user": "ann", "password": "no", "next": "/me/keys?x=1"})
        assert wrong.status_code == 401
        assert 'value="ann"' in wrong.text
        assert 'name="next" value="/me/keys?x=1"' in wrong.text
        assert "Incorrect user name or password" in text_of(wrong.text)
        done = await client.post("/login", data={"user": "ann", "password": PASSWORD, "next": "/me/keys?x=1"})
        assert (done.status_code, done.headers["location"]) == (303, "/me/keys?x=1")


async def test_who_fails_too_often_is_told_how_long_to_wait(rig: Rig) -> None:
    await ann(rig)
    async with stranger(rig) as client:
        for _ in range(5):
            await client.post("/login", data={"user": "ann", "password": "no"})
        answer = await client.post("/login", data={"user": "ann", "password": "no"})
        assert answer.status_code == 429
        assert "Wait 30 s and try again" in text_of(answer.text)


async def test_language_and_theme_can_be_chosen_before_and_are_kept_with_the_user(rig: Rig) -> None:
    actor = await ann(rig)
    async with stranger(rig) as client:
        chosen = await client.post("/me/preferences", data={"language": "zh-Hant", "next": "/login?next=/me"})
        assert chosen.headers["location"] == "/login?next=/me"
        await client.post("/me/preferences", data={"theme": "dark"})
        page = (await client.get("/login")).text
        assert '<html lang="zh-Hant" data-theme="dark"' in page
        await client.post("/login", data={"user": "ann", "password": PASSWORD})
        assert await rig.house.services.users.get_preferences(actor) == {"language": "zh-Hant", "theme": "dark"}
    async with stranger(rig) as elsewhere:
        await elsewhere.post("/login", data={"user": "ann", "password": PASSWORD})
        assert '<html lang="zh-Hant" data-theme="dark"' in (await elsewhere.get("/me")).text
    async with open_desk(rig) as other:
        assert '<html lang="en" data-theme="auto"' in (await other.get("/me")).text


async def test_what_is_no_language_is_passed_over(rig: Rig) -> None:
    async with stranger(rig) as client:
        answer = await client.post("/me/preferences", data={"language": "xx", "theme": "<b>", "next": "//evil.example"})
        assert answer.headers["location"] == "/"
        assert not [name for name in client.cookies if name in ("holdfast_language", "holdfast_theme")]


# -- the link that works once


async def test_a_link_logs_in_once_and_only_by_its_button(rig: Rig) -> None:
    made = (await rig.post("/login-codes")).json()
    assert (made["user"], made["expires_in"], made["url"]) == (
        "admin",
        CODE_TTL,
        f"http://test/login?code={made['code']}",
    )
    async with stranger(rig) as client:
        for _ in range(3):  # whatever fetches the link ahead of people
            page = await client.get(made["url"])
            assert "Log in as admin" in text_of(page.text)
            assert not client.cookies
        done = await client.post("/login/link", data={"code": made["code"]})
        assert done.status_code == 303
        assert (await client.get("/me")).status_code == 200
        again = await client.post("/login/link", data={"code": made["code"], "csrf": (await Desk(rig, client).proof())})
        assert "This link has expired or was already used. Run holdfast portal for a new link" in text_of(again.text)
        assert again.status_code == 401
    async with stranger(rig) as client:
        assert (await client.get(made["url"])).status_code == 401


async def test_a_link_is_too_old_after_ten_minutes(rig: Rig) -> None:
    made = (await rig.post("/login-codes")).json()
    rig.house.clock.forward(CODE_TTL + 1)
    async with stranger(rig) as client:
        assert (await client.post("/login/link", data={"code": made["code"]})).status_code == 401


async def test_a_code_is_good_for_one_thing_alone(rig: Rig) -> None:
    services = rig.house.services
    login = await services.codes.issue_login_code(rig.house.admin)
    token = await services.codes.issue_token_code_for_actor(rig.house.admin)
    async with stranger(rig) as client:
        exchanged = await client.post("/oidc/auth-flow/exchange", data={"code": login})
        assert exchanged.status_code == 400
        assert (await client.post("/login/link", data={"code": token})).status_code == 401
        assert (await client.post("/login/link", data={"code": login})).status_code == 303
        assert (await client.post("/oidc/auth-flow/exchange", data={"code": token})).status_code == 200


async def test_a_password_that_changed_since_ends_the_link(rig: Rig) -> None:
    actor = await ann(rig)
    code = await rig.house.services.codes.issue_login_code(actor)
    await rig.house.services.users.set_password(rig.house.admin, "ann", NEW)
    async with stranger(rig) as client:
        assert (await client.get(f"/login?code={code}")).status_code == 401


async def test_a_token_for_programs_logs_no_browser_in(rig: Rig) -> None:
    headers = await rig.token_of("bob", "red")
    assert (await rig.post("/login-codes", headers=headers)).status_code == 403


async def test_a_link_to_another_user_says_whose_login_ends(rig: Rig) -> None:
    await ann(rig)
    code = await rig.house.services.codes.issue_login_code(rig.house.admin)
    async with open_desk(rig, "ann") as desk:
        old = dict(desk.client.cookies)["holdfast"]
        assert "This logs you out of ann." in text_of((await desk.get(f"/login?code={code}")).text)
        assert (await desk.client.post("/login/link", data={"code": code})).status_code == 403
        assert (await desk.post("/login/link", {"code": code})).status_code == 303
        assert "<bdi>admin</bdi>" in (await desk.get("/me")).text
        with pytest.raises(Exception, match="token is not valid"):
            await rig.house.services.tokens.resolve_actor(old)


# -- the account


async def test_who_one_is(rig: Rig) -> None:
    await rig.house.services.groups.set_member(rig.house.admin, "default", "admin", admin=True)
    async with open_desk(rig) as desk:
        text = text_of((await desk.get("/me")).text)
        assert "Administrator" in text
        assert "default (admin)" in text


async def test_an_email_is_changed(rig: Rig) -> None:
    await ann(rig)
    async with open_desk(rig, "ann") as desk:
        assert (await desk.post("/me/email", {"email": "ann@example.org"})).headers["location"] == "/me"
        page = (await desk.get("/me")).text
        assert 'value="ann@example.org"' in page
        assert "Your email was changed." in page
        wrong = await desk.post("/me/email", {"email": "x" * 5000})
        assert wrong.status_code == 400


async def test_a_new_password_ends_other_logins_and_keeps_this_one(rig: Rig) -> None:
    await ann(rig)
    async with open_desk(rig, "ann") as here, open_desk(rig, "ann") as elsewhere:
        before = here.client.cookies["holdfast"]
        done = await here.post("/me/password", {"old": PASSWORD, "new": NEW, "again": NEW})
        assert done.headers["location"] == "/me"
        assert here.client.cookies["holdfast"] != before
        assert (await here.get("/me")).status_code == 200
        assert (await elsewhere.get("/me")).headers["location"] == "/login?next=/me"
    async with open_desk(rig, "ann", NEW):
        pass


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"old": "wrong", "new": NEW, "again": NEW}, "old"),
        ({"old": PASSWORD, "new": NEW, "again": NEW + "x"}, "again"),
        ({"old": PASSWORD, "new": "short", "again": "short"}, "new"),
        ({}, "old"),
    ],
)
async def test_what_is_wrong_with_a_password_is_told_at_its_field(rig: Rig, fields: dict[str, str], field: str) -> None:
    await ann(rig)
    async with open_desk(rig, "ann") as desk:
        answer = await desk.post("/me/password", fields)
        assert answer.status_code == 400
        assert re.search(rf'<div class="field invalid" data-field="{field}">', answer.text)
        assert PASSWORD not in answer.text
        assert NEW not in answer.text
        assert (await desk.get("/me")).status_code == 200


async def test_log_out_everywhere_else(rig: Rig) -> None:
    await ann(rig)
    async with open_desk(rig, "ann") as here, open_desk(rig, "ann") as elsewhere:
        assert "You have 2 logins" in text_of((await here.get("/me")).text)
        await here.post("/me/logins/end")
        assert (await here.get("/me")).status_code == 200
        assert (await elsewhere.get("/me")).status_code == 303


# -- tokens


async def test_a_token_is_shown_once_and_works(rig: Rig) -> None:
    await ann(rig)
    async with open_desk(rig, "ann") as desk:
        made = await desk.post("/me/tokens", {"name": "<b>nightly", "lifetime": "30"})
        text = html.unescape(made.text)
        token = re.search(r"hf_a[a-z0-9]+_[\w-]{43}", text)
        assert token
        assert "&lt;b&gt;nightly" in made.text
        assert f'curl -H "Authorization: Bearer {token[0]}" http://test/api/v1/me' in text
        me = await desk.client.get("/api/v1/me", headers={"Authorization": f"Bearer {token[0]}"})
        assert me.json()["name"] == "ann"
        listed = (await desk.get("/me/tokens")).text
        assert token[0] not in listed
        assert "&lt;b&gt;nightly" in listed
        assert text_of(listed).count("this browser") == 1

        config = await desk.post("/me/tokens/config", {"token": token[0]})
        assert config.headers["content-disposition"] == 'attachment; filename="config.json"'
        known = json.loads(config.text)
        assert known == {"api-token": token[0], "endpoint": "http://test/api/graphql", "group": {"name": "default"}}

        gone = re.search(r'action="(/me/tokens/a[a-z0-9]+/remove)"', listed)
        assert gone
        await desk.post(gone[1])
        assert (await desk.client.get("/api/v1/me", headers={"Authorization": f"Bearer {token[0]}"})).status_code == 401


async def test_a_config_is_made_for_ones_own_tokens_alone(rig: Rig) -> None:
    await ann(rig)
    theirs = await rig.house.services.tokens.create(rig.house.admin, name="x")
    async with open_desk(rig, "ann") as desk:
        assert (await desk.post("/me/tokens/config", {"token": theirs.text})).status_code == 403
        own = desk.client.cookies["holdfast"]
        assert (await desk.post("/me/tokens/config", {"token": own})).status_code == 403


async def test_an_admin_does_not_revoke_others_tokens_here(rig: Rig) -> None:
    actor = await ann(rig)
    theirs = await rig.house.services.tokens.create(actor, name="x")
    async with open_desk(rig) as desk:
        await desk.post(f"/me/tokens/{theirs.token.id}/remove")
    assert await rig.house.services.tokens.resolve_actor(theirs.text)


@pytest.mark.parametrize("fields", [{"name": "", "lifetime": "7"}, {"name": "x", "lifetime": "soon"}, {"name": "x\n"}])
async def test_a_token_needs_a_name_and_a_length(rig: Rig, fields: dict[str, str]) -> None:
    async with open_desk(rig) as desk:
        answer = await desk.post("/me/tokens", fields)
        assert answer.status_code == 400
        assert "hf_" not in answer.text


# -- SSH keys


async def test_a_key_is_added_shown_and_removed(rig: Rig) -> None:
    await ann(rig)
    async with open_desk(rig, "ann") as desk:
        assert "No SSH key yet" in text_of((await desk.get("/me/keys")).text)
        await desk.post("/me/keys", {"value": KEY + "\n"})
        page = (await desk.get("/me/keys")).text
        assert "ann@home" in page
        assert "SHA256:" in page
        user = await rig.house.services.users.get(rig.house.admin, "ann")
        assert user.extension["sshKeys"][0]["value"] == KEY
        twice = await desk.post("/me/keys", {"value": KEY, "title": "again"})
        assert twice.status_code == 400
        assert "You already have this key" in text_of(twice.text)
        assert 'value="again"' in twice.text
        gone = re.search(r'action="(/me/keys/\w+/remove)"', page)
        assert gone
        await desk.post(gone[1])
        assert "No SSH key yet" in text_of((await desk.get("/me/keys")).text)
        assert (await desk.post(gone[1])).status_code == 404


async def test_a_private_key_is_refused_and_not_shown_again(rig: Rig) -> None:
    secret = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----"
    async with open_desk(rig) as desk:
        answer = await desk.post("/me/keys", {"value": secret})
        assert answer.status_code == 400
        assert "This is a private key" in text_of(answer.text)
        assert "BEGIN" not in answer.text
        garbage = text_of((await desk.post("/me/keys", {"value": "garbage"})).text)
        assert "This is not a one-line public key. Use a key such as" in garbage
        await desk.post("/me/preferences", {"language": "zh-Hans"})
        chinese = text_of((await desk.post("/me/keys", {"value": "garbage"})).text)
        assert re.search(r"公钥。\S", chinese)


async def test_keys_by_the_api(rig: Rig) -> None:
    made = await rig.post("/me/keys", json={"value": KEY, "title": "laptop"})
    assert made.status_code == 201
    assert made.json()["title"] == "laptop"
    assert [key["id"] for key in (await rig.get("/me/keys")).json()["items"]] == [made.json()["id"]]
    assert (await rig.post("/me/keys", json={"value": KEY})).status_code == 409
    assert (await rig.post("/me/keys", json={"value": f"{KEY}\n{KEY}"})).status_code == 400
    assert (await rig.ask("DELETE", f"/me/keys/{made.json()['id']}")).status_code == 204
    assert (await rig.ask("DELETE", f"/me/keys/{made.json()['id']}")).status_code == 404

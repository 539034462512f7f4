"""The page on which a person gets a code, and what the code gives."""

from __future__ import annotations

import re

import httpx
import pytest

from holdfast.services.people import login_codes as token_codes
from holdfast.services.people.users import UserChange

from .hub import Hub

pytestmark = pytest.mark.anyio

BASES = ("/oidc/auth-flow", "/console/oidc/auth-flow")
PAGE = "/oidc/auth-flow/login"
PASSWORD = "correct horse battery"


@pytest.fixture
async def browser(hub: Hub) -> httpx.AsyncClient:
    """Without a token."""
    eve = await hub.house.user("eve", password=PASSWORD)
    return (await hub.caller(eve, token="")).http


async def code_for(browser: httpx.AsyncClient, user: str = "eve", password: str = PASSWORD) -> str:
    shown = await browser.post(PAGE, data={"username": user, "password": password})
    assert shown.status_code == 200, shown.text
    found = re.search(r"<pre>([\w-]+)</pre>", shown.text)
    assert found
    return found.group(1)


@pytest.mark.parametrize("base", BASES)
async def test_clients_find_the_place_by_its_redirect(browser: httpx.AsyncClient, base: str) -> None:
    for method in ("HEAD", "GET"):
        answered = await browser.request(method, f"{base}/request")
        assert (answered.status_code, answered.headers["location"]) == (302, PAGE)


@pytest.mark.parametrize("base", BASES)
async def test_a_code_gives_a_token_once(browser: httpx.AsyncClient, base: str) -> None:
    code = await code_for(browser)
    answered = await browser.post(f"{base}/exchange", data={"code": f" {code}\n"})
    given = answered.json()
    assert given["endpoint"] == "http://hub.example/api/graphql"
    me = await browser.post(
        "/api/graphql", json={"query": "{ me { username } }"}, headers={"authorization": f"Bearer {given['api-token']}"}
    )
    assert me.json() == {"data": {"me": {"username": "eve"}}}
    again = await browser.post(f"{base}/exchange", data={"code": code})
    assert (again.status_code, again.text) == (400, "Bad Request")


async def test_the_token_is_listed_and_the_login_leaves_none(hub: Hub, browser: httpx.AsyncClient) -> None:
    await browser.post(f"{BASES[0]}/exchange", data={"code": await code_for(browser)})
    found = await hub.house.services.tokens.list(hub.house.admin, "eve")
    assert [token.name for token in found] == ["primehub command"]


async def test_a_wrong_password_shows_the_form_again(browser: httpx.AsyncClient) -> None:
    shown = await browser.post(PAGE, data={"username": '"><script>x</script>', "password": "no"})
    assert shown.status_code == 401
    assert 'role="alert"' in shown.text
    assert "<script>" not in shown.text
    assert "<form" in (await browser.get(PAGE)).text


async def test_guesses_are_slowed_down(browser: httpx.AsyncClient) -> None:
    codes = {(await browser.post(PAGE, data={"username": "eve", "password": "no"})).status_code for _ in range(30)}
    assert codes == {401, 429}


async def test_an_old_code_gives_nothing(hub: Hub, browser: httpx.AsyncClient) -> None:
    code = await code_for(browser)
    hub.house.clock.forward(token_codes.CODE_TTL + 1)
    assert (await browser.post(f"{BASES[0]}/exchange", data={"code": code})).text == "Bad Request"


async def test_many_codes_fill_no_memory(hub: Hub, browser: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_codes, "MAX_CODES", 3)
    given = [await code_for(browser) for _ in range(5)]
    answers = [await browser.post(f"{BASES[0]}/exchange", data={"code": code}) for code in given]
    assert [answer.status_code for answer in answers] == [400, 400, 200, 200, 200]


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"code=" + b"x" * 5000, b"&".join([b"a=b"] * 50)])
async def test_strange_bodies_give_nothing(browser: httpx.AsyncClient, content: bytes) -> None:
    assert (await browser.post(f"{BASES[0]}/exchange", content=content)).text == "Bad Request"


async def test_a_code_ends_with_the_password_it_was_given_for(hub: Hub, browser: httpx.AsyncClient) -> None:
    users, admin = hub.house.services.users, hub.house.admin
    code = await code_for(browser)
    await users.set_password(admin, "eve", "another-password-1")
    assert (await browser.post(f"{BASES[0]}/exchange", data={"code": code})).text == "Bad Request"


@pytest.mark.parametrize("again", [False, True])
async def test_a_code_ends_with_its_user(hub: Hub, browser: httpx.AsyncClient, again: bool) -> None:
    """Also when somebody else gets the name."""
    users, admin = hub.house.services.users, hub.house.admin
    code = await code_for(browser)
    await users.delete(admin, "eve")
    if again:
        await users.create(admin, name="eve", password="another-password-1")
    assert (await browser.post(f"{BASES[0]}/exchange", data={"code": code})).text == "Bad Request"


async def test_who_may_not_come_in_gets_no_token_for_a_code(hub: Hub, browser: httpx.AsyncClient) -> None:
    code = await code_for(browser)
    await hub.house.services.users.apply_change(hub.house.admin, "eve", UserChange(disabled=True))
    assert (await browser.post(f"{BASES[0]}/exchange", data={"code": code})).text == "Bad Request"
    assert await hub.house.services.tokens.list(hub.house.admin, "eve") == []


async def test_nobody_ends_the_codes_of_others(
    hub: Hub, browser: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_codes, "MAX_CODES", 4)
    monkeypatch.setattr(token_codes, "MAX_CODES_PER_USER", 2)
    await hub.house.services.users.create(hub.house.admin, name="tom", password="tom-has-a-password")
    others = await code_for(browser, "tom", "tom-has-a-password")
    given = [others, *[await code_for(browser) for _ in range(5)]]
    answers = [await browser.post(f"{BASES[0]}/exchange", data={"code": code}) for code in given]
    assert [answer.status_code for answer in answers] == [200, 400, 400, 400, 200, 200]


@pytest.mark.parametrize("base", BASES)
async def test_who_is_logged_in_gets_a_code_by_a_button(hub: Hub, browser: httpx.AsyncClient, base: str) -> None:
    await browser.post("/login", data={"user": "eve", "password": PASSWORD})
    page = (await browser.get(f"{base}/login")).text
    assert 'name="password"' not in page
    proof = re.search(r'<meta name="csrf" content="([0-9a-f]+)">', page)
    assert proof
    assert (await browser.post(f"{base}/login")).status_code == 403  # no page of ours sent this
    shown = await browser.post(f"{base}/login", data={"csrf": proof[1]})
    found = re.search(r"<pre>([\w-]+)</pre>", shown.text)
    assert found
    assert (await browser.post(f"{base}/exchange", data={"code": found[1]})).status_code == 200

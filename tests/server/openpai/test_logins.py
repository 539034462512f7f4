"""Information, logins and tokens."""

from __future__ import annotations

import pytest

from .pai import PASSWORD, Pai, refused

pytestmark = pytest.mark.anyio

LOGINS = ("/v1/authn/basic/login", "/v2/authn/basic/login", "/v1/token", "/v2/tokens")


async def test_what_this_server_is(pai: Pai) -> None:
    info = {"name": "PAI RESTful API", "version": "v1.8.1", "launcherType": "k8s", "authnMethod": "basic"}
    for path in ("/v1", "/v1/", "/v2/info", "/v2/info/"):
        assert (await pai.guest.get(path)).json() == info
    assert (await pai.guest.get("/v2/")).text == "PAI RESTful API v2 (beta version)"
    for version in ("v1", "v2"):
        found = (await pai.guest.get(f"/{version}/authn/info")).json()
        assert found == {"authn_type": "basic", "loginURI": "/api/v1/authn/basic/login", "loginURIMethod": "post"}


@pytest.mark.parametrize("path", LOGINS)
async def test_log_in_by_form_and_json(pai: Pai, path: str) -> None:
    body = {"username": "alice", "password": PASSWORD, "expiration": "4000"}
    for more in ({"data": body}, {"json": body}):
        found = await pai.guest.post(path, **more)  # type: ignore[arg-type]
        assert found.status_code == 200, found.text
        token = found.json().pop("token")
        assert found.json() == {"user": "alice", "token": token, "admin": False, "hasGitHubPAT": False}
        mine = await pai.client(token)
        assert (await mine.get("/v2/users/alice")).status_code == 200


async def test_wrong_logins(pai: Pai) -> None:
    async def log_in(**body: object) -> object:
        return await pai.guest.post("/v2/authn/basic/login", json=body)

    wrong = await pai.guest.post("/v2/authn/basic/login", json={"username": "alice", "password": "wrong!"})
    refused(wrong, 400, "IncorrectPasswordError", "Password is incorrect.")
    nobody = await pai.guest.post("/v2/authn/basic/login", json={"username": "bob", "password": "wrong!"})
    refused(nobody, 400, "NoUserError", "User bob is not found.")
    for body in ({}, {"username": "alice"}, {"username": ["alice"], "password": PASSWORD}, {"password": PASSWORD}):
        refused(await pai.guest.post("/v2/authn/basic/login", json=body), 400, "InvalidParametersError")


async def test_guessing_is_slowed_down(pai: Pai) -> None:
    answered = [
        (await pai.guest.post("/v1/token", json={"username": "alice", "password": f"guess {n}"})).status_code
        for n in range(30)
    ]
    assert answered[0] == 400
    assert 429 in answered
    late = await pai.guest.post("/v1/token", json={"username": "alice", "password": PASSWORD})
    refused(late, 429, "TooManyRequestsError")
    assert int(late.headers["retry-after"]) >= 1


async def test_log_out_ends_the_token(pai: Pai) -> None:
    assert (await pai.user.delete("/v2/authn/basic/logout")).json() == {"message": "Logout successfully"}
    refused(await pai.user.get("/v2/users/alice"), 401, "UnauthorizedUserError", "Your token is invalid.")


async def test_a_github_token_is_told_of(pai: Pai) -> None:
    await pai.house.services.users.update_extension(pai.alice, "alice", {"githubPAT": "secret"})
    found = await pai.guest.post("/v2/tokens", json={"username": "alice", "password": PASSWORD})
    assert found.json()["hasGitHubPAT"] is True


async def test_application_tokens(pai: Pai) -> None:
    made = (await pai.user.post("/v2/tokens/application", json={})).json()
    assert made.pop("application") is True
    program = await pai.client(made.pop("token"))
    assert not made
    checked = (await program.get("/v2/tokens/check")).json()
    assert checked.pop("iat") > 0
    assert checked == {"username": "alice", "application": True, "jobSpecific": False, "admin": False}
    for method, path in (("GET", "/v2/tokens"), ("POST", "/v2/tokens/application"), ("DELETE", "/v2/tokens/x")):
        text = "Applications are not allowed to do this operation."
        refused(await program.request(method, path), 403, "ForbiddenUserError", text)


async def test_check_a_login(pai: Pai) -> None:
    checked = (await pai.user.get("/v2/tokens/check")).json()
    assert (checked["username"], checked["application"], checked["admin"]) == ("alice", False, False)
    assert checked["exp"] > checked["iat"]


async def test_tokens_are_listed_by_handle_and_revoked_by_handle_or_text(pai: Pai) -> None:
    first = (await pai.user.post("/v2/tokens/application")).json()["token"]
    second = (await pai.user.post("/v2/tokens/application")).json()["token"]
    listed = (await pai.user.get("/v2/tokens")).json()["tokens"]
    assert listed == (await pai.user.get("/v1/token")).json()["tokens"]
    handle = next(each for each in listed if first.startswith(each + "_"))
    assert len(listed) == 3  # and the login
    for one in (handle, second):
        assert (await pai.user.delete(f"/v2/tokens/{one}")).json() == {"message": "revoke successfully"}
    for text in (first, second):
        refused(await (await pai.client(text)).get("/v2/tokens/check"), 401, "UnauthorizedUserError")
    assert len((await pai.user.get("/v2/tokens")).json()["tokens"]) == 1


async def test_only_own_tokens_are_revoked(pai: Pai) -> None:
    listed = (await pai.user.get("/v2/tokens")).json()["tokens"]
    for client, one in ((pai.admin, listed[0]), (pai.user, "hf_nothing"), (pai.user, "x")):
        refused(await client.delete(f"/v2/tokens/{one}"), 403, "ForbiddenUserError")
    assert (await pai.user.get("/v2/tokens")).json()["tokens"] == listed


async def test_what_is_not_offered_says_so(pai: Pai) -> None:
    for version in ("v1", "v2"):
        for method, path in (("GET", "login"), ("GET", "logout"), ("GET", "return"), ("POST", "return")):
            said = refused(await pai.guest.request(method, f"/{version}/authn/oidc/{path}"), 400, "NotImplementedError")
            assert "basic/login" in said
    refused(await pai.guest.get("/internal/tail-logs/some/blob"), 404, "NotImplementedError")

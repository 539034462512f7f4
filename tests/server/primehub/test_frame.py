"""The frame of every request: bodies, logins, refusals, and limits against queries that ask for too much."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from graphql import get_introspection_query

from holdfast.core.access import Actor
from holdfast.server.primehub.graphql import query_cache
from holdfast.server.primehub.graphql.query_cache import QueryCache, QueryRejected
from holdfast.server.primehub.schema import build_schema
from holdfast.store.errors import StoreError

from .hub import Caller, Hub

pytestmark = pytest.mark.anyio

ME = "query { me { username } }"
JOB = "query ($where: PhJobWhereUniqueInput!) { phJob(where: $where) { id } }"


async def post(caller: Caller, **more: Any) -> tuple[int, Any]:
    response = await caller.http.post("/api/graphql", **more)
    assert response.headers["content-type"] == "application/json"
    return response.status_code, response.json()


def code_of(answered: Any) -> str:
    assert answered["data"] is None
    return str(answered["errors"][0]["extensions"]["code"])


# -- bodies


async def test_forms_and_json_are_read_alike(hub: Hub) -> None:
    me = {"data": {"me": {"username": "ann"}}}
    for variables in ("{}", "", None):
        form = {"query": ME} if variables is None else {"query": ME, "variables": variables}
        assert await post(hub.ann, data=form) == (200, me), variables
    for given in ({}, None, "", "{}"):
        assert await post(hub.ann, json={"query": ME, "variables": given}) == (200, me), given
    assert await post(hub.ann, json={"query": ME}) == (200, me)
    assert await post(hub.ann, content=json.dumps({"query": ME})) == (200, me)  # whatever it calls itself


async def test_one_of_several_operations_is_chosen_by_name(hub: Hub) -> None:
    query = "query A { me { username } } query B { me { id email } }"
    assert await post(hub.ann, json={"query": query, "operationName": "A"}) == (
        200,
        {"data": {"me": {"username": "ann"}}},
    )
    status, answered = await post(hub.ann, json={"query": query})
    assert (status, code_of(answered)) == (400, "GRAPHQL_VALIDATION_FAILED")


@pytest.mark.parametrize(
    ("content", "kind", "said"),
    [
        (b"", "application/json", "not valid JSON"),
        (b"{", "application/json", "not valid JSON"),
        (b"7", "application/json", "must be a JSON object"),
        (b"[]", "application/json", "one operation per request"),
        (b"{}", "application/json", "`query` is missing"),
        (b'{"query": 7}', "application/json", "`query` is missing"),
        (b'{"query": "{me{id}}", "variables": []}', "application/json", "must be a JSON object"),
        (b'{"query": "{me{id}}", "variables": "nonsense"}', "application/json", "`variables` is not valid JSON"),
        (b'{"query": "{me{id}}", "variables": {"a": 1e999}}', "application/json", "not valid JSON"),
        (b'{"query": "{me{id}}", "variables": {"a": NaN}}', "application/json", "not valid JSON"),
        (b'{"query": "{me{id}}", "variables": {"a": "\\ud800"}}', "application/json", "not valid JSON"),
        (b"[" * 100_000, "application/json", "not valid JSON"),
        (b'{"query": "\xff"}', "application/json", "not UTF-8"),
        (b"query=%ff", "application/x-www-form-urlencoded", "not a valid UTF-8 form"),
        (b"&".join(b"a=%d" % n for n in range(50)), "application/x-www-form-urlencoded", "not a valid UTF-8 form"),
        (b"variables={}", "application/x-www-form-urlencoded", "`query` is missing"),
        (b'{"query": "{me{id}}"}', "application/x-www-form-urlencoded", "`Content-Type: application/json`"),
    ],
)
async def test_a_body_that_is_none_is_refused_in_words(hub: Hub, content: bytes, kind: str, said: str) -> None:
    status, answered = await post(hub.ann, content=content, headers={"Content-Type": kind})
    assert (status, code_of(answered)) == (400, "REQUEST_BODY_INVALID")
    assert said in answered["errors"][0]["message"]


async def test_only_post_is_answered(hub: Hub) -> None:
    for method in ("GET", "PUT", "DELETE", "PATCH"):
        response = await hub.ann.http.request(method, "/api/graphql")
        assert (response.status_code, response.headers["allow"]) == (405, "OPTIONS, POST")
        assert "POST" in response.json()["errors"][0]["message"]
    assert (await hub.ann.http.options("/api/graphql")).status_code == 204


@pytest.mark.parametrize("path", ["/api/graphql/", "/api/graphql/x", "/api/files/", "/api/files/x/y", "/api/share/x"])
async def test_what_is_no_address_is_told_in_one_shape(hub: Hub, path: str) -> None:
    for method in ("GET", "POST", "DELETE"):
        response = await hub.ann.http.request(method, path)
        assert (response.status_code, response.json()["code"]) == (404, "RESOURCE_NOT_FOUND")
        assert set(response.json()) == {"code", "message"}


async def test_a_body_that_is_too_large_is_refused_in_the_shape_of_graphql(hub: Hub) -> None:
    status, answered = await post(hub.ann, json={"query": ME, "variables": {"a": "x" * 4_000_000}})
    assert (status, code_of(answered)) == (413, "REQUEST_BODY_INVALID")


async def test_a_body_that_turns_out_too_large_is_refused_so_too(hub: Hub) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield b"x" * 1_000_000

    status, answered = await post(hub.ann, content=pieces(), headers={"Content-Type": "application/json"})
    assert (status, code_of(answered)) == (413, "REQUEST_BODY_INVALID")


async def test_without_a_database_clients_are_told_so(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(self: Any, *_: Any) -> None:
        raise StoreError("the disk is full")

    for place in ("holdfast.services.people.users.Users.get", "holdfast.services.people.tokens.Tokens.resolve_actor"):
        with monkeypatch.context() as patched:
            patched.setattr(place, fail)
            assert (await hub.ann.refused(ME))[0] == "API_UNAVAILABLE"


async def test_our_own_addresses_are_left_alone(hub: Hub) -> None:
    assert (await hub.ann.http.get("/api/docs")).status_code == 200
    assert (await hub.ann.http.get("/api/v1/me")).json()["name"] == "ann"
    assert (await hub.ann.http.get("/api/nothing")).json()["error"]["code"] == "not_found"


async def test_health_is_for_anyone(hub: Hub) -> None:
    stranger = await hub.caller(Actor(name=""), token="")
    assert (await stranger.http.get("/api/health")).status_code == 200


# -- logins


@pytest.mark.parametrize("token", ["", "nonsense", "hf_0123456789_nonsense", "é"])
async def test_without_a_good_token_clients_are_told_so(hub: Hub, token: str) -> None:
    stranger = await hub.caller(Actor(name=""), token="")
    headers = {"Authorization": f"Bearer {token}".encode()} if token else {}
    response = await stranger.http.post("/api/graphql", data={"query": ME}, headers=headers)
    assert response.status_code == 401
    assert "Invalid API Token" in response.json()["errors"][0]["message"]
    assert code_of(response.json()) == "ACCESS_TOKEN_EXPIRED"


# -- queries


async def test_comments_fragments_and_aliases_are_understood(hub: Hub) -> None:
    query = """
    # whoever asks
    query Both { one: me { ...Names } two: me { ...Names } }
    fragment Names on User { username # only this
    }
    """
    assert await hub.ann.ask(query) == {"data": {"one": {"username": "ann"}, "two": {"username": "ann"}}}


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("nonsense", "Syntax Error"),
        ("{ me { nothing } }", "Cannot query field 'nothing'"),
        ("{ me { ...A } } fragment A on User { ...B } fragment B on User { ...A }", "contains itself"),
        ("{ " + "me { effectiveGroups { users { groups { users { id } } } } } " * 21 + "}", "the limit is 20"),
        ("{ me { " + " ".join(f"a{n}: id" for n in range(301)) + " } }", "the limit is 300"),
        ("{ me " + "{ effectiveGroups { users " * 15 + "{ id }" + " } }" * 15 + " }", "deep"),
        ("{ me { id } } fragment A on User { " + "id " * 601 + "}", "the limit of 600 fields"),
        ("{ a" * 11_000, "the limit is 32768"),
        ("{ me { " + "id " * 3000 + "} }", "tokens"),
        ("{a" * 900, "deep"),
        ("{ me { username } __schema { types { name } } }", "separate query"),
        ("query A { me { username } } query B { __schema { types { name } } }", "separate query"),
        ('{ ...A } fragment A on Query { me { id } ... { __type(name: "User") { name } } }', "separate query"),
    ],
)
async def test_a_query_that_is_no_good_is_refused_before_it_is_run(hub: Hub, query: str, said: str) -> None:
    status, answered = await post(hub.ann, json={"query": query})
    assert (status, code_of(answered)) == (400, "GRAPHQL_VALIDATION_FAILED")
    assert said in answered["errors"][0]["message"]


async def test_fragments_that_stand_for_billions_are_counted_not_written_out() -> None:
    doubling = [f"fragment F{n} on User {{ ...F{n + 1} ...F{n + 1} }}" for n in range(60)]
    text = " ".join(["{ me { ...F0 } }", *doubling, "fragment F60 on User { id }"])
    with pytest.raises(QueryRejected, match="the limit is 300"):
        await QueryCache(build_schema()).get_query(text)


async def test_lists_within_lists_end(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = "{ me { effectiveGroups { users { effectiveGroups { users { id } } } } } }"
    assert "errors" not in await hub.ann.ask(deep)
    monkeypatch.setattr("holdfast.server.primehub.graphql.call.MAX_RESPONSE_VALUES", 10)
    code, message = await hub.ann.refused(deep)
    assert code == "REQUEST_BODY_INVALID"
    assert "requests too much data" in message


async def test_the_schema_tells_of_itself_but_not_without_end(hub: Hub) -> None:
    answered = await hub.ann.ask(get_introspection_query())
    assert "PhJob" in {each["name"] for each in answered["data"]["__schema"]["types"]}
    much = "types { fields { type { fields { " + " ".join(f"a{n}: name" for n in range(100)) + " } } } }"
    assert "introspection query is too large" in (await hub.ann.refused(f"{{ __schema {{ {much} }} }}"))[1]


async def test_variables_that_do_not_fit_are_named(hub: Hub) -> None:
    status, answered = await post(hub.ann, json={"query": JOB, "variables": {"where": {"id": "x", "odd": 1}}})
    assert (status, code_of(answered)) == (400, "GRAPHQL_VALIDATION_FAILED")
    assert "odd" in answered["errors"][0]["message"]
    _, message = await hub.ann.refused(JOB, where={"id": ["x" * 100_000]})
    assert len(message) <= 2000


async def test_what_we_did_not_foresee_is_told_by_its_number_alone(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(self: Any, *_: Any) -> None:
        raise RuntimeError("the secret of the house")

    monkeypatch.setattr("holdfast.services.people.users.Users.get", fail)
    response = await hub.ann.http.post("/api/graphql", data={"query": ME})
    assert code_of(response.json()) == "INTERNAL_SERVER_ERROR"
    assert "secret" not in response.text
    assert response.headers["x-request-id"] in response.text
    assert "the secret of the house" in caplog.text


# -- query texts that are kept


async def test_a_text_is_read_once_and_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    real = query_cache.parse_query

    def counted(schema: Any, text: str) -> Any:
        read.append(text)
        return real(schema, text)

    monkeypatch.setattr(query_cache, "parse_query", counted)
    monkeypatch.setattr(query_cache, "MAX_CACHED_QUERIES", 2)
    kept = QueryCache(build_schema())
    texts = [f"{{ me {{ {name} }} }}" for name in ("id", "email", "username")]
    for text in (texts[0], texts[0], texts[1]):
        await kept.get_query(text)
    await kept.get_query(texts[0])
    assert read == texts[:2]
    await kept.get_query(texts[2])  # in place of the one that was not asked for the longest
    await kept.get_query(texts[0])
    await kept.get_query(texts[1])
    assert read == [*texts, texts[1]]
    long = texts[0] + " " * query_cache.MAX_CACHED_LENGTH
    await kept.get_query(long)
    await kept.get_query(long)
    assert read[-2:] == [long, long]

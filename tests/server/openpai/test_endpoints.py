"""Every address that OpenPAI's REST server has is declared, answered and in the reference."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from holdfast.server.openpai.endpoints import ENDPOINTS, AccessLevel, Support
from holdfast.server.openpai.rate_limits import RateLimitedAction
from holdfast.server.openpai.routes import accepts_job_file

from .pai import Pai

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "openpai-api.md"

# Method, and paths with every name left out. What OpenPAI 1.8 has, and what its older clients still ask for.
OPENPAI = """
GET /v1 /v2 /v2/info /v1/authn/info /v2/authn/info
POST /v1/authn/basic/login /v2/authn/basic/login /v1/token /v2/tokens
DELETE /v1/authn/basic/logout /v2/authn/basic/logout
GET /v1/authn/oidc/login /v1/authn/oidc/logout /v1/authn/oidc/return
GET /v2/authn/oidc/login /v2/authn/oidc/logout /v2/authn/oidc/return
POST /v1/authn/oidc/return /v2/authn/oidc/return
GET /v1/token /v2/tokens /v2/tokens/check
POST /v2/tokens/application
DELETE /v2/tokens/{}

GET /v2/jobs /v2/jobs/{} /v2/jobs/{}/attempts/{} /v2/jobs/{}/config /v2/jobs/{}/events /v2/jobs/{}/ssh
GET /v2/jobs/{}/attempts/{}/taskRoles/{}/taskIndex/{}/attempts
GET /v2/jobs/{}/attempts/{}/taskRoles/{}/taskIndex/{}/attempts/{}/logs
GET /v2/jobs/{}/job-attempts /v2/jobs/{}/job-attempts/{} /v2/jobs/{}/job-attempts/healthz
POST /v2/jobs
PUT /v2/jobs/{}/executionType /v2/jobs/{}/tag
DELETE /v2/jobs/{}/tag

GET /v1/jobs /v1/user/{}/jobs /v1/jobs/{} /v1/user/{}/jobs/{} /v1/user/{}/jobs/{}/config /v1/user/{}/jobs/{}/ssh
POST /v1/user/{}/jobs
PUT /v1/user/{}/jobs/{} /v1/user/{}/jobs/{}/executionType
DELETE /v1/user/{}/jobs/{}
GET /v1/virtual-clusters /v1/virtual-clusters/{} /v1/user/{}

GET /v2/users /v2/user /v2/users/{} /v2/user/{}
POST /v2/users /v2/user
PUT /v2/users /v2/user /v2/users/me /v2/user/me
DELETE /v2/users/{} /v2/user/{} /v2/users/{}/group /v2/user/{}/group
PUT /v2/users/{}/extension /v2/users/{}/virtualcluster /v2/users/{}/password /v2/users/{}/email /v2/users/{}/admin
PUT /v2/users/{}/grouplist /v2/users/{}/group /v2/user/{}/grouplist /v2/user/{}/group

GET /v2/groups /v2/group /v2/groups/{} /v2/group/{} /v2/groups/{}/userlist /v2/group/{}/userlist
POST /v2/groups /v2/group
PUT /v2/groups /v2/group /v2/groups/{}/extension /v2/groups/{}/extension/{} /v2/groups/{}/description
PUT /v2/groups/{}/externalname
DELETE /v2/groups/{} /v2/group/{}

GET /v2/virtual-clusters /v2/virtual-clusters/{} /v2/cluster/sku-types /v2/virtual-clusters/{}/sku-types
PUT /v2/virtual-clusters/{} /v2/virtual-clusters/{}/status
DELETE /v2/virtual-clusters/{}
GET /v2/storages /v2/storages/{}
GET /v2/storage/config /v2/storage/config/{} /v2/storage/server /v2/storage/server/{}
GET /v1/kubernetes/nodes /v1/kubernetes/pods /v2/kubernetes/nodes /v2/kubernetes/pods /v2/alerts /internal/tail-logs/{}
"""


def wanted() -> set[tuple[str, str]]:
    lines = [line.split() for line in OPENPAI.splitlines() if line]
    return {(method, path) for method, *paths in lines for path in paths}


def test_every_address_of_openpai_is_declared_and_none_twice() -> None:
    declared = Counter((each.method, re.sub(r"\{[^}]*\}", "{}", each.path)) for each in ENDPOINTS)
    assert wanted() - set(declared) == set()
    assert [address for address, count in declared.items() if count > 1] == []


def test_every_address_is_in_the_reference() -> None:
    page = PAGE.read_text()
    for each in ENDPOINTS:
        assert f"`{each.path.replace(':path}', '}')}`" in page, each.path


async def test_every_declared_address_is_answered(pai: Pai) -> None:
    for each in ENDPOINTS:
        path = re.sub(r"\{[^}]*\}", "x", each.path)
        client = pai.user if "logout" in path else pai.admin  # which ends the token
        answered = await client.request(each.method, path)
        assert answered.status_code != 500, (each, answered.text)
        assert '"NoApiError"' not in answered.text, (each, answered.text)
        if each.support is Support.UNSUPPORTED:
            assert answered.json()["code"] == "NotImplementedError", each
        if each.support is Support.EMPTY:
            assert answered.status_code in (200, 404), each


async def test_every_address_but_the_open_ones_wants_a_login(pai: Pai) -> None:
    for each in ENDPOINTS:
        path = re.sub(r"\{[^}]*\}", "x", each.path)
        answered = await pai.guest.request(each.method, path)
        assert (answered.status_code == 401) is (each.access_level is not AccessLevel.ANYONE), (each, answered.text)


async def test_nothing_else_answers_below_the_prefix(pai: Pai) -> None:
    found = [getattr(route, "path", "") for route in pai.app.routes]
    assert [path for path in found if path.startswith("/rest-server")] == ["/rest-server"]


def test_a_job_may_be_as_large_as_the_settings_say() -> None:
    submits = [each for each in ENDPOINTS if each.rate_limited_action is RateLimitedAction.SUBMIT]
    assert submits
    for each in ENDPOINTS:
        path = "/rest-server/api" + re.sub(r"\{[^}]*\}", "x", each.path)
        assert accepts_job_file(each.method, path) is (each in submits), each

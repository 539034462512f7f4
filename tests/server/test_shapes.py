"""One definition of each shape, in `holdfast.api`: what the server says of it, checks and answers."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from holdfast.api.groups import GroupFields, NewGroup
from holdfast.api.jobs import HoldChange, JobDetail, SubmittedJob
from holdfast.api.pages import ItemList
from holdfast.api.resources import Quota, ResourceAmount
from holdfast.sdk.json_conversion import from_json, to_json
from holdfast.server.rest.routing import RestRoute
from holdfast.server.rest.schemas import Body, get_sent_fields

from .rig import Rig
from .shapes import check_shape

pytestmark = pytest.mark.anyio


@pytest.fixture
async def openapi(rig: Rig) -> dict[str, Any]:
    described: dict[str, Any] = (await rig.get("/openapi.json")).json()
    return described


def test_an_answer_has_every_field_and_no_other() -> None:
    answer = {"items": [{"cpu": 1, "memory": 2, "gpu": 0}]}
    check_shape(ItemList[ResourceAmount], json.dumps(answer).encode())
    for wrong in (
        {"cpu": 1, "memory": 2},
        {"cpu": 1, "memory": 2, "gpu": 0, "tpu": 0},
        {"cpu": "a", "memory": 2, "gpu": 0},
    ):
        with pytest.raises(ValidationError):
            check_shape(ItemList[ResourceAmount], json.dumps({"items": [wrong]}).encode())


async def test_openapi_describes_every_field_of_an_answer(openapi: dict[str, Any]) -> None:
    shown = openapi["components"]["schemas"]["JobDetail"]
    assert list(shown["properties"]) == [field.name for field in fields(JobDetail)]
    assert set(shown["required"]) == set(shown["properties"])
    assert shown["properties"]["message"]["description"] == "Why it is in this state."
    assert shown["properties"]["submitted_at"]["format"] == "date-time"
    assert shown["properties"]["state"] == {"$ref": "#/components/schemas/JobState"}


async def test_every_route_that_answers_json_declares_its_shape(rig: Rig, openapi: dict[str, Any]) -> None:
    for route in rig.app.routes:
        if isinstance(route, RestRoute) and route.include_in_schema:
            operation = openapi["paths"][route.path_format][min(route.methods or ()).lower()]
            answer = operation["responses"].get(str(route.status_code or 200), {}).get("content", {})
            plain = route.path.endswith(("/yaml", "/source"))  # text
            assert plain or answer.get("application/json", {"schema": 1})["schema"], route.path


async def test_a_request_and_an_answer_never_share_a_name(openapi: dict[str, Any]) -> None:
    schemas = openapi["components"]["schemas"]
    assert set(schemas["Quota"]["required"]) == {"cpu", "memory", "gpu"}
    assert "required" not in schemas["QuotaRequest"]
    assert schemas["QuotaRequest"]["properties"]["cpu"]["anyOf"][0]["maximum"] == 1_000_000


def test_a_request_is_what_was_sent() -> None:
    check = TypeAdapter[NewGroup](Body[NewGroup]).validate_python
    sent = check({"name": "a", "quota": {"cpu": 2}, "hold": None, "description": None})
    assert sent == {"name": "a", "quota": Quota(cpu=2), "hold": None, "description": None}
    assert get_sent_fields(sent, "hold") == {"name": "a", "quota": Quota(cpu=2), "hold": None}
    assert TypeAdapter[HoldChange](Body[HoldChange]).validate_python({"for": 3.0}) == {"for": 3.0}


@pytest.mark.parametrize(
    "wrong", [{"naem": "a"}, {"display_name": "x" * 256}, {"quota": {"cpu": -1}}, {"quota": {"tpu": 1}}, {"hold": 7}]
)
def test_a_wrong_request_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter[GroupFields](Body[GroupFields]).validate_python(wrong)


async def test_the_client_reads_all_that_is_answered(rig: Rig) -> None:
    answer = (await rig.post("/jobs", content="name: x\ncommand: echo hi\n")).json()
    assert to_json(from_json(SubmittedJob, answer)) == answer

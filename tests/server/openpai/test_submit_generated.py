"""Five hundred made-up files through the real server: none is an accident, and each refusal says where."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings

from tests.jobspec.openpai_files import good_trees, hostile_texts, spoilt_trees, written
from tests.longer import examples

from .pai import open_pai

Send = Callable[[bytes], httpx.Response]

_DATA_PATH = re.compile(r"(\.[A-Za-z_$][\w$]*|\[\d+\]|\['(?:[^'\\]|\\.)*'\])*", re.DOTALL)
_NO_LIMITS = {"openpai": {"submits_per_hour": 0, "requests_per_minute": 0}}


def made_up(count: int) -> Any:
    return settings(max_examples=examples(count), deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def send(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Send]:
    home: Path = tmp_path_factory.mktemp("generated") / "home"
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        pai = runner.run(stack.enter_async_context(open_pai(home, _NO_LIMITS)))

        def post(content: bytes) -> httpx.Response:
            return runner.run(pai.user.post("/v2/jobs", content=content, headers={"Content-Type": "text/yaml"}))

        yield post
        runner.run(stack.aclose())


def check(response: httpx.Response) -> None:
    """A job, or a refusal that helps."""
    assert response.status_code < 500, response.text
    if response.status_code == 202:
        return
    body = response.json()
    assert body["code"]
    assert body["message"]
    if response.status_code == 400:
        assert body["code"] == "InvalidProtocolError"
        check_problems(body)
    else:
        assert body["code"] in ("ConflictJobError", "ForbiddenUserError", "NoStorageError"), body


def check_problems(body: dict[str, Any]) -> None:
    assert body["problems"]
    for problem in body["problems"]:
        assert _DATA_PATH.fullmatch(problem["dataPath"]), problem
        assert problem["keyword"] != "rule", problem
        named = problem["params"].get("missingProperty") or problem["params"].get("additionalProperty")
        assert problem["dataPath"] or named or problem["line"] or problem["keyword"] == "more", problem


@made_up(130)
@given(written(good_trees()))
def test_good_files_are_taken(send: Send, text: str) -> None:
    response = send(text.encode())
    assert response.status_code in (202, 409), (text, response.text)


@made_up(200)
@given(written(spoilt_trees()))
def test_spoilt_files_are_told(send: Send, text: str) -> None:
    check(send(text.encode()))


@made_up(170)
@given(hostile_texts())
def test_hostile_text_is_told(send: Send, content: bytes) -> None:
    check(send(content))

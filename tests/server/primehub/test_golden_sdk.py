"""The other half of the golden files: the SDK itself sends these requests and no others, and reads the answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from primehub.utils import GraphQLException, ResourceNotFoundException

from primehub import PrimeHub, PrimeHubConfig

from .test_golden import FILES

FORM = {"instanceType": "cpu-1", "image": "host", "displayName": "demo", "command": "echo hi"}
BAD_CRON = {"displayName": "bad", "recurrence": {"type": "custom", "cron": "61 * * * *"}}
BY_HAND = {"displayName": "by hand", "recurrence": {"type": "on-demand", "cron": ""}, "activeDeadlineSeconds": 3600}


def _key(query: str, variables: Any) -> str:
    return json.dumps([query, variables], sort_keys=True)


class Answers:
    """Stands where the server would, with what is in the golden files."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[str, Any]] = {}
        self.asked_for: set[str] = set()
        for path in FILES:
            golden = json.loads(path.read_text())
            self.known[_key(**golden["asked"])] = (path.stem, golden["answered"])

    def post(self, endpoint: str, *, data: dict[str, str], headers: dict[str, str], timeout: int) -> SimpleNamespace:
        assert set(data) == {"query", "variables"}
        assert headers == {"authorization": "Bearer token"}
        name, answered = self.known[_key(data["query"], json.loads(data["variables"]))]
        self.asked_for.add(name)
        return SimpleNamespace(text=json.dumps(answered))


def _calls(hub: PrimeHub) -> Iterator[Callable[[], Any]]:
    jobs, recurring = hub.jobs, hub.recurring_jobs
    yield lambda: list(jobs.list(page=1))
    yield lambda: list(jobs.list())
    yield lambda: jobs.get("<job>")
    yield lambda: jobs.submit({**FORM, "activeDeadlineSeconds": 3600})
    yield lambda: jobs.submit({**FORM, "instanceType": "cpu-99"})
    yield lambda: jobs.submit({**FORM, "colour": "red"})
    yield lambda: jobs.submit_from_recurring_job("<schedule>")
    yield lambda: jobs.rerun("<job>")
    yield lambda: jobs.cancel("<job>")
    yield lambda: jobs.wait("<job>")
    yield lambda: jobs.list_artifacts("<job>")
    yield lambda: next(jobs.logs("<job>"), None)
    yield lambda: jobs.get("nope")
    yield lambda: list(recurring.list())
    yield lambda: recurring.get("<schedule>")
    yield lambda: recurring.create({**FORM, **BY_HAND})
    yield lambda: recurring.create({**FORM, "displayName": "weekly", "recurrence": {"type": "weekly"}})
    yield lambda: recurring.create({**FORM, **BAD_CRON})
    yield lambda: recurring.update("<schedule>", {"recurrence": {"type": "daily"}, "command": "echo bye"})
    yield lambda: recurring.delete("<schedule>")
    yield lambda: recurring.get("nope")


class NoLog:
    """Stands for `requests.get`: a log that is empty."""

    def __init__(self, address: str, **_: Any) -> None:
        assert address.endswith("/api/logs/namespaces/hub/phjobs/<job>")

    def __enter__(self) -> SimpleNamespace:
        return SimpleNamespace(iter_content=lambda chunk_size: iter(()))

    def __exit__(self, *_: object) -> None:
        return None


def test_the_sdk_sends_what_the_files_say_and_reads_the_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Answers()
    monkeypatch.setattr("requests.post", answers.post)
    monkeypatch.setattr("requests.get", NoLog)
    config = PrimeHubConfig(endpoint="http://holdfast/api/graphql", token="token", group="red", config="/nonexistent")
    config.group_info = {"id": "red", "name": "red", "displayName": "red"}
    for call in _calls(PrimeHub(config)):
        with suppress(GraphQLException, ResourceNotFoundException):  # in the files, too
            call()
    assert answers.asked_for == {path.stem for path in FILES}

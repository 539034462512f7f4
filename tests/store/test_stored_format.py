"""The format of stored records: databases of earlier releases have it, so it must not follow a renamed field."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from holdfast.core.attempt import Outcome, OutcomeResult, StopRequest, TaskAttempt, TaskHold
from holdfast.core.exits.exit import Exit, ExitKind, RetryBehaviour
from holdfast.core.job import HoldScope
from holdfast.core.states import TaskState
from holdfast.store.jobs.rows import task_to_row
from holdfast.store.mapping import record_from_json, record_to_json

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
MICROS = 1772366400000000
EXIT = Exit(kind=ExitKind.PLATFORM, message="no", behaviour=RetryBehaviour.UNKNOWN, code=137, signal=9, cause="lost")
EXIT_DATA = {"kind": "platform", "message": "no", "behaviour": "unknown", "code": 137, "signal": 9, "cause": "lost"}


def test_a_task_has_the_same_columns_and_json_as_ever() -> None:
    hold = TaskHold(since=AT, until=AT + timedelta(seconds=1), exit=EXIT, keep=HoldScope.ALL)
    task = TaskAttempt(
        role="worker",
        index=2,
        number=1,
        state=TaskState.RUNNING,
        engine="docker",
        node="n1",
        host="rack-7",
        gpus=(0, 3),
        ports={"http": (80, 81)},
        placed_at=AT,
        exit=EXIT,
        held=hold,
    )
    row = task_to_row(task)
    texts = {name: json.loads(row.pop(name)) for name in ("gpus_json", "ports_json", "exit_json", "hold_json")}
    assert texts == {
        "gpus_json": [0, 3],
        "ports_json": {"http": [80, 81]},
        "exit_json": EXIT_DATA,
        "hold_json": {
            "since": MICROS,
            "until": MICROS + 1_000_000,
            "exit": EXIT_DATA,
            "keep": "all",
            "ended": False,
            "warned": False,
        },
    }
    assert row == {
        "role": "worker",
        "task_index": 2,
        "number": 1,
        "state": "Running",
        "engine": "docker",
        "node": "n1",
        "host": "rack-7",
        "placed_at": MICROS,
        "started_at": None,
        "finished_at": None,
        "stop_json": None,
        "user_retries": 0,
        "platform_retries": 0,
        "retry_at": None,
    }


def test_stop_requests_and_outcomes_have_the_same_json_as_ever() -> None:
    assert record_to_json(StopRequest(actor="ann", at=AT)) == {"actor": "ann", "at": MICROS, "why": ""}
    outcome = Outcome(result=OutcomeResult.FAILED, message="m", exit=EXIT, role="worker", index=0)
    assert record_to_json(outcome) == {
        "result": "failed",
        "message": "m",
        "exit": EXIT_DATA,
        "role": "worker",
        "index": 0,
        "reached": None,
        "needed": None,
    }


def test_records_of_earlier_releases_lack_fields() -> None:
    exit = {name: value for name, value in EXIT_DATA.items() if name != "cause"}
    assert record_from_json(Exit, exit).cause == ""
    hold = record_from_json(TaskHold, {"since": MICROS, "until": MICROS, "exit": exit, "keep": "files", "ended": True})
    assert (hold.since, hold.keep, hold.warned, hold.exit.code) == (AT, HoldScope.FILES, False, 137)
    assert record_from_json(StopRequest, {"actor": "ann", "at": MICROS}).why == ""

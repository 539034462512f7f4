from __future__ import annotations

from typing import Any

import pytest

from holdfast.cli.exitcodes import resolve_exit_code
from holdfast.sdk import JobDetail
from holdfast.sdk.json_conversion import from_json


def ended(**facts: Any) -> JobDetail:
    return from_json(JobDetail, {"id": "j", "name": "n", "submitted_at": "2026-01-01T00:00:00Z", **facts})


HELD_TASK = {"task": "main-0", "state": "Held", "exit": {"kind": "user-error", "code": 7}}


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({"state": "Succeeded", "exit_kind": "succeeded", "exit_code": 0}, 0),
        ({"state": "Failed", "exit_kind": "user-error", "exit_code": 3}, 3),
        ({"state": "Failed", "exit_kind": "out-of-memory", "exit_code": 137}, 137),
        ({"state": "Failed", "exit_kind": "time-limit", "exit_code": 143}, 124),
        ({"state": "Failed", "exit_kind": "time-limit", "exit_code": None}, 124),
        ({"state": "Failed", "exit_kind": "refused", "exit_code": None}, 125),
        ({"state": "Failed", "exit_kind": "platform", "exit_code": None}, 125),
        ({"state": "Failed", "exit_kind": "user-error", "exit_code": 256}, 1),  # never success
        ({"state": "Cancelled", "exit_kind": "cancelled", "exit_code": 143}, 120),
        ({"state": "Held", "tasks": [HELD_TASK]}, 7),
        ({"state": "Running"}, 121),
    ],
)
def test_what_the_exit_code_says(facts: dict[str, Any], code: int) -> None:
    assert resolve_exit_code(ended(**facts)) == code

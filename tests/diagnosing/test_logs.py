"""Ends of logs of all kinds of programs, and the fault that is to be found in each."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from .cases import of_log

LOGS = tomllib.loads(Path(__file__).with_name("logs.toml").read_text())["log"]


def _name(log: dict[str, Any]) -> str:
    return f"{log['fault']}: {log['text'].splitlines()[-1][:40]}"


@pytest.mark.parametrize("log", LOGS, ids=_name)
def test_the_fault_is_found(log: dict[str, Any]) -> None:
    found = of_log(log["text"] + "\n", log["code"])
    assert found.fault == log["fault"], found
    assert found.title == " ".join(found.title.split())
    assert found.remedies
    assert found.evidence

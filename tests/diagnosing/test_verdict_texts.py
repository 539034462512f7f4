"""Verdicts can be translated: what they say are messages whose ids are among the texts of the rules."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.messages import translate_message
from holdfast.diagnosis import iter_translatable_texts

from .cases import of_log

TEMPLATES = frozenset(iter_translatable_texts())
LOGS = tomllib.loads(Path(__file__).with_name("logs.toml").read_text())["log"]


def tell(text: str) -> str:
    return translate_message(text, lambda id: f"[{id}]" if id in TEMPLATES else id)


def test_there_are_templates() -> None:
    assert len(TEMPLATES) > 300


@pytest.mark.parametrize("log", LOGS[::3], ids=lambda log: log["text"].splitlines()[-1][:40])
def test_what_is_said_of_a_job_is_found_again(log: dict[str, Any]) -> None:
    """A title may be what the program said, and nothing else: that stays as it is."""
    found = of_log(log["text"] + "\n", log["code"])
    for text in (found.explanation, *found.remedies):
        assert tell(text).startswith("["), text

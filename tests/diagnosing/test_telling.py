"""Verdicts can be told in other languages: their sentences are found again with names and numbers in them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from holdfast.diagnosis import texts
from holdfast.server.portal.telling import Teller, read_sentence

from .cases import of_log

TEMPLATES = list(texts())
PLAIN = {text: f"[{text}]" for text in TEMPLATES if "{" not in text}
TELLER = Teller(PLAIN, [read_sentence(text, f"[{text}]") for text in TEMPLATES if "{" in text])
LOGS = tomllib.loads(Path(__file__).with_name("logs.toml").read_text())["log"]


def test_every_template_is_found_again_with_its_blanks_filled() -> None:
    assert len(TEMPLATES) > 300
    for text in TEMPLATES:
        told = TELLER.tell(re.sub(r"\{[a-z_0-9]+\}", "x1", text))
        assert told is not None, text
        assert told.startswith("["), (text, told)


@pytest.mark.parametrize("log", LOGS[::3], ids=lambda log: log["text"].splitlines()[-1][:40])
def test_what_is_said_of_a_job_is_found_again(log: dict[str, Any]) -> None:
    """A title may be what the program said, and nothing else: that stays as it is."""
    found = of_log(log["text"] + "\n", log["code"])
    for text in (found.explanation, *found.remedies):
        assert (TELLER.tell(text) or "").startswith("["), text

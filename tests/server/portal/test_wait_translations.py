"""Why a job waits, in another language: everything that is said of it is a message of the catalogue."""

from __future__ import annotations

import importlib
import re
import sys
from functools import cache
from pathlib import Path

import pytest

import holdfast
from holdfast.core.messages import translate_message
from holdfast.core.scheduling.blockers import WaitExplanation

from ...core.test_blockers import SITUATIONS, A, X
from ...core.waiting_cluster import Job, Place, node

sys.path.append(str(Path(__file__).parents[3] / "scripts"))
# What is no word: names of jobs, users, groups and machines here, what is shown as code, units.
NO_WORDS = re.compile(r"`[^`]*`|\bthe-\w+ \(\w+\)|\b(ann|bob|red|blue|one|two|n\d|a|b|x|UTC|[KMGT]iB|GPU)\b")


def in_signs(text: str) -> str:
    """A translation without an English word."""
    parts = re.split(r"(\{\w+\})", text.rstrip("."))
    told = "".join(part if part.startswith("{") else re.sub(r"[A-Za-z']+", "字", part) for part in parts)
    return f"{told}。" if text.endswith(".") else told


@cache
def ids() -> frozenset[str]:
    """Read when a test runs: every process of a parallel run collects this file."""
    found = importlib.import_module("message_ids").iter_messages(Path(holdfast.__file__).parent)
    return frozenset(text for _, text in found)


def tell(text: str) -> str:
    return translate_message(text, lambda id: in_signs(id) if id in ids() else id)


def said(wait: WaitExplanation) -> list[str]:
    basis = [wait.estimate.basis] if wait.estimate else []
    return [*(blocker.text for blocker in wait.blockers), *wait.helps, *basis]


def untold(texts: list[str]) -> list[str]:
    """Those that stay English, or in part."""
    return [text for text in texts if re.search("[A-Za-z]", NO_WORDS.sub("", tell(text)))]


MORE = {
    "going by other jobs": Place([node()], [A], [X], usual={"a": 1.5}),
    "nobody is named": Place([node()], [A, Job(id="b", held=True)], [Job(id="x", cpu=4)], sees=()),
    "machines of all sizes": Place(
        [node(f"n{i}", cpu=4 + i, memory=20 + i, gpus=2) for i in range(6)],
        [Job(id=f"a{i}", gpu=1, on=f"n{i}") for i in range(6)],
        [Job(id="x", gpu=2)],
    ),
}


@pytest.mark.parametrize("name", [*SITUATIONS, *MORE])
def test_all_that_is_said_of_a_waiting_job_is_found_again(name: str) -> None:
    place = MORE[name] if name in MORE else SITUATIONS[name][0]
    assert untold(said(place.wait())) == []


def test_commands_are_not_for_translation() -> None:
    assert [text for text in ids() if re.search(r"^\W*(holdfast group|\{prefix\})", text)] == []

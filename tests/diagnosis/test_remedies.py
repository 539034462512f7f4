"""Commands of ours that verdicts tell people to use are there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

import holdfast.diagnosis
from holdfast.cli.main import app

FOLDER = Path(holdfast.diagnosis.__file__).parent
CALLS = sorted(
    {
        call
        for path in [*FOLDER.glob("*.py"), *FOLDER.glob("rules/*.toml")]
        for call in re.findall(r"`holdfast ([a-z][a-z -]*)", path.read_text())
    }
)


@pytest.mark.parametrize("call", CALLS)
def test_a_command_that_is_recommended_exists(call: str) -> None:
    command: Any = typer.main.get_command(app)
    for word in call.split():
        if not getattr(command, "commands", {}):
            break
        assert word in command.commands, f"holdfast {call}"
        command = command.commands[word]
    assert not getattr(command, "commands", {}), f"holdfast {call}: of which kind?"


def test_some_are_recommended() -> None:
    assert CALLS

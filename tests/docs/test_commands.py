"""Every `holdfast ...` line that people will copy names a command and options that exist; all are described."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from holdfast.cli.main import app

from .pages import ROOT, blocks, name

ROOT_COMMAND: Any = typer.main.get_command(app)
_CALL = re.compile(r"(?:^|[ /$(])holdfast (.+)$")
_CALLERS = ("$ holdfast", "holdfast", "sudo HOLDFAST_HOME", ".venv/bin/holdfast")


def _calls() -> Iterator[tuple[str, str]]:
    for language in ("sh", "console"):
        for block in blocks(language):
            for line in block.text.splitlines():
                found = _CALL.search(line) if line.startswith(_CALLERS) else None
                if found:
                    yield name(block.page), found[1]


def _leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for below, inner in getattr(command, "commands", {}).items():
        yield from _leaves(inner, (*path, below))
    if not getattr(command, "commands", {}):
        yield path


@pytest.mark.parametrize(("page", "call"), list(_calls()))
def test_shown_command_exists(page: str, call: str) -> None:
    words = shlex.split(call.replace("…", "..."), comments=True)
    command = ROOT_COMMAND
    while getattr(command, "commands", {}) and words and not words[0].startswith("-"):
        assert words[0] in command.commands, f"{page}: no command {words[0]!r}"
        command = command.commands[words.pop(0)]
    known = {option for param in command.params for option in (*param.opts, *param.secondary_opts)} | {"--help", "-h"}
    own = words[: words.index("--")] if "--" in words else words
    assert [word for word in own if word.startswith("-") and word != "-" and word.split("=")[0] not in known] == []


def test_some_commands_were_found() -> None:
    assert len(list(_calls())) > 20


def test_every_command_is_on_the_command_page() -> None:
    text = (ROOT / "docs" / "reference" / "cli.md").read_text()
    missing = [" ".join(path) for path in _leaves(ROOT_COMMAND) if f"holdfast {' '.join(path)}" not in text]
    assert missing == []

"""The page about the command line speaks of every command and every option, and of none that does not exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from holdfast.cli import exitcodes
from holdfast.cli.main import app
from holdfast.sdk.client import ApiCalls

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGE = (REFERENCE / "cli.md").read_text()
SECTIONS = {title.strip(): text for title, text in re.findall(r"^### (holdfast .*)\n((?:(?!^#).*\n)*)", PAGE, re.M)}


def commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield path, command
        return
    for name, one in below.items():
        yield from commands(one, f"{path} {name}")


COMMANDS = dict(commands(typer.main.get_command(app), "holdfast"))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_described(name: str) -> None:
    text = SECTIONS[name]
    for param in COMMANDS[name].params:
        if param.param_type_name == "option" and not param.hidden:
            for option in (*param.opts, *param.secondary_opts):
                assert f"`{option}" in text, f"{name} {option} is not in docs/reference/cli.md"


def test_nothing_is_described_that_is_not_there() -> None:
    assert set(SECTIONS) == set(COMMANDS)
    for name, text in SECTIONS.items():
        known = {option for param in COMMANDS[name].params for option in (*param.opts, *param.secondary_opts)}
        mentioned = set(re.findall(r"`(--[a-z-]+)", text)) - {"--"}
        assert mentioned <= known, name


def test_every_exit_code_is_listed() -> None:
    codes = {value for name, value in vars(exitcodes).items() if name.isupper() and isinstance(value, int)}
    assert codes <= {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.M)}


def test_every_method_of_the_client_is_described() -> None:
    page = (REFERENCE / "python.md").read_text()
    methods = {name for cls in ApiCalls.__mro__[:-1] for name in vars(cls) if not name.startswith("_")}
    assert len(methods) > 40
    for name in methods:
        assert f"`{name}(" in page, f"{name} is not in docs/reference/python.md"

"""Job files and settings that people will copy are right."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from holdfast.core.job import Resources
from holdfast.jobspec import Defaults, parse_job
from holdfast.settings import Settings

from .pages import ROOT, Block, blocks, name

WHOLE_JOB = re.compile(r'^(name:| *"(jobName|displayName)":)', re.MULTILINE)  # other blocks show a part of one
# The sizes a fresh server knows; how large they are does not matter here.
DEFAULTS = Defaults(instance_types={name: Resources() for name in Settings().jobs.instance_types})
EXAMPLES = sorted(path for path in (ROOT / "examples").rglob("*") if path.suffix in (".yaml", ".yml", ".json"))


def _where(block: Block) -> str:
    return f"{name(block.page)}:{block.text.splitlines()[0][:40]}"


@pytest.mark.parametrize("path", EXAMPLES, ids=name)
def test_example_parses_without_a_warning(path: Path) -> None:
    parsed = parse_job(path.read_text(), defaults=DEFAULTS)
    assert parsed.job.roles
    assert parsed.warnings == ()


@pytest.mark.parametrize("path", EXAMPLES, ids=name)
def test_commands_of_an_example_are_valid_shell(path: Path) -> None:
    for role in parse_job(path.read_text(), defaults=DEFAULTS).job.roles:
        checked = subprocess.run(["bash", "-n"], input="\n".join(role.commands), capture_output=True, text=True)
        assert checked.stderr == ""


def test_the_first_job_is_among_the_examples() -> None:
    assert ROOT / "examples" / "hello.yaml" in EXAMPLES


@pytest.mark.parametrize(
    "block", [b for kind in ("yaml", "json") for b in blocks(kind) if WHOLE_JOB.search(b.text)], ids=_where
)
def test_job_file_in_a_page_parses(block: Block) -> None:
    assert parse_job(block.text, defaults=DEFAULTS).job.roles


@pytest.mark.parametrize("block", list(blocks("toml")), ids=_where)
def test_settings_in_a_page_are_valid(block: Block) -> None:
    Settings.model_validate(tomllib.loads(block.text))

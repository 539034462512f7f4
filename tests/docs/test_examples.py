"""Job files and settings that people will copy are right."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from holdfast.jobspec import parse_job
from holdfast.settings import Settings

from .pages import ROOT, Block, blocks, name

WHOLE_JOB = re.compile(r"^(name|jobName|displayName):", re.MULTILINE)  # other blocks show a part of one
EXAMPLES = sorted(path for path in (ROOT / "examples").iterdir() if path.suffix in (".yaml", ".yml", ".json"))


def _where(block: Block) -> str:
    return f"{name(block.page)}:{block.text.splitlines()[0][:40]}"


@pytest.mark.parametrize("path", EXAMPLES, ids=name)
def test_example_parses_without_a_warning(path: Path) -> None:
    parsed = parse_job(path.read_text())
    assert parsed.job.roles
    assert parsed.warnings == ()


def test_the_first_job_is_among_the_examples() -> None:
    assert ROOT / "examples" / "hello.yaml" in EXAMPLES


@pytest.mark.parametrize("block", [b for b in blocks("yaml") if WHOLE_JOB.search(b.text)], ids=_where)
def test_job_file_in_a_page_parses(block: Block) -> None:
    assert parse_job(block.text).job.roles


@pytest.mark.parametrize("block", list(blocks("toml")), ids=_where)
def test_settings_in_a_page_are_valid(block: Block) -> None:
    Settings.model_validate(tomllib.loads(block.text))

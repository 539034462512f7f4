"""The reference of sbatch scripts lists each option where it belongs."""

from __future__ import annotations

import re

import pytest

from holdfast.jobspec.sbatch.option_table import OPTIONS

from .pages import ROOT

PAGE = (ROOT / "docs/reference/sbatch.md").read_text().replace("`\n", "` ")
USED, WITHOUT_EFFECT, REJECTED = re.split(r"^## (?:Options without effect|Rejected options)$", PAGE, flags=re.MULTILINE)


@pytest.mark.parametrize("name", OPTIONS)
def test_each_option_is_listed_in_its_section(name: str) -> None:
    spec = OPTIONS[name]
    section = USED if spec.is_used else REJECTED if spec.refusal else WITHOUT_EFFECT
    written = f"`--{name}`" + (f" (`-{spec.letter}`)" if spec.letter else "")
    assert written in section

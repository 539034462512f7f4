"""Reference pages that come from the code say what the code says."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest

from holdfast.core.states import JobState, TaskState
from holdfast.settings import Settings

from .pages import ROOT

FOLDER = ROOT / "docs" / "reference"


def _load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generate = _load_generator()


@pytest.mark.parametrize("page", generate.PAGES)
def test_committed_page_is_what_would_be_generated(page: str) -> None:
    assert (FOLDER / page).read_text() == generate.PAGES[page](), "run `make docs`"


def test_every_setting_is_described() -> None:
    text = (FOLDER / "settings.md").read_text()
    for section, info in Settings.model_fields.items():
        part = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
        for field in info.annotation.model_fields:
            row = next((line for line in part.splitlines() if line.startswith(f"| `{field}` |")), None)
            assert row is not None, f"{section}.{field} is not in settings.md"
            assert row.split(" | ")[3].strip(" |"), f"{section}.{field} has no description"


def test_every_state_is_described() -> None:
    assert set(generate.JOB_STATES) == set(JobState)
    assert set(generate.TASK_STATES) == set(TaskState)


def test_a_page_that_differs_is_noticed(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(generate, "FOLDER", tmp_path)
    assert generate.outdated() == list(generate.PAGES)
    generate.write()
    assert generate.outdated() == []
    (tmp_path / "states.md").write_text("old")
    assert generate.outdated() == ["states.md"]

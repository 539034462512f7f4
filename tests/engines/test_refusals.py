"""Why a task cannot be entered, where the task itself has a hand in the words."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.engines.base import ExecRefused
from holdfast.engines.embedded.lifecycle.task_reviver import _wait_until_started
from holdfast.engines.embedded.task_folder import TaskFolder


def test_no_words_of_a_task_reach_a_terminal_as_they_are(tmp_path: Path) -> None:
    """As when it left something else in the place of its shell, which ends at once."""
    (tmp_path / "stderr").write_bytes(b"\x1b]52;c;bWluZQ==\x07\x1b]0;mine\x07 hello\n")
    with pytest.raises(ExecRefused, match="hello") as caught:
        _wait_until_started(TaskFolder(str(tmp_path)))
    assert str(caught.value).isprintable()

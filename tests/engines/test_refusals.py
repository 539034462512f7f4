"""Why a task cannot be entered, where the task itself has a hand in the words."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.engines.base import Isolation, NoEntry
from tests.contracts.engine_contract import Rig, launch, read_all

from .playing import need, play
from .sessions import let_in

# What it leaves in the shell's place speaks to the terminal of whoever wants in.
TRAP = r"""
shell=$(readlink -f "$(command -v bash)")
printf '#!/bin/dash\nprintf "\\033]0;mine\\007 hello\\n" >&2\nexit 1\n' >~/trap
chmod +x ~/trap; rm -f "$shell"; cp ~/trap "$shell"; echo laid; exit 3
"""


def test_no_words_of_a_task_reach_a_terminal_as_they_are(tmp_path: Path) -> None:
    need(Isolation.FULL)
    if not Path("/bin/dash").exists():
        pytest.skip("this machine has no other shell")

    async def scenario(rig: Rig) -> None:
        assert (await rig.run("a", TRAP)).code == 3
        assert await read_all(rig.log("a")) == b"laid\n"
        with pytest.raises(NoEntry, match="hello") as caught:
            await let_in(rig.engine).revive(launch("a", TRAP))
        assert str(caught.value).isprintable()

    play(tmp_path, scenario)

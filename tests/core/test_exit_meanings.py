"""What people are told of an exit: true and plain for every code, whether or not OpenPAI has a row for it."""

from __future__ import annotations

import pytest

from holdfast.core.exits.exit import Cause, Exit, ExitKind, classify
from holdfast.core.exits.meanings import known_code, meaning_of
from holdfast.core.exits.table import hint_for, spec_of, with_cause


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (1, "most programs use for any failure"),
        (2, "wrong option or argument"),
        (3, "up to the program"),
        (126, "cannot be run"),
        (127, "not found: its name is mistyped, or the program is not in the image"),
        (137, "was killed"),
        (139, "Segmentation fault"),
        (143, "was terminated"),
        (255, "up to the program"),
    ],
)
def test_each_common_code_is_told_in_plain_words(code: int, words: str) -> None:
    known = meaning_of(classify(code))
    assert words in known.reason
    assert known.solution


@pytest.mark.parametrize("code", range(1, 256))
def test_nothing_claims_to_know_the_log_when_no_cause_was_found(code: int) -> None:
    known = meaning_of(classify(code))
    assert "known signs" not in known.reason
    assert known.reason.endswith(".")


def test_a_cause_that_the_log_told_comes_before_the_code() -> None:
    lacking = with_cause(classify(127), Cause.COMMAND_NOT_FOUND.value)
    assert meaning_of(lacking).reason == spec_of(lacking).reason
    assert known_code(lacking) == ""
    unset = with_cause(classify(1), Cause.UNSET_VARIABLE.value)
    assert meaning_of(unset).reason == "The commands read a variable that is not set."


@pytest.mark.parametrize("kind", sorted(set(ExitKind) - {ExitKind.USER_ERROR}))
def test_what_the_platform_did_keeps_its_own_words(kind: ExitKind) -> None:
    exit = Exit(kind=kind, message="", code=137)
    assert meaning_of(exit).reason == spec_of(exit).reason


def test_a_hint_is_given_for_codes_that_every_shell_knows_and_no_others() -> None:
    assert "chmod +x" in known_code(classify(126))
    assert "image" in known_code(classify(127))
    assert [known_code(classify(code)) for code in (0, 1, 2, 139)] == [""] * 4
    assert hint_for(classify(127)) == ""  # what OpenPAI's row says of it is not changed

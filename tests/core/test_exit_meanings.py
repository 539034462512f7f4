"""What people are told of an exit: true and plain for every code, whether or not OpenPAI has a row for it."""

from __future__ import annotations

import pytest

from holdfast.core.exits.exit import Cause, Exit, ExitKind, classify_exit
from holdfast.core.exits.meanings import explain_shell_code, find_meaning
from holdfast.core.exits.table import add_cause, find_hint, find_spec


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (1, "most programs use for any failure"),
        (2, "wrong option or argument"),
        (3, "its own exit code"),
        (126, "cannot be executed"),
        (127, "not found: its name is misspelled, or the image does not include the program"),
        (137, "was killed"),
        (139, "Segmentation fault"),
        (143, "was terminated"),
        (255, "its own exit code"),
    ],
)
def test_each_common_code_is_told_in_plain_words(code: int, words: str) -> None:
    known = find_meaning(classify_exit(code))
    assert words in known.reason
    assert known.solution


@pytest.mark.parametrize("code", range(1, 256))
def test_nothing_claims_to_know_the_log_when_no_cause_was_found(code: int) -> None:
    known = find_meaning(classify_exit(code))
    assert "no rule matches" not in known.reason
    assert known.reason.endswith(".")


def test_a_cause_that_the_log_told_comes_before_the_code() -> None:
    lacking = add_cause(classify_exit(127), Cause.COMMAND_NOT_FOUND.value)
    assert find_meaning(lacking).reason == find_spec(lacking).reason
    assert explain_shell_code(lacking) == ""
    unset = add_cause(classify_exit(1), Cause.UNSET_VARIABLE.value)
    assert find_meaning(unset).reason == "The commands use a variable that is not set."


@pytest.mark.parametrize("kind", sorted(set(ExitKind) - {ExitKind.USER_ERROR}))
def test_what_the_platform_did_keeps_its_own_words(kind: ExitKind) -> None:
    exit = Exit(kind=kind, message="", code=137)
    assert find_meaning(exit).reason == find_spec(exit).reason


def test_a_hint_is_given_for_codes_that_every_shell_knows_and_no_others() -> None:
    assert "chmod +x" in explain_shell_code(classify_exit(126))
    assert "image" in explain_shell_code(classify_exit(127))
    assert [explain_shell_code(classify_exit(code)) for code in (0, 1, 2, 139)] == [""] * 4
    assert find_hint(classify_exit(127)) == ""  # what OpenPAI's row says of it is not changed

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import UserError
from holdfast.services.cursors import CursorCodec

CURSORS = CursorCodec(b"k" * 32)


@given(st.integers(0, 2**63))
def test_a_position_comes_back(position: int) -> None:
    assert CURSORS.decode_cursor(CURSORS.encode_cursor(position)) == position
    assert CURSORS.encode_cursor(position).replace("-", "").replace("_", "").isalnum()


def test_it_does_not_show_the_position() -> None:
    sealed = [CURSORS.encode_cursor(number) for number in range(100)]
    assert len({text[:4] for text in sealed}) > 90
    assert len({text[-4:] for text in sealed}) > 90


@given(st.text())
def test_what_is_made_up_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="This page cursor is not valid"):
        CURSORS.decode_cursor(text)


def test_that_of_another_server_or_with_a_changed_letter_is_refused() -> None:
    sealed = CURSORS.encode_cursor(5)
    other = "A" if sealed[3] != "A" else "B"
    for text in (
        CursorCodec(b"x" * 32).encode_cursor(5),
        sealed[:3] + other + sealed[4:],
        sealed[:-2],
        sealed + sealed,
        "5",
    ):
        with pytest.raises(UserError):
            CURSORS.decode_cursor(text)

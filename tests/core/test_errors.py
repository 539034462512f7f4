from __future__ import annotations

from holdfast.core.errors import sanitize_output


def test_what_a_program_said_moves_no_cursor_when_it_is_quoted() -> None:
    assert sanitize_output("bwrap: für\n\t nichts \n".encode()) == "bwrap: für nichts"
    assert (
        sanitize_output(b"\x1b]52;c;cHduZWQ=\x07\x1b[2J\x00\x9b\xc2\x9b\xe2\x80\xaeevil\r")
        == "?]52;c;cHduZWQ=??[2J?\ufffd??evil"
    )
    assert sanitize_output(b" \n") == ""

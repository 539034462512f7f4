from __future__ import annotations

import unicodedata

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.cli import output

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # other work goes on beside it


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\x9b2J\x7f", "\\x9b2J\\x7f"),
        ("abc\u202edcba", "abc\\u202edcba"),
        ("\ud800", "\\ud800"),
        ("訓練 née 🚀", "訓練 née 🚀"),
        ("[bold]not markup[/bold]", "[bold]not markup[/bold]"),
    ],
)
def test_what_could_steer_a_terminal_is_made_visible(hostile: str, shown: str) -> None:
    assert output.escape(hostile) == shown


@unhurried
@given(st.text())
def test_no_control_character_is_left(text: str) -> None:
    assert not any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in output.escape(text))


@unhurried
@given(st.text())
def test_plain_text_is_left_alone(text: str) -> None:
    if text.isprintable():
        assert output.escape(text) == text


def test_a_table_off_a_terminal_is_whole_and_plain(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    long = "x" * 500
    output.emit_table(("ID", "NAME"), [["1", long], ["22", "\x1b[2Jevil [red]name"]], cut=("NAME",))
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert lines == ["ID  NAME", f"1   {long}", "22  \\x1b[2Jevil [red]name"]


def test_json_is_ascii_and_one_line(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    output.emit_json({"name": "訓\x1b\u202e"})
    assert capfdbinary.readouterr().out == b'{"name": "\\u8a13\\u001b\\u202e"}\n'


def test_hints_are_not_for_scripts(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    output.print_hint("holdfast ls")
    assert capfdbinary.readouterr().err == b""


def test_columns_are_left_out_before_others_become_unreadable() -> None:
    columns, needed, cut, drop = ("ID", "NAME", "USER", "AGE"), (23, 40, 8, 5), ("NAME",), ("USER", "AGE", "ID?")
    assert output._choose_columns(columns, needed, cut, drop, 58) == [0, 1, 2, 3]
    assert output._choose_columns(columns, needed, cut, drop, 57) == [0, 1, 3]
    assert output._choose_columns(columns, needed, cut, drop, 47) == [0, 1]
    assert output._choose_columns(columns, needed, cut, drop, 10) == [0, 1]


def test_columns_that_may_be_cut_share_what_the_others_leave() -> None:
    columns, needed = ("ID", "NAME", "STATE", "MESSAGE"), (20, 30, 9, 100)
    assert output._distribute_width(columns, needed, ("NAME", "MESSAGE"), 1000) == list(needed)
    assert output._distribute_width(columns, needed, ("NAME", "MESSAGE"), 100) == [20, 30, 9, 35]
    assert output._distribute_width(columns, needed, ("NAME", "MESSAGE"), 75) == [20, 20, 9, 20]
    assert output._distribute_width(columns, needed, ("NAME", "MESSAGE"), 10) == [20, 8, 9, 8]

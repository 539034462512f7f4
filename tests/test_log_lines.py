import logging

from holdfast.log_lines import LineFormatter


def line(message: str, **fields: object) -> str:
    record = logging.makeLogRecord({"msg": message, "levelname": "WARNING", **fields})
    return LineFormatter().format(record).split(" ", 2)[2]


def test_fields_follow_the_text() -> None:
    assert line("could not save", event="save", error="The disk is full") == (
        'WARNING could not save  event=save error="The disk is full"'
    )


def test_a_hostile_value_cannot_forge_a_line() -> None:
    assert "\n" not in line("request failed", job="x\n2030-01-01 ERROR all is lost \x1b[2J")

"""Text to values: YAML 1.2, JSON, and lines."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.errors import InvalidJob
from holdfast.jobspec import parse_job
from holdfast.jobspec.document import DocumentNode, parse_document


def value_of(text: str) -> Any:
    return parse_document(f"key: {text}").root.to_plain()["key"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"), ("No", "No"), ("on", "on"), ("off", "off"), ("true", True), ("FALSE", False),
        ("", None), ("~", None), ("null", None), ("NULL", None), ("nUll", "nUll"),
        ("010", 10), ("0o17", 15), ("0x1F", 31), ("-7", -7), ("+7", 7), ("1_000", "1_000"), ("0b11", "0b11"),
        ("1:30", "1:30"), ("1.10", 1.1), (".5", 0.5), ("5.", 5.0), ("1e3", 1000.0), (".inf", ".inf"), (".NaN", ".NaN"),
        ("2024-01-02", "2024-01-02"), ("'1'", "1"), ('"true"', "true"), ("!!str 1", "1"), ("! 1", "1"),
        ("!!int 3", 3), ("!!float 3", 3), ("!!null ~", None), ("=", "="), ("1.2.3", "1.2.3"), ("-", [None]),
        ("[a, 1]", ["a", 1]), ("{on: off}", {"on": "off"}),
        ("{1: a, null: b, ~: c}", {"1": "a", "null": "b", "~": "c"}),
    ],
)  # fmt: skip
def test_plain_words_follow_yaml_1_2(text: str, value: Any) -> None:
    text = "\n- " if text == "-" else text
    got = value_of(text)
    assert got == value
    assert type(got) is type(value)


def test_plain_words_keep_their_spelling() -> None:
    nodes = parse_document("a: 1.10\nb: '1.10'\nc: yes\n").root.value
    assert isinstance(nodes, dict)
    assert [node.source_text for node in nodes.values()] == ["1.10", None, "yes"]


def test_lines_are_those_of_the_keys() -> None:
    root = parse_document("# first\na:\n\n  b: 1\n  c:\n  - x\n  - |\n    text\nd: &d {e: 1}\nf: *d\n").root
    assert _lines(root) == {"a": 2, "a.b": 4, "a.c": 5, "a.c.0": 6, "a.c.1": 7, "d": 9, "d.e": 9, "f": 10, "f.e": 9}


def _lines(node: DocumentNode, path: str = "") -> dict[str, int | None]:
    children = node.value
    entries = (
        children.items() if isinstance(children, dict) else enumerate(children) if isinstance(children, list) else ()
    )
    found: dict[str, int | None] = {}
    for key, child in entries:
        name = f"{path}.{key}" if path else str(key)
        found |= {name: child.line, **_lines(child, name)}
    return found


def test_merged_keys_give_way_to_written_ones() -> None:
    text = "a: &a {x: 1, y: 1}\nb: &b {x: 2, z: 2}\nc: {<<: [*a, *b], y: 3}\nd: {'<<': 4}\n"
    plain = parse_document(text).root.to_plain()
    assert plain["c"] == {"x": 1, "y": 3, "z": 2}
    assert plain["d"] == {"<<": 4}


def test_flow_yaml_is_not_mistaken_for_json() -> None:
    assert parse_document("{name: a, list: [1, 2,],}").root.to_plain() == {"name": "a", "list": [1, 2]}
    assert parse_document('{"a": 1,}').root.to_plain() == {"a": 1}


def test_json_escapes() -> None:
    assert parse_document('{"a": "\\ud83d\\ude00\\/\\u00e9"}').root.to_plain() == {"a": "😀/é"}


def test_duplicates_are_all_found() -> None:
    document = parse_document("a: 1\nb: {c: 1, c: 2}\na: 2\nl:\n- x: 1\n  x: 1\n")
    assert [(problem.field, problem.line) for problem in document.problems] == [("b.c", 2), ("a", 3), ("l[0].x", 6)]


def test_the_same_document_without_libyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    import yaml

    text = "a: &x [1, 'b', *y]\n".replace("*y", "c") + "b: *x\nc: |\n  text\nd: !!str 5\n"
    quick = parse_document(text)
    monkeypatch.setattr("holdfast.jobspec.document._Loader", yaml.SafeLoader)
    assert parse_document(text) == quick


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"a": "NaN",\n"b": NaN}', 2),
        ('{"a": "\\"NaN",\n\n"b": -Infinity}', 3),
        ('{"a": "\\ud83d\\ude00",\n"b": 1e999}', 2),
        ('{"a": 1,\n"b": "\\ud800"}', 2),
        ('{"a": 1,\n"b": "\\u0000"}', 2),
        ('\n{"a": ' + "[" * 70 + "]" * 70 + "}", 2),
        ("", 1),
    ],
)
def test_what_is_wrong_with_json_has_a_line(text: str, line: int) -> None:
    with pytest.raises(InvalidJob) as caught:
        parse_document(text)
    assert [problem.line for problem in caught.value.problems] == [line]


def test_characters_spelled_in_pairs_do_not_hide_lines() -> None:
    with pytest.raises(InvalidJob) as caught:
        parse_job('{"name": "\\\\ud83d\\ud83d\\ude00",\n"command": "x",\n"gpu": -1}')
    assert [(problem.field, problem.line) for problem in caught.value.problems][-1] == ("gpu", 3)


def test_a_line_that_is_indented_too_far_is_told_of_its_indentation() -> None:
    with pytest.raises(InvalidJob) as caught:
        parse_document("name: a\n  command: b\n")
    (problem,) = caught.value.problems
    assert problem.line == 2
    assert "indentation" in (problem.hint or "")

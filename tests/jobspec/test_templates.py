"""References in commands."""

from __future__ import annotations

import pytest

from holdfast.jobspec import fill_secrets, render_templates
from holdfast.jobspec.templates import TemplateFiller

VALUES = {
    "parameters": {
        "text": "a & b < c",
        "deep": {"er": {"x-y": 1}},
        "list": ["zero", {"name": "one"}],
        "none": None,
        "yes": True,
        "escaped": "<% $parameters.text %>",
    },
    "data": {"uri": ["/a", "/b"]},
}


@pytest.mark.parametrize(
    ("written", "filled"),
    [
        ("no tags", "no tags"),
        ("<% $parameters.text %>", "a & b < c"),
        ("<%$parameters.text%>|<%   $parameters.text\n%>", "a & b < c|a & b < c"),
        ("<% $parameters.deep.er.x-y %>", "1"),
        ("<% $parameters.list[0] %> <% $parameters.list.0 %> <% $parameters.list[1].name %>", "zero zero one"),
        ("<% $data.uri[1] %>", "/b"),
        ("[<% $parameters.none %>]", "[]"),
        ("<% $parameters.yes %>", "true"),
        ("<% $data.uri %>", "/a,/b"),
        ("<% $parameters.deep %>", '{"er":{"x-y":1}}'),
        ("<% $parameters.escaped %>", "<% $parameters.text %>"),  # one pass: values are not templates
    ],
)
def test_filled_in(written: str, filled: str) -> None:
    assert render_templates(written, VALUES) == (filled, ())


@pytest.mark.parametrize(
    "reference",
    ["$parameters.nope", "$parameters.list[2]", "$parameters.text.x", "$dockerimage.uri", "parameters.text",
     "# section", "$parameters.list[-1]", "$parameters.list.one", "= 1 + 1", "$", "$parameters..text", ""],
)  # fmt: skip
def test_unresolved_stays_and_is_named(reference: str) -> None:
    written = f"a <% {reference} %> b"
    assert render_templates(written, VALUES) == (written, (reference,))


def test_secrets_wait_for_the_launch() -> None:
    written = "<% $secrets.token %> <% $parameters.yes %>"
    assert render_templates(written, VALUES) == ("<% $secrets.token %> true", ())


@pytest.mark.parametrize(
    "value", ["&", "<b>", "\"q\" 'q'", "$HOME `id` \\", "<% $secrets.other %>", "line\nline", "&amp;"]
)
def test_secrets_arrive_verbatim(value: str) -> None:
    assert fill_secrets("x<% $secrets.a %>y", {"a": value, "other": "never"}) == f"x{value}y"


def test_secrets_may_be_nested() -> None:
    assert fill_secrets("<%$secrets.a.b[0]%>", {"a": {"b": [7]}}) == "7"


def test_what_is_no_secret_stays_literally() -> None:
    written = "<% $secrets.nope %> <% $parameters.x %> <% if %> %> <%"
    assert fill_secrets(written, {"a": "1"}) == written


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1"), (0.1, "0.1"), (1e-4, "0.0001"), (1e-5, "0.00001"), (1.5e-6, "0.0000015"), (1e-7, "1e-7"),
        (-2.5e-5, "-0.000025"), (1e20, "100000000000000000000"), (1e21, "1e+21"), (1.25e22, "1.25e+22"), (10, "10"),
        (1.2345678901234567e-5, "0.000012345678901234568"),
    ],
)  # fmt: skip
def test_numbers_are_written_as_javascript_would(number: float, text: str) -> None:
    assert render_templates("<% $parameters.n %>", {"parameters": {"n": number}}).text == text


def test_what_does_not_resolve_vanishes_where_that_is_asked_for() -> None:
    filler = TemplateFiller({"secrets": {"a": "<% $secrets.b %>", "b": "never"}}, drop=True)
    rendered = filler.render_text("<% $secrets.a %>|<% $secrets.no %>|<% whatever %>|<%=x%>|50% <b>")
    assert rendered.text == "<% $secrets.b %>||||50% <b>"
    assert rendered.unresolved == ("$secrets.no", "whatever", "=x")

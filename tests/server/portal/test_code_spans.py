"""Commands in texts are shown as code; whatever else is in them stays text."""

from __future__ import annotations

import pytest

from holdfast.server.portal.code_spans import render_code_spans
from holdfast.server.portal.translations import get_translations


def test_what_stands_between_backticks_is_code() -> None:
    assert render_code_spans("Log in: `holdfast login`.") == 'Log in: <code translate="no">holdfast login</code>.'


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("<script>`a`</script>", '&lt;script&gt;<code translate="no">a</code>&lt;/script&gt;'),
        ("`<img src=x onerror=y>`", '<code translate="no">&lt;img src=x onerror=y&gt;</code>'),
        ('`" onclick="x`', '<code translate="no">&#34; onclick=&#34;x</code>'),
        ("`</code><b>`", '<code translate="no">&lt;/code&gt;&lt;b&gt;</code>'),
        ("a ` b", "a ` b"),
        ("``", "``"),
        ("`a\nb`", "`a\nb`"),
    ],
)
def test_hostile_text_stays_text(hostile: str, shown: str) -> None:
    assert render_code_spans(hostile) == shown


@pytest.mark.parametrize("code", ["en", "zh-Hans"])
def test_what_services_say_is_escaped_before_it_is_marked(code: str) -> None:
    told = get_translations(code).render_message("Nobody said `<b>x` & <i>y</i>")
    assert '<code translate="no">&lt;b&gt;x</code>' in told
    assert "<b>" not in told
    assert "<i>" not in told


@pytest.mark.parametrize(
    ("text", "ended"), [("It is", "It is."), ("It is.", "It is."), ("Is it?", "Is it?"), ("", ""), ("是。", "是。")]
)
def test_a_sentence_ends_once(text: str, ended: str) -> None:
    assert get_translations("en").end_sentence(text) == ended


def test_chinese_ends_with_its_own_stop() -> None:
    assert get_translations("zh-Hant").end_sentence("是") == "是。"

from __future__ import annotations

import base64
import html
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.codec import MASK
from holdfast.core.masking import (
    MAX_SEARCHED_FORMS,
    SecretMasker,
    iter_maskable_secret_values,
    iter_maskable_variable_values,
)


def test_text_gets_the_usual_mask_whatever_the_length() -> None:
    masker = SecretMasker(["hunter2", "a much longer pass phrase"])
    assert masker.mask_text("with hunter2!") == f"with {MASK}!"
    assert masker.mask_text("(a much longer pass phrase)") == f"({MASK})"
    assert masker.mask_text("nothing ********* here") == "nothing ********* here"


def test_bytes_stay_where_they_are() -> None:
    masker = SecretMasker(["hunter2"])
    assert masker.mask_bytes(b"<hunter2> <hunter2>") == b"<*******> <*******>"


def test_a_value_within_another_does_not_save_the_rest() -> None:
    masker = SecretMasker(["abcd", "abcdefgh"])
    assert masker.mask_text("abcdefgh abcd") == f"{MASK} ****"


@given(st.text(min_size=4).filter(lambda value: len(value.strip()) >= 4), st.binary(), st.binary())
def test_every_known_form_is_hidden(value: str, before: bytes, after: bytes) -> None:
    if any(0xD800 <= ord(letter) < 0xE000 for letter in value):
        return
    masker = SecretMasker([value])
    plain = value.strip()
    for form in (
        plain,
        json.dumps(plain)[1:-1],
        repr(plain)[1:-1],
        quote(plain, safe=""),
        quote_plus(plain),
        base64.b64encode(plain.encode()).decode().rstrip("="),
    ):
        written = before + form.encode() + after
        masked = masker.mask_bytes(written)
        assert len(masked) == len(written)
        assert masked[len(before) : len(before) + len(form.encode())].strip(b"*") == b""


HARD = "p@ss/w(r)d+Zq9!é\"x \\&<y>'\U0001f600"
ENCODE_URI_COMPONENT_SAFE = "!'()*"
ESCAPED = {
    "quote": quote(HARD),
    "quote, lower case": quote(HARD, safe="").replace("%2F", "%2f").replace("%C3%A9", "%c3%a9"),
    "encodeURIComponent": quote(HARD, safe=ENCODE_URI_COMPONENT_SAFE),
    "encodeURI": quote(HARD, safe=ENCODE_URI_COMPONENT_SAFE + ";/?:@&=+$,#"),
    "form": quote_plus(HARD, safe="/@"),
    "quoted twice": quote(quote(HARD)),
    "every byte": "".join(f"%{byte:02x}" for byte in HARD.encode()),
    "repr of bytes": repr(HARD.encode()),
    "ascii": ascii(HARD),
    "repr of repr": repr(repr(HARD)),
    "repr of repr of bytes": repr(repr(HARD.encode())),
    "octal": HARD.encode().replace(b"\\", b"\\\\").decode().replace("é", "\\303\\251"),
    "JSON": json.dumps(HARD),
    "JSON within JSON": json.dumps(json.dumps(HARD)),
    "JSON of a quoted value": json.dumps(quote(HARD, safe='"')),
    "quoted JSON": quote(json.dumps(HARD)),
    "JSON with \\/": json.dumps(HARD).replace("/", "\\/"),
    "JSON with capitals": json.dumps(HARD).replace("u00e9", "u00E9").replace("ud83d", "uD83D"),
    "JSON for HTML": json.dumps(HARD).replace("<", "\\u003c").replace("&", "\\u0026"),
    "JavaScript": json.dumps(HARD, ensure_ascii=False).replace("\U0001f600", "\\u{1F600}"),
    "Python": json.dumps(HARD, ensure_ascii=False).replace("\U0001f600", "\\U0001F600"),
    "HTML": html.escape(HARD),
    "HTML, decimal": html.escape(HARD).replace("&#x27;", "&#039;").replace("é", "&#233;"),
    "HTML, named": html.escape(HARD).replace("&#x27;", "&apos;").replace("é", "&eacute;"),
    "HTML of JSON": html.escape(json.dumps(HARD)),
    "shell": "".join(f"\\{letter}" if letter in "'" + '"\\@()!&<>+ ' else letter for letter in HARD),
}


@pytest.mark.parametrize("kind", ESCAPED)
def test_escaped_values_are_hidden(kind: str) -> None:
    written = f"url=<{ESCAPED[kind]}>".encode()
    masked = SecretMasker([HARD]).mask_bytes(written)
    assert len(masked) == len(written)
    assert masked.startswith(b"url=<")
    assert masked.endswith(b">")
    assert masked[5:-1].replace(b"%22", b"").replace(b"&quot;", b"").strip(b"b'\"\\") == b"*" * masked.count(b"*")
    assert masked.count(b"*") >= len(HARD)


@pytest.mark.parametrize("kind", ESCAPED)
def test_what_the_edge_left_of_an_escaped_value_is_hidden(kind: str) -> None:
    masker = SecretMasker([HARD])
    whole = ESCAPED[kind].encode()
    for cut in range(len(whole) // 4, len(whole) * 3 // 4):
        assert b"Zq9" not in masker.mask_bytes(b"url=" + whole[:cut], cut_end=True)
        assert b"w(r" not in masker.mask_bytes(whole[cut:] + b" end", cut_start=True)


@given(st.text(alphabet='ab%\\\\&;#u0+/é\n"<'))
def test_text_without_the_value_is_unchanged(text: str) -> None:
    masker = SecretMasker(['ZQ/é+XJ"9K', "hunter2"])
    assert masker.mask_text(text) == text
    assert masker.mask_bytes(text.encode(), cut_start=True, cut_end=True) == text.encode()


@given(st.text(alphabet='ab%\\\\&;#ux0+/ é\n"<\U0001f600'), st.text(alphabet='ab%\\\\&é"', min_size=4))
def test_any_text_can_be_masked(text: str, value: str) -> None:
    masker = SecretMasker([value])
    masker.mask_text(text + value)
    assert len(masker.mask_bytes(text.encode(), cut_start=True, cut_end=True)) == len(text.encode())


def test_of_several_lines_each_long_one_is_hidden() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\nshort\n-----END KEY-----"
    assert SecretMasker([key]).mask_text("    MIIEvQIBADANBgkqhkiG9w0BAQ") == f"    {MASK}"


def test_a_value_that_lost_its_beginning_or_end_is_hidden_too() -> None:
    masker = SecretMasker(["0123456789"])
    assert masker.mask_bytes(b"456789 and 0123456", cut_start=True, cut_end=True) == b"****** and *******"
    assert masker.mask_bytes(b"456789 and 0123456") == b"456789 and 0123456"


def test_values_that_are_too_short_are_left_alone() -> None:
    assert list(iter_maskable_secret_values({"a": "abc", "b": {"c": ["abcd", 12345, True, None, 7]}})) == [
        "abcd",
        "12345",
    ]
    assert list(iter_maskable_variable_values({"region": "eu-west", "key": "12345678"})) == ["12345678"]


def test_where_there_are_too_many_everything_is_hidden() -> None:
    masker = SecretMasker(f"value-{n}" for n in range(MAX_SEARCHED_FORMS))
    assert masker.mask_text("anything") == MASK
    assert masker.mask_bytes(b"anything") == b"********"
    assert masker.mask_text("") == ""

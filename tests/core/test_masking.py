from __future__ import annotations

import base64
import json
from urllib.parse import quote, quote_plus

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.codec import MASK
from holdfast.core.masking import MAX_FORMS, SecretMasker, secret_values, variable_values


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


def test_of_several_lines_each_long_one_is_hidden() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\nshort\n-----END KEY-----"
    assert SecretMasker([key]).mask_text("    MIIEvQIBADANBgkqhkiG9w0BAQ") == f"    {MASK}"


def test_a_value_that_lost_its_beginning_or_end_is_hidden_too() -> None:
    masker = SecretMasker(["0123456789"])
    assert masker.mask_bytes(b"456789 and 0123456", cut_start=True, cut_end=True) == b"****** and *******"
    assert masker.mask_bytes(b"456789 and 0123456") == b"456789 and 0123456"


def test_values_that_are_too_short_are_left_alone() -> None:
    assert list(secret_values({"a": "abc", "b": {"c": ["abcd", 12345, True, None, 7]}})) == ["abcd", "12345"]
    assert list(variable_values({"region": "eu-west", "key": "12345678"})) == ["12345678"]


def test_where_there_are_too_many_everything_is_hidden() -> None:
    masker = SecretMasker(f"value-{n}" for n in range(MAX_FORMS))
    assert masker.mask_text("anything") == MASK
    assert masker.mask_bytes(b"anything") == b"********"
    assert masker.mask_text("") == ""

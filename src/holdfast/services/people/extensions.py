"""What clients keep with a user or a group, as JSON. Most of it means nothing to us; what does is checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from holdfast.core.errors import UserError
from holdfast.core.messages import join_messages, msg
from holdfast.launching.keys import is_public_key

MAX_BYTES = 64 * 1024  # as JSON
MAX_KEYS = 100
MAX_DEPTH = 20


def merge(before: Mapping[str, Any], changes: Mapping[str, Any], *, replace: bool) -> dict[str, Any]:
    """Key by key, or anew. A key that is set to null is gone."""
    after = dict(changes) if replace else {**before, **changes}
    return {key: value for key, value in after.items() if value is not None}


def check_extension(extension: Mapping[str, Any]) -> None:
    size = _size(extension)  # first: it is quickly told
    if size > MAX_BYTES:
        raise _bad(
            msg("may have at most {most_bytes} bytes as JSON, this one has {size}", most_bytes=MAX_BYTES, size=size)
        )
    _check_depth(extension, MAX_DEPTH)
    if "sshKeys" in extension:
        _check_keys(extension["sshKeys"])


def _size(extension: Mapping[str, Any]) -> int:
    try:
        return len(json.dumps(extension, allow_nan=False))
    except ValueError:
        raise _bad(msg("may hold finite numbers only")) from None
    except RecursionError:
        raise _too_deep() from None


def _check_depth(value: Any, left: int) -> None:
    if isinstance(value, Mapping | list):
        if not left:
            raise _too_deep()
        for inner in value.values() if isinstance(value, Mapping) else value:
            _check_depth(inner, left - 1)


def _check_keys(keys: Any) -> None:
    """They end up in files of a line per key: a line break in one would be another key."""
    if not isinstance(keys, list) or len(keys) > MAX_KEYS:
        raise _bad(msg("sshKeys is a list of at most {most_keys} keys", most_keys=MAX_KEYS), "extension.sshKeys")
    for number, key in enumerate(keys):
        if not isinstance(key, dict) or not _is_line(key.get("title"), empty=True) or not _is_line(key.get("value")):
            raise _bad(
                msg("every SSH key has a title and a value: the public key, on one line"),
                f"extension.sshKeys[{number}]",
            )
        if not is_public_key(key["value"]):
            said = msg("the value is no public key that OpenSSH reads; it looks like `ssh-ed25519 AAAA... name`")
            raise _bad(said, f"extension.sshKeys[{number}]")
        if not isinstance(key.get("time", 0), int | float | str):
            raise _bad(msg("the time of an SSH key is a number"), f"extension.sshKeys[{number}]")


def _is_line(text: Any, *, empty: bool = False) -> bool:
    return isinstance(text, str) and text.isprintable() and (empty or bool(text.strip()))


def _too_deep() -> UserError:
    return _bad(msg("may be nested at most {deepest} deep", deepest=MAX_DEPTH))


def _bad(what: str, field: str = "extension") -> UserError:
    return UserError(
        join_messages(": ", (field, what)) if field != "extension" else msg("The extension {what}", what=what),
        field=field,
    )

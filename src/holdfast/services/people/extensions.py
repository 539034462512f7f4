"""JSON that clients store with a user or a group. Only the keys that Holdfast uses are validated."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from holdfast.core.errors import UserError
from holdfast.core.messages import join_messages, msg
from holdfast.launching.keys import is_public_key

MAX_EXTENSION_SIZE = 64 * 1024  # as JSON
MAX_SSH_KEYS = 100
MAX_EXTENSION_DEPTH = 20


def merge_extension(before: Mapping[str, Any], changes: Mapping[str, Any], *, replace: bool) -> dict[str, Any]:
    """Merge key by key, or replace. A key set to null is removed."""
    after = dict(changes) if replace else {**before, **changes}
    return {key: value for key, value in after.items() if value is not None}


def check_extension(extension: Mapping[str, Any]) -> None:
    size = _measure_json(extension)  # first: it is cheap
    if size > MAX_EXTENSION_SIZE:
        raise _build_extension_error(
            msg("can have at most {max_bytes} bytes as JSON, but has {size}", max_bytes=MAX_EXTENSION_SIZE, size=size)
        )
    _check_depth(extension, MAX_EXTENSION_DEPTH)
    if "sshKeys" in extension:
        _check_ssh_keys(extension["sshKeys"])


def _measure_json(extension: Mapping[str, Any]) -> int:
    try:
        return len(json.dumps(extension, allow_nan=False))
    except ValueError:
        raise _build_extension_error(msg("can only contain finite numbers")) from None
    except RecursionError:
        raise _build_depth_error() from None


def _check_depth(value: Any, left: int) -> None:
    if isinstance(value, Mapping | list):
        if not left:
            raise _build_depth_error()
        for inner in value.values() if isinstance(value, Mapping) else value:
            _check_depth(inner, left - 1)


def _check_ssh_keys(keys: Any) -> None:
    """Validate SSH keys, which are written one per line: a line break would add another key."""
    if not isinstance(keys, list) or len(keys) > MAX_SSH_KEYS:
        raise _build_extension_error(
            msg("sshKeys must be a list of at most {max_keys} keys", max_keys=MAX_SSH_KEYS), "extension.sshKeys"
        )
    for number, key in enumerate(keys):
        if (
            not isinstance(key, dict)
            or not _is_one_line(key.get("title"), empty=True)
            or not _is_one_line(key.get("value"))
        ):
            raise _build_extension_error(
                msg("every SSH key must have a title and a value, the public key on one line"),
                f"extension.sshKeys[{number}]",
            )
        if not is_public_key(key["value"]):
            message = msg("the value is not a valid OpenSSH public key such as `ssh-ed25519 AAAA... name`")
            raise _build_extension_error(message, f"extension.sshKeys[{number}]")
        if not isinstance(key.get("time", 0), int | float | str):
            raise _build_extension_error(msg("the time of an SSH key must be a number"), f"extension.sshKeys[{number}]")


def _is_one_line(text: Any, *, empty: bool = False) -> bool:
    return isinstance(text, str) and text.isprintable() and (empty or bool(text.strip()))


def _build_depth_error() -> UserError:
    return _build_extension_error(msg("can be nested at most {max_depth} levels deep", max_depth=MAX_EXTENSION_DEPTH))


def _build_extension_error(what: str, field: str = "extension") -> UserError:
    return UserError(
        join_messages(": ", (field, what)) if field != "extension" else msg("The extension {what}", what=what),
        field=field,
    )

"""Options of `holdfast dataset add` and `set` that depend on the kind of dataset."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import typer

from holdfast.core.errors import UserError

NONE = "none"


def infer_kind(kind: str | None, *, nfs: str | None, git: str | None, variables: Path | None) -> str:
    """Return the kind; if it is not given, infer it from the other options."""
    hinted = {"nfs": nfs is not None and nfs != NONE, "git": git is not None, "env": variables is not None}
    found = [name for name, there in hinted.items() if there]
    if kind is None:
        kind = found[0] if found else "folder"
    if any(name != kind for name in found):
        raise typer.BadParameter(f"requires --kind {found[0] if found[0] != kind else found[-1]}", param_hint="--kind")
    return kind


def parse_nfs(text: str) -> dict[str, str]:
    server, colon, path = text.rpartition(":")  # an IPv6 address contains colons
    if not colon or not server or not path.startswith("/"):
        raise typer.BadParameter(f"{text!r} is not SERVER:/PATH", param_hint="--nfs")
    return {"server": server, "path": path}


def merge_git_options(before: Mapping[str, str], **changes: str | None) -> dict[str, str]:
    """Return `before` with the changes that are not None; the value `none` removes a key."""
    after = {**before, **{key: value for key, value in changes.items() if value is not None}}
    return {key: value for key, value in after.items() if value and not (key != "url" and value == NONE)}


def read_variables(file: Path | None) -> dict[str, str] | None:
    """Read lines of NAME=VALUE; skip empty lines and comments. `-` reads stdin."""
    if file is None:
        return None
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
    except OSError as error:
        raise UserError(f"Cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{file} is not UTF-8 text") from None
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, sign, value = line.partition("=")
        if not sign:
            raise UserError(f"Line {number} of {file} is not NAME=VALUE")  # the line can contain a password
        found[name.strip()] = value
    return found

"""What the options of `holdfast dataset add` and `set` say of a dataset's kind."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from holdfast.core.errors import UserError

NONE = "none"


def kind_of(kind: str | None, *, nfs: str | None, git: str | None, variables: Path | None) -> str:
    """As said, or as what is given leads to think."""
    hinted = {"nfs": nfs is not None and nfs != NONE, "git": git is not None, "env": variables is not None}
    found = [name for name, there in hinted.items() if there]
    if kind is None:
        kind = found[0] if found else "folder"
    if any(name != kind for name in found):
        raise typer.BadParameter(f"goes with --kind {found[0] if found[0] != kind else found[-1]}", param_hint="--kind")
    return kind


def nfs_data(text: str) -> dict[str, str]:
    server, colon, path = text.rpartition(":")  # an IPv6 address has colons of its own
    if not colon or not server or not path.startswith("/"):
        raise typer.BadParameter(f"{text!r} is not SERVER:/PATH", param_hint="--nfs")
    return {"server": server, "path": path}


def git_data(
    before: Mapping[str, str], *, url: str | None, branch: str | None, secret: str | None
) -> dict[str, str] | None:
    """What there was, with what is given; `none` takes away. None: nothing is given."""
    given = {"url": url, "branch": branch, "secret": secret}
    if all(value is None for value in given.values()):
        return None
    after = {**before, **{key: value for key, value in given.items() if value is not None}}
    return {key: value for key, value in after.items() if value and not (key != "url" and value == NONE)}


def read_variables(file: Path | None) -> dict[str, str] | None:
    """NAME=VALUE on each line; empty lines and those with # at their beginning do not count. `-` is stdin."""
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
            raise UserError(f"Line {number} of {file} is not NAME=VALUE")  # without the line: it may be a password
        found[name.strip()] = value
    return found


def given(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}

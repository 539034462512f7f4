"""Text for shells: every value in it stands in single quotes, so that it arrives byte for byte."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote


def exports(variables: Mapping[str, str]) -> str:
    return "".join(f"export {name}={quote(value)}\n" for name, value in variables.items())


def write_file(path: str, *texts: str) -> str:
    """A command that writes the texts, one behind the other; `path` is put as it is between double quotes."""
    return f'printf %s {" ".join(map(quote, texts))} >"{path}"\n'

"""Text for shells: every value is in single quotes, so that it arrives byte for byte."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote


def render_exports(variables: Mapping[str, str]) -> str:
    return "".join(f"export {name}={quote(value)}\n" for name, value in variables.items())


def render_write_file(path: str, *texts: str) -> str:
    """Return a command that writes the texts in order; `path` is inserted unquoted between double quotes."""
    return f'printf %s {" ".join(map(quote, texts))} >"{path}"\n'

"""Text for shells: every value is in single quotes, so that it arrives byte for byte."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pkgutil import get_data
from shlex import quote

_PLACEHOLDER_PATTERN = re.compile("@([a-z_]+)@")


def read_script(package: str, name: str) -> str:
    """Read a script of a package. Call it at import: an upgrade may replace the files under a running server."""
    script = get_data(package, f"scripts/{name}")
    assert script is not None  # no loader of ours lacks it
    return script.decode()


def fill_script(script: str, /, **values: object) -> str:
    """Replace each `@name@` by its value, which is not quoted."""
    return _PLACEHOLDER_PATTERN.sub(lambda found: str(values[found[1]]), script)


def render_exports(variables: Mapping[str, str]) -> str:
    return "".join(f"export {name}={quote(value)}\n" for name, value in variables.items())


def render_write_file(path: str, *texts: str) -> str:
    """Return a command that writes the texts in order; `path` is inserted unquoted between double quotes."""
    return f'printf %s {" ".join(map(quote, texts))} >"{path}"\n'

"""Text for shells: every value in it stands in single quotes, so that it arrives byte for byte."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote

# One line of the runtime's own, on stderr, so that a task's output is its own. `say LEVEL WORDS`
SAY = """\
say() {
    if [ -n "${BASH_VERSION-}" ]; then
        printf '[%(%Y-%m-%dT%H:%M:%S%z)T] [openpai-runtime] [%s] %s\\n' -1 "$1" "$2" >&2
    else
        printf '[%s] [openpai-runtime] [%s] %s\\n' "$(date +%Y-%m-%dT%H:%M:%S%z 2>/dev/null)" "$1" "$2" >&2
    fi
}
"""


def exports(variables: Mapping[str, str]) -> str:
    return "".join(f"export {name}={quote(value)}\n" for name, value in variables.items())


def write_file(path: str, *texts: str) -> str:
    """A command that writes the texts, one behind the other; `path` is put as it is between double quotes."""
    return f'printf %s {" ".join(map(quote, texts))} >"{path}"\n'

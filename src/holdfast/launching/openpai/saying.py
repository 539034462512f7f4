"""How the runtime says something in a task's log."""

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


def warning(sentence: str) -> str:
    """A command, for a script that has `say`."""
    return f"say WARN {quote(sentence)}\n"

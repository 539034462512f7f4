"""Log lines of the runtime in a task's log."""

from shlex import quote

from ..shell import read_script

SAY_FUNCTION = read_script(__package__, "say_function.sh")


def render_warning(sentence: str) -> str:
    """Return a command for a script with `say`."""
    return f"say WARN {quote(sentence)}\n"

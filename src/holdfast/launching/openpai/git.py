"""The plugin `git`: a repository cloned before the commands run."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote, split
from typing import Any

from ..context import LaunchContext
from .entry import PluginStep
from .log_messages import SAY_FUNCTION
from .parameters import get_lines, get_text
from .variables import TaskContext

MAX_TRIES = 10
MAX_RETRY_INTERVAL = 30  # seconds; starts at 1 and doubles


def make_git_step(scene: TaskContext, context: LaunchContext, parameters: Mapping[str, Any]) -> PluginStep:
    options = [word for option in get_lines(parameters, "options") for word in _split_option(option)]
    script = _CLONE_SCRIPT.format(
        options="".join(f" {quote(word)}" for word in options),
        repository=quote(get_text(parameters, "repo_uri")),
        target=quote(get_text(parameters, "clone_dir")) if parameters.get("clone_dir") else "$code",
        tries=MAX_TRIES,
        longest=MAX_RETRY_INTERVAL,
    )
    return PluginStep(plugin="git", before=SAY_FUNCTION + script)


def _split_option(option: str) -> list[str]:
    """Split an option: `--depth 1` is two words."""
    try:
        return split(option)
    except ValueError:
        return [option]


_CLONE_SCRIPT = """\
code=$PAI_RUNTIME_DIR/code
target={target}
case $target in
"~" | "~/"*) target=$HOME${{target#"~"}} ;;
esac
if ! command -v git >/dev/null; then
    say ERROR 'The runtime plugin git needs git, which is not in the image.'
    exit 1
fi
if [ -e "$target" ] && {{ [ ! -d "$target" ] || [ -n "$(ls -A "$target")" ]; }}; then
    say ERROR "The runtime plugin git cannot clone to $target: it already exists."
    exit 1
fi
export GIT_TERMINAL_PROMPT=0
try=1
pause=1
while :; do
    rm -rf "$code"
    ! git clone{options} -- {repository} "$code" >&2 || break
    if [ "$try" -ge {tries} ]; then
        say ERROR 'Cannot clone the repository; no retries are left.'
        exit 1
    fi
    say WARN "Cannot clone the repository; retrying in $pause seconds."
    sleep "$pause"
    try=$((try + 1))
    pause=$((pause * 2 < {longest} ? pause * 2 : {longest}))
done
if [ "$target" != "$code" ]; then
    mkdir -p "$target"
    rmdir "$target"
    mv "$code" "$target"
fi
"""

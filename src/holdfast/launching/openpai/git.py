"""The plugin `git`: a repository cloned before the commands run."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote, split
from typing import Any

from ..context import LaunchContext
from .entry import Step
from .parameters import lines_of, text_of
from .saying import SAY
from .variables import Scene

TRIES = 10
MAX_INTERVAL = 30  # seconds; the first is 1, and each twice the one before


def git_step(scene: Scene, surroundings: LaunchContext, parameters: Mapping[str, Any]) -> Step:
    options = [word for option in lines_of(parameters, "options") for word in _words(option)]
    script = _CLONE.format(
        options="".join(f" {quote(word)}" for word in options),
        repository=quote(text_of(parameters, "repo_uri")),
        target=quote(text_of(parameters, "clone_dir")) if parameters.get("clone_dir") else "$code",
        tries=TRIES,
        longest=MAX_INTERVAL,
    )
    return Step(plugin="git", before=SAY + script)


def _words(option: str) -> list[str]:
    """`--depth 1` is two of them."""
    try:
        return split(option)
    except ValueError:
        return [option]


_CLONE = """\
code=$PAI_RUNTIME_DIR/code
target={target}
case $target in
"~" | "~/"*) target=$HOME${{target#"~"}} ;;
esac
if ! command -v git >/dev/null; then
    say ERROR 'The runtime plugin git needs git in the image, and there is none.'
    exit 1
fi
if [ -e "$target" ] && {{ [ ! -d "$target" ] || [ -n "$(ls -A "$target")" ]; }}; then
    say ERROR "The runtime plugin git cannot clone to $target: something is there already."
    exit 1
fi
export GIT_TERMINAL_PROMPT=0
try=1
pause=1
while :; do
    rm -rf "$code"
    ! git clone{options} -- {repository} "$code" >&2 || break
    if [ "$try" -ge {tries} ]; then
        say ERROR 'The repository could not be cloned; this was the last try.'
        exit 1
    fi
    say WARN "The repository could not be cloned; trying again in $pause seconds."
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

"""The plugin `git`: a repository cloned before the commands run."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote, split
from typing import Any

from ..context import LaunchContext
from ..shell import fill_script, read_script
from .entry import PluginStep
from .log_messages import SAY_FUNCTION
from .parameters import get_lines, get_text
from .variables import TaskContext

MAX_TRIES = 10
MAX_RETRY_INTERVAL = 30  # seconds; starts at 1 and doubles


def make_git_step(scene: TaskContext, context: LaunchContext, parameters: Mapping[str, Any]) -> PluginStep:
    options = [word for option in get_lines(parameters, "options") for word in _split_option(option)]
    script = fill_script(
        _CLONE_SCRIPT,
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


_CLONE_SCRIPT = read_script(__package__, "clone.sh")

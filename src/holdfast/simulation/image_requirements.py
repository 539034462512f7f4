"""Programs and files that a script needs from its image, before its commands can have installed or created them."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass, field

from .shell_parser import Script, SimpleCommand, Word, parse_script

# They install programs or change PATH: later requirements cannot be checked in advance.
_INSTALLERS = frozenset(
    {
        "apt", "apt-get", "aptitude", "dpkg", "yum", "dnf", "microdnf", "rpm", "apk", "zypper", "pacman", "brew",
        "snap", "conda", "mamba", "micromamba", "pip", "pip3", "pipx", "uv", "poetry", "npm", "yarn", "pnpm", "cargo",
        "go", "gem", "make", "cmake", "ninja", "curl", "wget", "git", "tar", "unzip", "cp", "mv", "ln", "install",
        "chmod", "bash", "sh", ".", "source", "eval", "hdfs", "aws", "gsutil", "azcopy", "rsync", "scp", "alias",
        "module", "spack",
    }
)  # fmt: skip
# They create no files that a later command could run.
_HARMLESS_COMMANDS = frozenset(
    {
        "echo", "printf", "export", "set", "unset", "cd", "ls", "pwd", "env", "printenv", "date", "hostname", "sleep",
        "true", "false", ":", "test", "[", "which", "type", "command", "hash", "id", "whoami", "uname", "nvidia-smi",
        "df", "free", "ulimit", "umask", "cat", "trap", "wait", "kill", "ps", "nproc", "lscpu", "head", "tail", "grep",
        "apt", "apt-get", "pip", "pip3", "conda",
    }
)  # fmt: skip
_WRAPPERS = frozenset({"exec", "nohup", "setsid", "sudo", "time", "builtin"})  # followed by a command
_LOOKUP_COMMANDS = frozenset({"command", "which", "type", "hash"})
_INTERPRETERS = frozenset(
    {
        "bash", "sh", "dash", "zsh", "source", ".", "python", "python2", "python3", "pypy3", "node", "perl", "ruby",
        "Rscript", "julia", "lua",
    }
)  # fmt: skip


@dataclass(slots=True)
class ImageRequirements:
    programs: dict[str, None] = field(default_factory=dict)
    files: dict[str, None] = field(default_factory=dict)
    folders: dict[str, None] = field(default_factory=dict)


def find_requirements(text: str, *, brought: bool = False) -> ImageRequirements:
    """Return the requirements of a script. `brought`: earlier commands may have created files."""
    script = parse_script(text)
    walk = _RequirementScanner(script, brought)
    for command in script.commands:
        walk.scan_command(command)
    return walk.requirements


class _RequirementScanner:
    def __init__(self, script: Script, brought: bool) -> None:
        self.requirements = ImageRequirements()
        self.functions = script.functions
        self.guarded = {word for command in script.commands for word in _iter_tested_names(command)}
        self.programs_known = True
        self.files_known = not brought
        self.folder = ""  # "": the start folder of the task; otherwise a path as written

    def scan_command(self, command: SimpleCommand) -> None:
        words = _strip_wrappers(command.words)
        name = words[0].text if words and words[0].literal else ""
        if name and not command.optional and name not in self.functions:
            self._add_program_requirement(name, words)
        self._update_state(name, words, command)

    def _add_program_requirement(self, name: str, words: list[Word]) -> None:
        if "/" in name:
            self._add_path_requirement(self.requirements.files, name)
        elif self.programs_known and name not in self.guarded and _is_program_name(name):
            self.requirements.programs[name] = None
        script = _find_script(name, words)
        if script is not None and script not in self.guarded:
            self._add_path_requirement(self.requirements.files, script)
        if name == "cd" and len(words) == 2 and words[1].literal and words[1].text not in ("-", ""):
            self._add_path_requirement(self.requirements.folders, words[1].text)

    def _add_path_requirement(self, wanted: dict[str, None], path: str) -> None:
        if self.files_known and path not in self.guarded and not path.startswith(("/dev/", "/proc/")):
            wanted[path if path.startswith("/") else posixpath.join(self.folder, path)] = None

    def _update_state(self, name: str, words: list[Word], command: SimpleCommand) -> None:
        if "PATH" in command.assigned_variables or (
            words and (name in _INSTALLERS or not name or _is_path_assignment(name, words))
        ):
            self.programs_known = False
        if words and (name not in _HARMLESS_COMMANDS or command.write_targets):
            self.files_known = False
        if name == "cd":
            if len(words) == 2 and words[1].literal and not command.optional:
                self.folder = posixpath.join(self.folder, words[1].text)
            else:
                self.files_known = False


def _is_path_assignment(name: str, words: Iterable[Word]) -> bool:
    return name in ("export", "declare") and any(word.text.startswith("PATH=") for word in words)


def _strip_wrappers(words: list[Word]) -> list[Word]:
    while len(words) > 1 and words[0].literal and words[0].text in _WRAPPERS and not words[1].text.startswith("-"):
        words = words[1:]
    return words


def _iter_tested_names(command: SimpleCommand) -> Iterable[str]:
    """Return names that the script itself tests: they can be missing."""
    if command.name in _LOOKUP_COMMANDS or command.name in ("[", "test"):
        yield from (word.text for word in command.words[1:] if word.literal)


def _is_program_name(name: str) -> bool:
    return not name.startswith("-") and all(char.isalnum() or char in "._+-[:" for char in name)


def _find_script(name: str, words: list[Word]) -> str | None:
    """`python -u train.py --lr 1` -> train.py; None if it runs no script, or an unknown one."""
    if name not in _INTERPRETERS:
        return None
    for word in words[1:]:
        if not word.literal:
            return None
        if word.text.startswith("-"):
            if name in (".", "source") or word.text in ("-u", "-B", "-O", "-x", "-e", "-ex", "-s", "-E", "-l"):
                continue
            return None  # -c, -m, and options with a value
        return word.text
    return None

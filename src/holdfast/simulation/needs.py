"""What a script needs of its image: programs and files that it names before anything could have brought them."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass, field

from .shell_text import Script, Simple, Word, read_script

# They bring programs, or change where programs are found: what comes after cannot be known beforehand.
_BRINGERS = frozenset(
    {
        "apt", "apt-get", "aptitude", "dpkg", "yum", "dnf", "microdnf", "rpm", "apk", "zypper", "pacman", "brew",
        "snap", "conda", "mamba", "micromamba", "pip", "pip3", "pipx", "uv", "poetry", "npm", "yarn", "pnpm", "cargo",
        "go", "gem", "make", "cmake", "ninja", "curl", "wget", "git", "tar", "unzip", "cp", "mv", "ln", "install",
        "chmod", "bash", "sh", ".", "source", "eval", "hdfs", "aws", "gsutil", "azcopy", "rsync", "scp", "alias",
        "module", "spack",
    }
)  # fmt: skip
# They make no files that a later command could run.
_HARMLESS = frozenset(
    {
        "echo", "printf", "export", "set", "unset", "cd", "ls", "pwd", "env", "printenv", "date", "hostname", "sleep",
        "true", "false", ":", "test", "[", "which", "type", "command", "hash", "id", "whoami", "uname", "nvidia-smi",
        "df", "free", "ulimit", "umask", "cat", "trap", "wait", "kill", "ps", "nproc", "lscpu", "head", "tail", "grep",
        "apt", "apt-get", "pip", "pip3", "conda",
    }
)  # fmt: skip
_BEFORE = frozenset({"exec", "nohup", "setsid", "sudo", "time", "builtin"})  # and then a command
_LOOKERS = frozenset({"command", "which", "type", "hash"})
_INTERPRETERS = frozenset(
    {
        "bash", "sh", "dash", "zsh", "source", ".", "python", "python2", "python3", "pypy3", "node", "perl", "ruby",
        "Rscript", "julia", "lua",
    }
)  # fmt: skip


@dataclass(slots=True)
class Needs:
    programs: dict[str, None] = field(default_factory=dict)
    files: dict[str, None] = field(default_factory=dict)
    folders: dict[str, None] = field(default_factory=dict)


def find_needs(text: str, *, brought: bool = False) -> Needs:
    """`brought`: something ran before that may have brought files."""
    script = read_script(text)
    walk = _Walk(script, brought)
    for command in script.commands:
        walk.look(command)
    return walk.needs


class _Walk:
    def __init__(self, script: Script, brought: bool) -> None:
        self.needs = Needs()
        self.functions = script.functions
        self.guarded = {word for command in script.commands for word in _looked_for(command)}
        self.programs_known = True
        self.files_known = not brought
        self.folder = ""  # "": where the task begins; otherwise a path as it was written

    def look(self, command: Simple) -> None:
        words = _after_wrappers(command.words)
        name = words[0].text if words and words[0].literal else ""
        if name and not command.optional and name not in self.functions:
            self._want(name, words)
        self._follow(name, words, command)

    def _want(self, name: str, words: list[Word]) -> None:
        if "/" in name:
            self._want_path(self.needs.files, name)
        elif self.programs_known and name not in self.guarded and _is_program(name):
            self.needs.programs[name] = None
        script = _script_of(name, words)
        if script is not None and script not in self.guarded:
            self._want_path(self.needs.files, script)
        if name == "cd" and len(words) == 2 and words[1].literal and words[1].text not in ("-", ""):
            self._want_path(self.needs.folders, words[1].text)

    def _want_path(self, wanted: dict[str, None], path: str) -> None:
        if self.files_known and path not in self.guarded and not path.startswith(("/dev/", "/proc/")):
            wanted[path if path.startswith("/") else posixpath.join(self.folder, path)] = None

    def _follow(self, name: str, words: list[Word], command: Simple) -> None:
        if "PATH" in command.sets or (words and (name in _BRINGERS or not name or _sets_path(name, words))):
            self.programs_known = False
        if words and (name not in _HARMLESS or command.writes):
            self.files_known = False
        if name == "cd":
            if len(words) == 2 and words[1].literal and not command.optional:
                self.folder = posixpath.join(self.folder, words[1].text)
            else:
                self.files_known = False


def _sets_path(name: str, words: Iterable[Word]) -> bool:
    return name in ("export", "declare") and any(word.text.startswith("PATH=") for word in words)


def _after_wrappers(words: list[Word]) -> list[Word]:
    while len(words) > 1 and words[0].literal and words[0].text in _BEFORE and not words[1].text.startswith("-"):
        words = words[1:]
    return words


def _looked_for(command: Simple) -> Iterable[str]:
    """Names that the script itself asks after: it knows that they may be missing."""
    if command.name in _LOOKERS or command.name in ("[", "test"):
        yield from (word.text for word in command.words[1:] if word.literal)


def _is_program(name: str) -> bool:
    return not name.startswith("-") and all(char.isalnum() or char in "._+-[:" for char in name)


def _script_of(name: str, words: list[Word]) -> str | None:
    """`python -u train.py --lr 1` -> train.py; None where it runs something else, or it cannot be told."""
    if name not in _INTERPRETERS:
        return None
    for word in words[1:]:
        if not word.literal:
            return None
        if word.text.startswith("-"):
            if name in (".", "source") or word.text in ("-u", "-B", "-O", "-x", "-e", "-ex", "-s", "-E", "-l"):
                continue
            return None  # -c, -m, and options that take a value
        return word.text
    return None

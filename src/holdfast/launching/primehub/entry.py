"""The script that runs in place of a PrimeHub job's command: it creates links, reads the group's profile, and executes
the command.

It is written for any POSIX shell. Its own variables begin with __. It runs inside the sandbox: neither the image nor
files of other members in the group's volume can make it touch anything outside. Without a sandbox it only changes the
job's own folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from shlex import quote

from ..shell import fill_script, read_script
from ..volumes import VOLUMES_FOLDER


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryScript:
    """Paths inside the task; empty: there is no such folder."""

    isolated: bool
    sudo: bool
    volume: str
    files: str
    group: str
    home_link: str  # name of the link in the home to the volume; empty: none
    datasets: tuple[tuple[str, str], ...] = ()  # (name, path)
    notes: tuple[str, ...] = ()  # logged before anything runs


def render_entry_script(entry: EntryScript) -> str:
    parts = [
        _HEAD_SCRIPT,
        *(f"__say {quote(note)}\n" for note in entry.notes),
        *_render_datasets(entry),
        *_render_home_links(entry),
        _LDCONFIG_SCRIPT if entry.isolated else "",
        *_render_sudo(entry),
        *_render_profile(entry),
        _RUN_SCRIPT,
    ]
    return "".join(parts)


def _render_datasets(entry: EntryScript) -> Iterator[str]:
    yield _FIND_FOLDER_SCRIPT if entry.isolated else _CREATE_DATASETS_FOLDER_SCRIPT
    yield from _render_links((place, f'"$__datasets"/{quote(name)}') for name, place in entry.datasets)


def _render_home_links(entry: EntryScript) -> Iterable[str]:
    found = []
    if entry.home_link:
        found.append((entry.volume, f'"$__home"/{quote(entry.home_link)}'))
    if entry.files:
        found.append((entry.files, '"$__home"/phfs'))
    named = f"{VOLUMES_FOLDER}/{entry.group}"
    if entry.isolated and entry.volume and entry.volume != named:
        found.append((entry.volume, quote(named)))  # scripts use /project/$GROUP_NAME
    return _render_links(found)


def _render_links(wanted: Iterable[tuple[str, str]]) -> Iterator[str]:
    for place, link in wanted:
        yield f"__link {quote(place)} {link}\n"


def _render_sudo(entry: EntryScript) -> Iterator[str]:
    if entry.sudo:
        yield fill_script(_GRANT_SUDO_SCRIPT, script=quote(SUDO_SCRIPT)) if entry.isolated else ""
        yield _REPORT_SUDO_SCRIPT


def _render_profile(entry: EntryScript) -> Iterator[str]:
    if entry.volume:
        if not entry.isolated:
            yield 'export PRIMEHUB_PHFS_PATH="$__home/phfs"\n'
        yield fill_script(_PROFILE_SCRIPT, path=quote(f"{entry.volume}/.primehub/profile"))


SUDO_SCRIPT = read_script(__package__, "sudo.sh")
_HEAD_SCRIPT = read_script(__package__, "head.sh")
_FIND_FOLDER_SCRIPT = read_script(__package__, "find_datasets_folder.sh")

_CREATE_DATASETS_FOLDER_SCRIPT = """\
__datasets=$__home/datasets
mkdir -p "$__datasets"
"""

# The libraries of the machine's GPU driver may be mounted.
_LDCONFIG_SCRIPT = """\
PATH=$PATH:/sbin:/usr/sbin ldconfig 2>/dev/null
"""

_GRANT_SUDO_SCRIPT = read_script(__package__, "grant_sudo.sh")

# Only root can become root: otherwise it would not work. Some shells find files that are not executable.
_REPORT_SUDO_SCRIPT = """\
if [ "$__uid" != 0 ] || [ ! -x "$(command -v sudo)" ]; then
    export GRANT_SUDO=false
fi
"""

_PROFILE_SCRIPT = read_script(__package__, "profile.sh")

_RUN_SCRIPT = """\
cd "$__home" || exit 1
exec "$__shell" "$__script"
"""

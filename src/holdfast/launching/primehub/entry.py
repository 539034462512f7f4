"""The script that runs in place of a PrimeHub job's command: it lays out links, reads the group's profile, and becomes
the command.

It is written for any POSIX shell. Its own variables begin with __. It runs inside the sandbox: neither what the image
holds nor what other members left in the group's volume can make it touch anything outside. Where there is no sandbox it
changes nothing but the job's own folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from shlex import quote

from ..volumes import VOLUMES
from .sudo import SUDO

DATASETS = "/datasets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Paths as the task sees them; empty: there is no such folder."""

    isolated: bool
    sudo: bool
    volume: str
    files: str
    group: str
    home_link: str  # what the link in the home that leads to the volume is called; empty: there is to be none
    datasets: tuple[tuple[str, str], ...] = ()  # (name, where it is)
    notes: tuple[str, ...] = ()  # to be said before anything runs


def render_entry(entry: Entry) -> str:
    parts = [
        _HEAD,
        *(f"__say {quote(note)}\n" for note in entry.notes),
        *_datasets(entry),
        *_home_links(entry),
        _SYSTEM if entry.isolated else "",
        *_sudo(entry),
        *_profile(entry),
        _RUN,
    ]
    return "".join(parts)


def _datasets(entry: Entry) -> Iterator[str]:
    yield _FIND_PLACE if entry.isolated else _HOME_PLACE
    yield from _links((place, f'"$__datasets"/{quote(name)}') for name, place in entry.datasets)


def _home_links(entry: Entry) -> Iterable[str]:
    found = []
    if entry.home_link:
        found.append((entry.volume, f'"$__home"/{quote(entry.home_link)}'))
    if entry.files:
        found.append((entry.files, '"$__home"/phfs'))
    named = f"{VOLUMES}/{entry.group}"
    if entry.isolated and entry.volume and entry.volume != named:
        found.append((entry.volume, quote(named)))  # scripts write /project/$GROUP_NAME
    return _links(found)


def _links(wanted: Iterable[tuple[str, str]]) -> Iterator[str]:
    for place, link in wanted:
        yield f"__link {quote(place)} {link}\n"


def _sudo(entry: Entry) -> Iterator[str]:
    if entry.sudo:
        yield _GIVE_SUDO.format(script=quote(SUDO)) if entry.isolated else ""
        yield _TELL_SUDO


def _profile(entry: Entry) -> Iterator[str]:
    if entry.volume:
        if not entry.isolated:
            yield 'export PRIMEHUB_PHFS_PATH="$__home/phfs"\n'
        yield _PROFILE.format(path=quote(f"{entry.volume}/.primehub/profile"))


# Options that the environment gives to bash are for the command.
_HEAD = """\
set +eu
__script=$1
__shell=${BASH:-/bin/sh}
__home=$PWD
__uid=${EUID:-$(id -u 2>/dev/null)}
__say() {
    printf '[primehub] %s\\n' "$1" >&2
}
# An empty folder, or a link, makes way; anything else was put there by the image, and stays.
__link() {
    [ ! -L "$2" ] || rm -f "$2" 2>/dev/null
    [ ! -d "$2" ] || rmdir "$2" 2>/dev/null
    if [ -e "$2" ] || [ -L "$2" ]; then
        __why='something else is there'
    elif ! command -v ln >/dev/null; then
        __why='there is no program ln in the image'
    elif ! ln -s "$1" "$2" 2>/dev/null; then
        __why='nothing can be written there'
    else
        return
    fi
    __say "$2 cannot be made to lead to $1: $__why."
}
"""

# Where the root filesystem cannot be changed, the links are in the home.
_FIND_PLACE = f"""\
__datasets={DATASETS}
if {{ [ -d {DATASETS} ] || mkdir -p {DATASETS} 2>/dev/null; }} && [ -w {DATASETS} ]; then
    __link {DATASETS} "$__home/datasets"
else
    __datasets=$__home/datasets
    if mkdir -p "$__datasets" 2>/dev/null; then
        __say '{DATASETS} cannot be made here; what would be in it is in datasets in your home.'
    else
        __why='nothing can be written there'
        command -v mkdir >/dev/null || __why='there is no program mkdir in the image'
        __say "Neither {DATASETS} nor datasets in your home can be made: $__why."
    fi
fi
"""

_HOME_PLACE = """\
__datasets=$__home/datasets
mkdir -p "$__datasets"
"""

# Libraries of the machine's GPU driver may have come in.
_SYSTEM = """\
PATH=$PATH:/sbin:/usr/sbin ldconfig 2>/dev/null
"""

_GIVE_SUDO = """\
if [ "$__uid" = 0 ] && ! command -v sudo >/dev/null && command -v chmod >/dev/null; then
    for __place in /usr/bin /usr/local/bin /run/primehub; do
        [ -d "$__place" ] || mkdir -p "$__place" 2>/dev/null
        if printf %s {script} >"$__place/sudo" && chmod 0755 "$__place/sudo"; then
            command -v sudo >/dev/null || PATH=$PATH:$__place
            break
        fi 2>/dev/null
    done
fi
"""

# Only root can become root: elsewhere it would be a promise that nothing keeps. Some shells find what cannot be run.
_TELL_SUDO = """\
if [ "$__uid" != 0 ] || [ ! -x "$(command -v sudo)" ]; then
    export GRANT_SUDO=false
fi
"""

_PROFILE = """\
if [ -f {path} ]; then
    __say 'group profile: '{path}
    . {path}
else
    echo 'group profile not found' >&2
fi
"""

_RUN = """\
cd "$__home" || exit 1
exec "$__shell" "$__script"
"""

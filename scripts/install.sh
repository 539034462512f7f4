#!/bin/sh
# Creates .venv and installs Holdfast in it.
#
#   install.sh run    the dependencies of the server and the command
#   install.sh dev    also the tools for development
#
# A second run without changes ends immediately. The next run completes an interrupted installation.
# PYTHON=/path/to/python3 chooses the interpreter; the default is the first usable one of 3.11 or newer.
set -eu

kind=${1:-run}
cd "$(dirname "$0")/.."
venv=.venv
log=build/install.log
candidates="${PYTHON:-} python3 python3.13 python3.12 python3.11 /usr/bin/python3 /usr/local/bin/python3"

main() {
    case $kind in
        run) extras=postgres ;;
        dev) extras=postgres,dev ;;
        *) fail "install.sh knows 'run' and 'dev', not '$kind'." ;;
    esac
    # Part of every stamp: a change of the dependencies or of the folder's path requires a new installation.
    stamp="$(cat pyproject.toml packages/*/pyproject.toml constraints.txt | cksum) $(pwd -P)"
    if is_current "$kind"; then
        return 0
    fi
    mkdir -p build 2>/dev/null && [ -w . ] || fail "This folder ($(pwd)) cannot be written by $(id -un)." \
        "Clone Holdfast into a folder of your own, or change this one's owner."
    acquire_lock
    if is_current "$kind"; then # another process completed it meanwhile
        return 0
    fi
    make_venv
    : >"$venv/.unfinished"
    install_packages
    rm -f "$venv/.unfinished"
    for installed_kind in run "$kind"; do
        printf '%s\n' "$stamp" >"$venv/.installed-$installed_kind.new"
        mv "$venv/.installed-$installed_kind.new" "$venv/.installed-$installed_kind"
    done
}

print_line() { printf '%s\n' "$*"; }

fail() {
    printf '\nError: %s\n' "$1" >&2
    shift
    for line in "$@"; do printf '  %s\n' "$line" >&2; done
    exit 1
}

is_current() {
    [ "$(cat "$venv/.installed-$1" 2>/dev/null)" = "$stamp" ] && "$venv/bin/python" -c '' 2>/dev/null
}

acquire_lock() {
    command -v flock >/dev/null 2>&1 || return 0
    exec 9>build/install.lock
    if ! flock -n 9; then
        print_line "Another installation is running; waiting for it."
        flock 9
    fi
}

# --- the interpreter

make_venv() {
    if [ -e "$venv/.unfinished" ]; then
        print_line "The last installation was interrupted; starting over"
    elif "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null &&
        "$venv/bin/python" -m pip --version >/dev/null 2>&1 &&
        [ "$("$venv/bin/python" -c 'import sys; print(sys.prefix)')" = "$(pwd -P)/$venv" ]; then
        return 0
    fi
    choose_python
    print_line "Creating a virtual environment in $venv with $("$python" -c 'import sys; print(sys.executable, sys.version.split()[0])')"
    if [ "$pip_source" = ensurepip ]; then
        "$python" -m venv --clear "$venv" >"$log" 2>&1 || fail_with_log "The virtual environment could not be made."
    else
        "$python" -m venv --clear --without-pip "$venv" >"$log" 2>&1 || fail_with_log "The virtual environment could not be made."
        "$python" -m pip --python "$venv/bin/python" install pip >>"$log" 2>&1 || fail_with_log "pip could not be installed."
    fi
}

# Sets `python`, and `pip_source`: what installs pip in the environment.
choose_python() {
    find_python && return 0
    if [ -n "$python_without_venv" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        print_line "Installing Debian's $(print_venv_package) package, which $python_without_venv needs to make virtual environments"
        apt_install "$(print_venv_package)" || fail_with_log "apt-get could not install $(print_venv_package)."
        find_python && return 0
    fi
    [ -z "$python_without_venv" ] || fail "$python_without_venv cannot make virtual environments: a package is missing." \
        "On Debian or Ubuntu, run:  sudo apt-get install -y $(print_venv_package)" "Then try again."
    fail "Holdfast needs Python 3.11 or newer, and none was found (looked for:$(printf ' %s' $candidates))." \
        "On Debian 12+ or Ubuntu 24.04+, run:  sudo apt-get install -y python3 python3-venv" \
        "Elsewhere, install it and name it:     make install PYTHON=/path/to/python3"
}

# Root prefers an interpreter that all users can execute: with one in root's home, only root could use .venv.
find_python() {
    if [ -z "${PYTHON:-}" ] && [ "$(id -u)" = 0 ] && try_candidates executable_by_all; then
        return 0
    fi
    try_candidates
}

try_candidates() {
    python_without_venv=
    for python in $candidates; do
        "$python" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
        [ $# = 0 ] || is_executable_by_all || continue
        pip_source=ensurepip
        "$python" -c 'import ensurepip; ensurepip.version()' 2>/dev/null && return 0
        pip_source=pip
        "$python" -m pip --python "$python" --version >/dev/null 2>&1 && return 0
        python_without_venv=${python_without_venv:-$python}
    done
    return 1
}

is_executable_by_all() {
    "$python" -c '
import os, pathlib, sys
sys.exit(not all(os.stat(folder).st_mode & 1 for folder in pathlib.Path(os.path.realpath(sys.executable)).parents))'
}

print_venv_package() {
    "$python_without_venv" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'
}

apt_install() {
    export DEBIAN_FRONTEND=noninteractive
    apt-get install -y --no-install-recommends "$1" >"$log" 2>&1 && return 0
    apt-get update >>"$log" 2>&1 && apt-get install -y --no-install-recommends "$1" >>"$log" 2>&1
}

# --- the packages

install_packages() {
    print_line "Installing Holdfast and its dependencies ($kind); the first run downloads packages and takes a while"
    began=$(date +%s)
    # Pinned tools first: a new pip is twice as fast, and with an installed build backend pip needs no second
    # environment for it.
    pip_install pip setuptools
    pip_install --no-build-isolation --editable packages/paipdb --editable ".[$extras]"
    print_line "Installed in $(($(date +%s) - began)) s"
}

# Without compilation, which takes a quarter of the time: Python compiles modules when it imports them.
pip_install() {
    {
        PIP_DISABLE_PIP_VERSION_CHECK=1 "$venv/bin/python" -m pip install --no-input --no-compile --progress-bar off \
            --constraint constraints.txt "$@" 2>&1
        echo "exit $?"
    } | tee "$log" | show_progress
    [ "$(tail -n 1 "$log")" = "exit 0" ] || fail_with_log "pip could not install everything." \
        "If the machine has no way to a package index, give pip one (pip config), or a folder of wheels (PIP_FIND_LINKS)."
}

# Shows one changing line on a terminal, and nothing in a log file.
show_progress() {
    count=0
    while read -r verb name _; do
        if [ "$verb" = Collecting ] && [ -t 1 ]; then
            count=$((count + 1))
            printf '\r\033[K  %d: %s' "$count" "$name"
        fi
    done
    [ "$count" = 0 ] || printf '\r\033[K'
}

fail_with_log() {
    message=$1
    shift
    printf '\n--- the end of %s:\n' "$log" >&2
    tail -n 15 "$log" >&2
    fail "$message" "All of it is in $log." "$@"
}

main
sh scripts/build-web.sh

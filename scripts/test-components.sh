#!/bin/sh
# Real components that some tests run against. As root on Debian or Ubuntu they are installed; otherwise this says what
# is missing, and those tests are skipped with the same reason. Nothing here is needed to use Holdfast.
set -eu

cd "$(dirname "$0")/.."
log=build/components.log

have_postgresql() {
    command -v initdb >/dev/null 2>&1 || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1
}

apt_install() {
    export DEBIAN_FRONTEND=noninteractive
    mkdir -p build
    apt-get install -y --no-install-recommends "$1" >"$log" 2>&1 && return 0
    apt-get update >>"$log" 2>&1 && apt-get install -y --no-install-recommends "$1" >>"$log" 2>&1
}

skipped() {
    printf 'PostgreSQL is not installed: its tests will be SKIPPED (%s).\n' "$1"
    printf '  To run them too:  sudo apt-get install -y postgresql\n'
}

if have_postgresql; then
    exit 0
elif [ "$(id -u)" != 0 ]; then
    skipped "only root can install it"
elif ! command -v apt-get >/dev/null 2>&1; then
    skipped "this system has no apt-get; install it your own way"
else
    echo "Installing PostgreSQL for the tests that run against it (once)"
    apt_install postgresql || {
        tail -n 5 "$log"
        skipped "apt-get failed; all of its output is in $log"
    }
fi

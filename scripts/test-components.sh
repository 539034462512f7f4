#!/bin/sh
# Real components that some tests run against. As root on Debian or Ubuntu they are installed; otherwise this says what
# is missing, and those tests are skipped with the same reason. Nothing here is needed to use Holdfast.
set -eu

cd "$(dirname "$0")/.."
log=build/components.log

have_postgresql() {
    command -v initdb >/dev/null 2>&1 || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1
}

have_openssh() {
    [ -x /usr/sbin/sshd ] && command -v ssh >/dev/null 2>&1
}

have_netcat() {
    command -v nc >/dev/null 2>&1
}

have_strace() {
    command -v strace >/dev/null 2>&1
}

have_git() {
    command -v git >/dev/null 2>&1
}

have_prometheus() {
    command -v prometheus >/dev/null 2>&1 && command -v promtool >/dev/null 2>&1
}

have_nginx() {
    [ -x /usr/sbin/nginx ] || command -v nginx >/dev/null 2>&1
}

have_caddy() {
    command -v caddy >/dev/null 2>&1
}

have_chromium() {
    for name in chromium-headless-shell chromium chromium-browser; do
        command -v "$name" >/dev/null 2>&1 && return 0
    done
    return 1
}

# Without windows it needs half the processor time; not every release has it so.
chromium_package() {
    if apt-cache show chromium-headless-shell >/dev/null 2>&1; then echo chromium-headless-shell; else echo chromium; fi
}

# Where services are started for whoever is installed, a test should not open the machine to logins, nor to queries.
may_install_services() {
    [ ! -d /run/systemd/system ]
}

apt_install() {
    export DEBIAN_FRONTEND=noninteractive
    mkdir -p build
    apt-get install -y --no-install-recommends "$@" >"$log" 2>&1 && return 0
    apt-get update >>"$log" 2>&1 && apt-get install -y --no-install-recommends "$@" >>"$log" 2>&1
}

# skipped NAME WHY PACKAGE...
skipped() {
    printf '%s is not installed: its tests will be SKIPPED (%s).\n' "$1" "$2"
    shift 2
    printf '  To run them too:  sudo apt-get install -y %s\n' "$*"
}

# component NAME PACKAGE...: called once it is known to be missing
component() {
    name=$1
    shift
    if [ "$(id -u)" != 0 ]; then
        skipped "$name" "only root can install it" "$@"
    elif ! command -v apt-get >/dev/null 2>&1; then
        skipped "$name" "this system has no apt-get; install it your own way" "$@"
    else
        echo "Installing $name for the tests that run against it (once)"
        apt_install "$@" || {
            tail -n 5 "$log"
            skipped "$name" "apt-get failed; all of its output is in $log" "$@"
        }
    fi
}

# service NAME PACKAGE...: the same, of what would run as a service
service() {
    if may_install_services; then
        component "$@"
    else
        name=$1
        shift
        skipped "$name" "installing it would start a service here" "$@"
    fi
}

have_postgresql || component PostgreSQL postgresql
have_git || component git git
have_strace || component strace strace
have_netcat || component netcat netcat-openbsd
have_chromium || component Chromium "$(chromium_package)" fonts-noto-cjk
have_openssh || service OpenSSH openssh-server openssh-client
have_prometheus || service Prometheus prometheus
have_nginx || service nginx nginx
have_caddy || service Caddy caddy

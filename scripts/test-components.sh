#!/bin/sh
# Installs the real components that some tests need, as root on Debian or Ubuntu. Otherwise it prints what is missing,
# and those tests are skipped with the same reason. Holdfast itself needs none of them.
set -eu

cd "$(dirname "$0")/.."
log=build/components.log

has_postgresql() {
    command -v initdb >/dev/null 2>&1 || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1
}

has_openssh() {
    [ -x /usr/sbin/sshd ] && command -v ssh >/dev/null 2>&1
}

has_netcat() {
    command -v nc >/dev/null 2>&1
}

has_strace() {
    command -v strace >/dev/null 2>&1
}

has_sudo() {
    command -v sudo >/dev/null
}

has_git() {
    command -v git >/dev/null 2>&1
}

has_prometheus() {
    command -v prometheus >/dev/null 2>&1 && command -v promtool >/dev/null 2>&1
}

has_nginx() {
    [ -x /usr/sbin/nginx ] || command -v nginx >/dev/null 2>&1
}

has_caddy() {
    command -v caddy >/dev/null 2>&1
}

has_docker_registry() {
    command -v docker-registry >/dev/null 2>&1
}

has_chromium() {
    for name in chromium-headless-shell chromium chromium-browser; do
        command -v "$name" >/dev/null 2>&1 && return 0
    done
    return 1
}

has_docker() {
    command -v dockerd >/dev/null 2>&1
}

has_podman() {
    command -v podman >/dev/null 2>&1 && command -v catatonit >/dev/null 2>&1
}

has_slurm() {
    [ -x /usr/sbin/slurmctld ] && [ -x /usr/sbin/munged ] && command -v sbatch >/dev/null 2>&1
}

has_slurm_accounting() {
    [ -x /usr/sbin/slurmdbd ] && [ -x /usr/sbin/mariadbd ] && command -v mariadb >/dev/null 2>&1
}

# A static one, from which an image is made.
has_busybox() {
    command -v busybox >/dev/null 2>&1 && ! ldd "$(command -v busybox)" >/dev/null 2>&1
}

# The headless shell needs half the CPU time; not every release has it.
print_chromium_package() {
    if apt-cache show chromium-headless-shell >/dev/null 2>&1; then echo chromium-headless-shell; else echo chromium; fi
}

# With systemd, installed services are started; tests must not open the machine to logins or queries.
can_install_services() {
    [ ! -d /run/systemd/system ]
}

apt_install() {
    export DEBIAN_FRONTEND=noninteractive
    mkdir -p build
    apt-get install -y --no-install-recommends "$@" >"$log" 2>&1 && return 0
    apt-get update >>"$log" 2>&1 && apt-get install -y --no-install-recommends "$@" >>"$log" 2>&1
}

# print_skipped NAME REASON PACKAGE...
print_skipped() {
    printf '%s is not installed: its tests will be SKIPPED (%s).\n' "$1" "$2"
    shift 2
    printf '  To run them too:  sudo apt-get install -y %s\n' "$*"
}

# install_component NAME PACKAGE...: installs a missing component, or prints why not
install_component() {
    name=$1
    shift
    if [ "$(id -u)" != 0 ]; then
        print_skipped "$name" "only root can install it" "$@"
    elif ! command -v apt-get >/dev/null 2>&1; then
        print_skipped "$name" "this system has no apt-get; install it your own way" "$@"
    else
        echo "Installing $name for the tests that run against it (once)"
        apt_install "$@" || {
            tail -n 5 "$log"
            print_skipped "$name" "apt-get failed; all of its output is in $log" "$@"
        }
    fi
}

# install_service NAME PACKAGE...: the same for a component that would run as a service
install_service() {
    if can_install_services; then
        install_component "$@"
    else
        name=$1
        shift
        print_skipped "$name" "installing it would start a service here" "$@"
    fi
}

has_postgresql || install_component PostgreSQL postgresql
has_git || install_component git git
has_strace || install_component strace strace
has_sudo || install_component sudo sudo
has_netcat || install_component netcat netcat-openbsd
has_chromium || install_component Chromium "$(print_chromium_package)" fonts-noto-cjk
has_openssh || install_service OpenSSH openssh-server openssh-client
has_prometheus || install_service Prometheus prometheus
has_nginx || install_service nginx nginx
has_busybox || install_component busybox busybox-static
has_podman || install_component Podman podman crun runc conmon netavark catatonit
has_docker || install_service Docker docker.io
has_slurm || install_service Slurm slurm-wlm slurm-client munge
has_slurm_accounting || install_service "Slurm accounting" slurmdbd mariadb-server-core mariadb-client-core
has_caddy || install_service Caddy caddy
has_docker_registry || install_service docker-registry docker-registry

#!/bin/sh
# Runs the tests of the Slurm engine with the Slurm of another Debian release.
#
#   scripts/test-slurm-version.sh SUITE [PYTEST ARGUMENTS]    SUITE: trixie (24.11), sid, ...
#
# Needs root, and apt on Debian or Ubuntu. The packages are unpacked in a folder of the user's cache; neither apt's sources
# nor the packages of this machine change. The daemons, the commands of Slurm and the tasks run in that folder by chroot.
# What it mounts there is visible to this script only, and ends with it.
set -eu

cd "$(dirname "$0")/.."
suite=${1:?usage: scripts/test-slurm-version.sh SUITE [PYTEST ARGUMENTS]}
shift
cache=${XDG_CACHE_HOME:-$HOME/.cache}/holdfast/slurm-$suite
root=$cache/root
tests="tests/contracts/test_engine_slurm.py $(echo tests/engines/test_slurm_*.py) tests/e2e/test_slurm*.py"
packages="slurmctld slurmd slurm-client slurmdbd munge base-files bash dash bubblewrap coreutils findutils grep gzip hostname
    libc-bin mawk netcat-openbsd procps python3 sed tar util-linux"
programs="slurmctld slurmd slurmdbd munged sbatch squeue scancel scontrol sinfo srun sacct sacctmgr sstat"

# With a configuration and a state of its own.
configure_apt() {
    mkdir -p "$cache/etc/apt/apt.conf.d" "$cache/etc/apt/preferences.d" "$cache/state/lists/partial" \
        "$cache/packages/archives/partial"
    : >"$cache/state/status"
    key=$(ls /usr/share/keyrings/debian-archive-keyring.* | head -n 1)
    echo "deb [signed-by=$key] http://deb.debian.org/debian $suite main" >"$cache/etc/apt/sources.list"
    {
        echo "Dir \"$cache/\"; Dir::Etc \"etc/apt\"; Dir::State \"state\"; Dir::Cache \"packages\";"
        echo "Dir::State::status \"$cache/state/status\"; APT::Install-Recommends \"false\";"
        echo 'APT::Sandbox::User "root"; Acquire::Check-Valid-Until "false";' # a mirror may lag behind
    } >"$cache/apt.conf"
    export APT_CONFIG="$cache/apt.conf"
}

unpack_packages() {
    rm -rf "$root" && mkdir -p "$root"
    # First what creates /bin and /lib as links.
    for file in "$cache"/packages/archives/base-files_*.deb "$cache"/packages/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$file" | tar -x -C "$root" --keep-directory-symlink
    done
    # What the packages' own scripts would do.
    for path in "$root"/usr/sbin/*-wlm; do
        ln -sfn "${path##*/}" "${path%-wlm}"
    done
    ln -sfn mawk "$root/usr/bin/awk"
    ln -sfn nc.openbsd "$root/usr/bin/nc"
    chroot "$root" /sbin/ldconfig
    for name in passwd group hosts resolv.conf nsswitch.conf hostname; do
        : >"$root/etc/$name"
    done
    mkdir -p "$root/var/lib/slurm" "$root/work"
}

write_commands() {
    mkdir -p "$cache/bin"
    for name in $programs; do
        path=/usr/bin/$name # not by PATH: a test may put a command of its own before it
        [ -e "$root$path" ] || path=/usr/sbin/$name
        printf '#!/bin/sh\nexec chroot %s %s "$@"\n' "'$root'" "$path" >"$cache/bin/$name"
        chmod 755 "$cache/bin/$name"
    done
}

if [ ! -e "$cache/complete" ]; then
    configure_apt
    apt-get -q update
    # shellcheck disable=SC2086 # a list of packages
    apt-get -q -y --download-only install $packages
    unpack_packages
    rm -rf "$cache/packages" "$cache/state"
    touch "$cache/complete"
fi

if [ "${HOLDFAST_SLURM_MOUNTED:-}" != "$suite" ]; then
    HOLDFAST_SLURM_MOUNTED=$suite exec unshare --mount --propagation private sh scripts/test-slurm-version.sh "$suite" "$@"
fi

write_commands
for path in /dev /proc /sys /tmp; do
    mkdir -p "$root$path"
    mount --rbind "$path" "$root$path"
done
for path in /etc/passwd /etc/group /etc/hosts /etc/resolv.conf /etc/nsswitch.conf /etc/hostname; do
    [ ! -e "$path" ] || mount --bind "$path" "$root$path"
done
export PATH="$cache/bin:$PATH"
slurmctld -V
[ "$#" -gt 0 ] || set -- -q
# shellcheck disable=SC2086 # a list of files
case "$*" in *tests/*) tests= ;; esac
exec .venv/bin/python -m pytest -m 'release or not release' -p no:cacheprovider "$@" $tests

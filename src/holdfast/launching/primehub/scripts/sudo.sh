#!/bin/sh
# Runs a command as root, as the whole job does, or as another user of the image.
usage() {
    echo "sudo: $1" >&2
    echo 'sudo: usage: sudo [-AbEHiknPSsv] [-u USER] [-p PROMPT] [NAME=VALUE]... COMMAND;' >&2
    echo 'sudo: install sudo in the image for other options.' >&2
    exit 1
}
need() {
    [ "$1" -ge 2 ] || usage "option $2 needs a value"
}
user=root
shell=
background=
home=
[ "$(id -u)" = 0 ] || usage 'only root can become root, and this program does not run as root'
while [ $# -gt 0 ]; do
    case $1 in
    --) shift; break ;;
    -u | --user) need $# "$1"; user=$2; shift ;;
    --user=*) user=${1#*=} ;;
    -p | --prompt) need $# "$1"; shift ;;
    --prompt=* | --preserve-env | --preserve-env=* | --non-interactive | --stdin | --askpass | --preserve-groups) ;;
    --set-home) home=yes ;;
    --login | --shell) shell=yes ;;
    --background) background=yes ;;
    --validate | --reset-timestamp | --remove-timestamp) [ $# -gt 1 ] || exit 0 ;;
    --*) usage "unknown option $1" ;;
    -?*)
        options=${1#-}
        while [ -n "$options" ]; do
            rest=${options#?}
            case ${options%"$rest"} in
            u)
                if [ -n "$rest" ]; then user=$rest; else need $# -u; user=$2; shift; fi
                rest=
                ;;
            p)
                if [ -z "$rest" ]; then need $# -p; shift; fi
                rest=
                ;;
            E | n | S | A | P) ;;
            H) home=yes ;;
            i | s) shell=yes ;;
            b) background=yes ;;
            v | k | K) [ $# -gt 1 ] || [ -n "$rest" ] || exit 0 ;;
            *) usage "unknown option -${options%"$rest"}" ;;
            esac
            options=$rest
        done
        ;;
    [A-Za-z_]*=*)
        name=${1%%=*}
        case $name in
        *[!A-Za-z0-9_]*) break ;;
        esac
        export "$1"
        ;;
    *) break ;;
    esac
    shift
done
if [ $# = 0 ]; then
    [ -n "$shell" ] || usage 'there is no command to run'
    set -- "${SHELL:-/bin/sh}"
fi
[ -z "$home" ] || export HOME=/root
case $user in
root | '#0' | 0) ;;
*)
    uid=$(id -u "${user#'#'}" 2>/dev/null) || usage "there is no user $user in this image"
    command -v setpriv >/dev/null || usage "becoming $user needs setpriv (util-linux) in the image"
    set -- setpriv "--reuid=$uid" "--regid=$(id -g "${user#'#'}")" --init-groups -- "$@"
    ;;
esac
command -v -- "$1" >/dev/null || { echo "sudo: $1: command not found" >&2; exit 1; }
if [ -n "$background" ]; then
    "$@" &
    exit 0
fi
exec "$@"

#!/bin/sh
# Runs a task's command inside its sandbox. When the command fails it reports that and waits until it is stopped, so
# that the task's files and processes stay as they are. It only uses shell builtins.
#
#   hold.sh NOTES COMMAND [ARG...]
#
# NOTES is the task's notes folder. A task that is being stopped is not held.

main() {
    notes=$1
    shift
    ended=
    trap 'ended=yes' TERM INT HUP
    "$@"
    code=$?
    if [ "$code" = 0 ] || [ -n "$ended" ]; then
        exit "$code"
    fi
    if ! echo "held $code" >"$notes/held"; then
        echo 'This task cannot be held: its notes folder is not writable.' >&2
        exit "$code"
    fi
    while [ -z "$ended" ]; do
        kill -STOP "$$"
    done
    exit "$code"
}

main "$@"
exit

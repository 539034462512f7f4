#!/bin/sh
# Runs a task's command inside its sandbox. When the command fails it says so and stands still, so that everything the
# task has stays as it was, until it is asked to end. It uses nothing but shell builtins.
#
#   hold.sh NOTES COMMAND [ARG...]
#
# NOTES is the task's folder of notes. A task that is being stopped is not held.

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
        echo 'This task cannot be held: its folder of notes cannot be written.' >&2
        exit "$code"
    fi
    while [ -z "$ended" ]; do
        kill -STOP "$$"
    done
    exit "$code"
}

main "$@"
exit

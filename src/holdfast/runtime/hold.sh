#!/bin/sh
# Runs a task's command inside its sandbox. When the command fails it reports that and waits until it is stopped, so
# that the task's files and processes stay as they are. It only uses shell builtins.
#
#   hold.sh NOTES COMMAND [ARG...]
#
# NOTES is the task's notes folder. A task that is being stopped is not held. The variables of this script have a
# prefix, since those of the task are beside them.

main() {
    _holdfast_notes=$1
    shift
    _holdfast_ended=
    trap '_holdfast_ended=yes' TERM INT HUP
    "$@"
    _holdfast_code=$?
    if [ "$_holdfast_code" = 0 ] || [ -n "$_holdfast_ended" ]; then
        exit "$_holdfast_code"
    fi
    if ! echo "held $_holdfast_code" >"$_holdfast_notes/held"; then
        echo 'This task cannot be held: its notes folder is not writable.' >&2
        exit "$_holdfast_code"
    fi
    while [ -z "$_holdfast_ended" ]; do
        kill -STOP "$$"
    done
    exit "$_holdfast_code"
}

main "$@"
exit

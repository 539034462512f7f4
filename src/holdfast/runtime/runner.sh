#!/bin/sh
# Runs one task attempt and records its exit. It outlives the server, and only uses shell builtins.
#
#   runner.sh WORKDIR CLAIM JOINS COMMAND [ARG...]
#
# fd 9 is the claim file, opened and locked by our parent: we inherit the lock and hold it until we exit. The first line
# that we add is our pid, the last one the exit code; between them are the line `ready`, written just before the command
# runs, and bubblewrap's report, on fd 8.
# JOINS names the cgroup.procs files to join, one on each line. The command inherits fd 5 and 7.
# The variables of this script have a prefix: without a sandbox, those of the task are beside them.

# One function, so that the shell reads the whole file before it runs: an upgrade may replace the file.
main() {
    _holdfast_workdir=$1
    _holdfast_claim=$2
    _holdfast_joins=$3
    shift 3
    umask 022
    IFS='
'
    {
        IFS=' ' read -r _holdfast_pid _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _holdfast_started _ </proc/self/stat
    } 2>/dev/null || exit 125
    # Unless this line is written nothing has run, and starting again is safe.
    echo "run $_holdfast_pid $_holdfast_started" >&9 || exit 125
    (
        # Here and not above: we must survive when the task is killed for its memory.
        for _holdfast_procs in $_holdfast_joins; do
            echo 0 >"$_holdfast_procs" || exit 125
        done
        unset IFS
        cd "$_holdfast_workdir" || exit 125
        unset PWD OLDPWD # where the server works is nothing for the task to see
        echo ready >&9
        exec "$@" 8>>"$_holdfast_claim" 9>&-
    )
    _holdfast_code=$?
    IFS=' ' read -r _holdfast_now _ </proc/uptime
    echo "end $_holdfast_code $_holdfast_now" >&9
}

main "$@"
exit

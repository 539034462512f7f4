#!/bin/sh
# Runs one task attempt and writes down how it went. It outlives the server, and uses nothing but shell builtins.
#
#   runner.sh WORKDIR CLAIM JOINS COMMAND [ARG...]
#
# fd 9 is the claim file, opened and locked by whoever started us: the lock lives exactly as long as we do. The first
# line we add says who runs it, the last one how it ended; between them lie word that the command is next to run, and
# bubblewrap's own report, on fd 8.
# JOINS names the cgroup.procs files to enter, one on each line. The command gets fd 5 and 7 as they came.

# One function, so that the whole file is read before any of it runs: an upgrade may replace it meanwhile.
main() {
    workdir=$1
    claim=$2
    joins=$3
    shift 3
    umask 022
    IFS='
'
    {
        IFS=' ' read -r pid _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ started _ </proc/self/stat
    } 2>/dev/null || exit 125
    # Unless this line is written nothing has run, and starting again is safe.
    echo "run $pid $started" >&9 || exit 125
    (
        # Here and not above: we must survive when the task is killed for its memory.
        for procs in $joins; do
            echo 0 >"$procs" || exit 125
        done
        unset IFS
        cd "$workdir" || exit 125
        unset PWD OLDPWD # where the server works is nothing for the task to see
        echo ready >&9
        exec "$@" 8>>"$claim" 9>&-
    )
    code=$?
    IFS=' ' read -r now _ </proc/uptime
    echo "end $code $now" >&9
}

main "$@"
exit

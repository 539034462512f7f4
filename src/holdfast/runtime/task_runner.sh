#!/bin/sh
# Runs one task attempt where the engine starts it, and records its exit. It only uses shell builtins.
#
#   task_runner.sh                    takes the claim, loads the task's variables, and runs itself again as
#   task_runner.sh run SHELL          which runs the task's command with that shell; for an image's user, by way of
#   task_runner.sh start COMMAND...   which loads the task's variables only then: none may have an effect as root
#
# The other files of the task are in the same folder. The claim is a new file: of two runs only one can create it, and the
# other exits with 125 before the task's first command. The variables of this script have a prefix, since those of the
# task are loaded beside them.

take_claim() {
    umask 022
    { true >>"$_holdfast_folder/stdout" && true >>"$_holdfast_folder/stderr"; } 2>/dev/null || exit 125
    exec >>"$_holdfast_folder/stdout" 2>>"$_holdfast_folder/stderr"
    {
        IFS=' ' read -r _holdfast_pid _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _holdfast_started _ </proc/self/stat
    } 2>/dev/null || exit 125
    set -C
    { echo "run $_holdfast_pid $_holdfast_started" >"$_holdfast_folder/report/claim"; } 2>/dev/null || exit 125
    set +C
    for SHELL in /bin/bash /usr/bin/bash /usr/local/bin/bash /bin/sh /usr/bin/sh; do
        [ ! -x "$SHELL" ] || break
    done
    export SHELL
    set -- "$SHELL"
    . "$_holdfast_folder/task"
    [ -n "$_holdfast_user" ] || . "$_holdfast_folder/env"
    # As a new program, so that sessions find the task's variables in its environment.
    exec /bin/sh "$0" run "$1"
}

run_command() {
    # A stop signals every process of the task; this one must survive to record the exit.
    trap : TERM INT HUP QUIT USR1 USR2 ALRM PIPE
    . "$_holdfast_folder/task"
    case $1 in *bash) _holdfast_options=$_holdfast_bash_options ;; esac
    if [ -n "$_holdfast_entry" ]; then
        set -- "$@" "$_holdfast_folder/entry" "$_holdfast_folder/script"
    else
        for _holdfast_option in $_holdfast_options; do
            set -- "$@" -o "$_holdfast_option"
        done
        set -- "$@" "$_holdfast_folder/script"
    fi
    if [ -n "$_holdfast_hold" ]; then
        set -- "$1" "$_holdfast_folder/hold" "$_holdfast_folder/notes" "$@"
    fi
    _holdfast_mode=
    if [ -n "$_holdfast_user" ]; then
        set -- "$_holdfast_folder/run-as-user" /bin/sh "$0" start "$@"
        _holdfast_mode='-m 0777' # for the image's user, who does not own a new folder
    fi
    if [ -n "$_holdfast_workdir" ]; then
        [ -d "$_holdfast_workdir" ] || mkdir -p $_holdfast_mode -- "$_holdfast_workdir" || record_exit 1
        cd -- "$_holdfast_workdir" || record_exit 1
        unset OLDPWD
    fi
    # Without its own stderr: a shell reports there that its command was killed.
    exec 3>&2 2>/dev/null
    (exec "$@" 2>&3 3>&-)
    record_exit "$?"
}

start_command() {
    . "$_holdfast_folder/env"
    exec "$@"
}

record_exit() {
    IFS=' ' read -r _holdfast_now _ </proc/uptime
    _holdfast_oom=-
    for _holdfast_file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
        [ -r "$_holdfast_file" ] || continue
        while IFS=' ' read -r _holdfast_key _holdfast_value; do
            [ "$_holdfast_key" != oom_kill ] || _holdfast_oom=$_holdfast_value
        done <"$_holdfast_file"
    done
    echo "end $1 $_holdfast_now $_holdfast_oom" >>"$_holdfast_folder/report/claim"
    exit "$1"
}

_holdfast_folder=${0%/*}
case $1 in
    run) run_command "$2" ;;
    start) shift && start_command "$@" ;;
    *) take_claim ;;
esac
exit

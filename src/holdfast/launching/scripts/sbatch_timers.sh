# The script keeps the process id of this shell. Timers are no children of it, so that it never waits for them.
signal_later() {
    ( ( sleep "$1" && kill -s "$2" "$$" ) >/dev/null 2>&1 & )
}
stop_later() {
    (
        (
            exec >/dev/null
            sleep "$1" || exit
            echo "[holdfast] The time limit of this task has expired." >&2
            exec 2>/dev/null
            kill -s TERM "$$" && sleep 30 && kill -s KILL "$$"
        ) &
    )
}

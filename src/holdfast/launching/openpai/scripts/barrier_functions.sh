waited=0
pause=1
rest() {
    if [ "$waited" -ge @seconds@ ]; then
        say ERROR "SSH barrier reaches max retry count: $1 did not respond within @seconds@ seconds."
        exit 249
    fi
    sleep "$pause"
    waited=$((waited + pause))
    pause=$((pause < 10 ? pause + 1 : 10))
}
reach() {
    for host in @others@; do
        until ssh -o BatchMode=yes -o ConnectTimeout=10 "$host" "$1" </dev/null 2>/dev/null; do
            rest "$host"
        done
    done
}

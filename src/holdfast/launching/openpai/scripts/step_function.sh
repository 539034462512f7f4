__step() {
    [ -z "$__ended" ] || exit "$__ended"
    if [ "$3" = ignore ]; then
        __run "$1"
    else
        __run -o errexit "$1"
    fi
    __code=$?
    [ -z "$__ended" ] || exit "$__ended"
    [ "$__code" != 0 ] || return 0
    if [ "$3" = ignore ]; then
        say WARN "The runtime plugin $2 failed with code $__code; the job ignores it (failurePolicy)."
    else
        say ERROR "The runtime plugin $2 failed with code $__code."
        exit "$__code"
    fi
}

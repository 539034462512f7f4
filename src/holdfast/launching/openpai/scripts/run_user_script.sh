[ -z "$__ended" ] || exit "$__ended"
if [ -n "${BASH_VERSION-}" ]; then
    __run@options@ "$__script"
else
    __run@posix@ "$__script"
fi
__code=$?
[ "$__code$__ended" = 0 ] || exit "$__code"

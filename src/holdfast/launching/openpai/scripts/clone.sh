code=$PAI_RUNTIME_DIR/code
target=@target@
case $target in
"~" | "~/"*) target=$HOME${target#"~"} ;;
esac
if ! command -v git >/dev/null; then
    say ERROR 'The runtime plugin git needs git, which is not in the image.'
    exit 1
fi
if [ -e "$target" ] && { [ ! -d "$target" ] || [ -n "$(ls -A "$target")" ]; }; then
    say ERROR "The runtime plugin git cannot clone to $target: it already exists."
    exit 1
fi
export GIT_TERMINAL_PROMPT=0
try=1
pause=1
while :; do
    rm -rf "$code"
    ! git clone@options@ -- @repository@ "$code" >&2 || break
    if [ "$try" -ge @tries@ ]; then
        say ERROR 'Cannot clone the repository; no retries are left.'
        exit 1
    fi
    say WARN "Cannot clone the repository; retrying in $pause seconds."
    sleep "$pause"
    try=$((try + 1))
    pause=$((pause * 2 < @longest@ ? pause * 2 : @longest@))
done
if [ "$target" != "$code" ]; then
    mkdir -p "$target"
    rmdir "$target"
    mv "$code" "$target"
fi

if [ "$__uid" = 0 ] && ! command -v sudo >/dev/null && command -v chmod >/dev/null; then
    for __place in /usr/bin /usr/local/bin /run/primehub; do
        [ -d "$__place" ] || mkdir -p "$__place" 2>/dev/null
        if printf %s @script@ >"$__place/sudo" && chmod 0755 "$__place/sudo"; then
            command -v sudo >/dev/null || PATH=$PATH:$__place
            break
        fi 2>/dev/null
    done
fi

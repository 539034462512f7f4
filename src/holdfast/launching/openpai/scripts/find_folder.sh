PAI_WORK_DIR=$PWD
PAI_RUNTIME_DIR=
for __place in @places@; do
    if mkdir -p "$__place/runtime.d" "$__place/logs/@container@" &&
        printf %s @script@ >"$__place/runtime.d/user.sh"; then
        PAI_RUNTIME_DIR=$__place
        __script=$__place/runtime.d/user.sh
        break
    fi 2>/dev/null
done
export PAI_RUNTIME_DIR PAI_WORK_DIR

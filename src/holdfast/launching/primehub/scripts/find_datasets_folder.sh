# If the root filesystem is read-only, the links are in the home.
__datasets=/datasets
if { [ -d /datasets ] || mkdir -p /datasets 2>/dev/null; } && [ -w /datasets ]; then
    __link /datasets "$__home/datasets"
else
    __datasets=$__home/datasets
    if mkdir -p "$__datasets" 2>/dev/null; then
        __say '/datasets is not writable; use the folder datasets in your home instead.'
    else
        __why='the folder is not writable'
        command -v mkdir >/dev/null || __why='mkdir is not in the image'
        __say "Cannot create /datasets or the folder datasets in your home: $__why."
    fi
fi

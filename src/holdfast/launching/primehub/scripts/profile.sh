if [ -f @path@ ]; then
    __say 'group profile: '@path@
    . @path@
else
    echo 'group profile not found' >&2
fi

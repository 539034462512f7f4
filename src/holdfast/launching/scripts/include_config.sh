# The folder may be a user's own, mounted, and other jobs may use it at the same time: they keep their own config,
# included by one common line. Only clients from before 2016 do not support that. The file is replaced atomically, so
# that no reader gets half of it.
config=$ssh/config
[ ! -L "$config" ] || config=$(readlink -f "$config")
case $client in
OpenSSH_[1-6].* | OpenSSH_7.[0-2]*) include= ;;
*) include="Include \"$own/config\"" ;;
esac
if [ -z "$include" ] || ! grep -qsxF "$include" "$config"; then
    fresh=$config.$HOLDFAST_ATTEMPT
    {
        echo '# job-ssh begins'
        if [ -n "$include" ]; then
            echo "$include"
        else
            cat "$own/config"
            echo 'Host *'
        fi
        echo '# job-ssh ends'
        [ ! -f "$config" ] || sed '/^# job-ssh begins/,/^# job-ssh ends/d' "$config"
    } >"$fresh"
    mv -f "$fresh" "$config" 2>/dev/null || { cat "$fresh" >"$config" && rm -f "$fresh"; }
fi

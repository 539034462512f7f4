# Options for bash in the environment are for the command.
(
set +eu
umask 077
@find_ssh@
own=/run/holdfast/ssh
# Only root can write there, and in a container nobody can.
if ! mkdir -p "$own" 2>/dev/null; then
    own=${TMPDIR:-/tmp}/.holdfast-ssh-$HOLDFAST_ATTEMPT
    mkdir "$own" 2>/dev/null || own=
fi
(
set -e
[ -n "$own" ]
@write_key@
{
@hosts@
} >"$own/config"
@include_config@
) 2>/dev/null
if [ $? != 0 ]; then
@not_writable@
elif [ -z "$client" ]; then
@no_client@
fi
)

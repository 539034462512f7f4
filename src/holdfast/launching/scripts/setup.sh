# Options for bash in the environment are for the command.
(
set +eu
umask 077
@find_ssh@
own=/run/holdfast/ssh
(
set -e
mkdir -p "$own"
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

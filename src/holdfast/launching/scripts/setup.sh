# Options for bash in the environment are for the command.
(
set +eu
umask 077
@find@own=/run/holdfast/ssh
(
set -e
mkdir -p "$own"
@key@{
{hosts}} >"$own/config"
@tell@) 2>/dev/null
if [ $? != 0 ]; then
@not_written@elif [ -z "$client" ]; then
@no_client@fi
)

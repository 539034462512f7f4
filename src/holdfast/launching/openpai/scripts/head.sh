# A job may export options for bash; the entry has none. A termination signal goes to every process of the task: the
# entry waits for its child, so that the child's traps can run, and starts nothing more.
set +eu
__script=$1
__ended=
trap '__ended=143' TERM
trap '__ended=130' INT
trap '__ended=129' HUP
__shell=${BASH:-/bin/sh}
